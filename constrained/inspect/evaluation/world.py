"""Agent tasks in a small scripted warehouse, and whether a model reaches their goals.

An episode is drawn from a seed: items on shelves, and a goal in plain English. The model has three
tools. The goal is a change of the warehouse, or an answer; whether it is reached is decided by
comparing the items and the last number or id of the answer, so no second model judges.
"""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

from constrained.inspect.evaluation.asking import Asker, ModelAnswer, Tools
from grammars.schema.validator import Validator

MAX_TURNS = 8
"""The turns of the model in an episode, unless another limit is given."""
MAX_IDLE_TURNS = 2
"""The turns in a row that only repeat earlier calls, with the same results."""
_SHELVES = ("north", "south", "east", "west")
_KINDS = ("desk", "wall", "garden", "travel", "kitchen", "party")
_THINGS = ("lamp", "clock", "table", "chair", "mirror", "basket", "radio", "bench")
_LETTERS = "ABCDEFGHKMNPRSTWXZ"
_ITEMS = 9  # in a warehouse
_MAX_COUNT = 9999
_ID = re.compile(r"\b[A-Z]\d\d\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")


def _make_tool(
    name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] = ()
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_SHELF = {"type": "string", "enum": list(_SHELVES)}
_ITEM_ID = {"type": "string", "description": "The id of an item: a letter and two digits"}
TOOLS: Tools = (
    _make_tool(
        "find_items",
        "List the ids and names of items, by a word of the name or by the shelf",
        {"word": {"type": "string", "minLength": 1}, "shelf": _SHELF},
    ),
    _make_tool(
        "read_item",
        "Read the shelf, the count, the price and the replacement of an item",
        {"id": _ITEM_ID},
        required=["id"],
    ),
    _make_tool(
        "change_item",
        "Set the count of an item, or move it to another shelf",
        {
            "id": _ITEM_ID,
            "count": {"type": "integer", "minimum": 0, "maximum": _MAX_COUNT},
            "shelf": _SHELF,
        },
        required=["id"],
    ),
)
"""The tools of the warehouse, as OpenAI's API takes them."""


@dataclass(frozen=True)
class WarehouseItem:
    """An item of the warehouse; its price is in whole euros. `replaced_by` is the id of the item
    that replaces it."""

    id: str
    name: str
    shelf: str
    count: int
    price: int
    replaced_by: str | None = None


Stock: TypeAlias = Mapping[str, WarehouseItem]
"""Items by id."""


class Warehouse:
    """Items that the tools read and change. An error is told in the result of the call."""

    def __init__(self, stock: Stock):
        self.items = dict(stock)

    def execute(self, name: str, arguments: Any) -> str:
        if problem := find_problem(name, arguments):
            return f"error: {problem}"
        match name:
            case "find_items":
                return self._find(**arguments)
            case "read_item":
                return self._read(**arguments)
            case _:
                return self._change(**arguments)

    def _find(self, word: str = "", shelf: str = "") -> str:
        if not word and not shelf:
            return "error: word or shelf is required"
        found: list[Mapping[str, str]] = []
        for item in self.items.values():
            if word.lower() in item.name and shelf in ("", item.shelf):
                found.append({"id": item.id, "name": item.name})
        return json.dumps(found)

    def _read(self, id: str) -> str:
        if id not in self.items:
            return _tell_unknown(id)
        return json.dumps(asdict(self.items[id]))

    def _change(self, id: str, **changes: Any) -> str:
        if id not in self.items:
            return _tell_unknown(id)
        if not changes:
            return "error: nothing to change: count or shelf is required"
        self.items[id] = replace(self.items[id], **changes)
        return json.dumps({"changed": id, **changes})


def _tell_unknown(id: str) -> str:
    return f"error: there is no item with the id {json.dumps(id)}; find_items lists ids"


_VALIDATORS = {
    tool["function"]["name"]: Validator(tool["function"]["parameters"], {}) for tool in TOOLS
}


def find_problem(name: str, arguments: Any) -> str:
    """Returns why a call does not fit the schema of a tool; "" if it fits."""
    if name not in _VALIDATORS:
        return f"there is no tool {json.dumps(name)}; the tools are {', '.join(_VALIDATORS)}"
    try:
        error = _VALIDATORS[name].find_error(arguments)
    except (RecursionError, ValueError) as e:  # nested too deeply, or no JSON, such as NaN
        return f"the arguments cannot be read: {e}"
    if error is None:
        return ""
    path, message = error
    return f"{path[0]}: {message}" if path else message


@dataclass(frozen=True)
class Goal:
    """What is to be done."""

    text: str
    # fields of items that must be changed, by id; nothing else may be
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    # the number or id that the model must answer; None: there is no question
    answer: int | str | None = None

    def is_reached(self, before: Stock, after: Stock, text: str) -> bool:
        """Returns whether the items are as they must be after the episode, and the text of the last
        turn answers the question."""
        wanted = dict(before)
        for id, fields in self.changes.items():
            wanted[id] = replace(before[id], **fields)
        return after == wanted and self._is_answer(text)

    def _is_answer(self, text: str) -> bool:
        """Returns whether the last number, or the last id, is the answer. So a sum may be worked
        out in the text."""
        match self.answer:
            case None:
                return True
            case int(number):
                return [float(one) for one in _NUMBER.findall(text)[-1:]] == [number]
            case id:
                return _ID.findall(text)[-1:] == [id]


@dataclass(frozen=True)
class Episode:
    """A task with its warehouse. The same shape and seed are the same episode."""

    shape: str
    seed: int
    stock: Stock
    goal: Goal


class _Drawn:
    """A warehouse that is being drawn. Each item is handed out once."""

    def __init__(self, random: random.Random):
        self.random = random
        names = [f"{kind} {thing}" for kind in _KINDS for thing in _THINGS]
        numbers = random.sample(range(10, 100), _ITEMS)
        ids = [f"{random.choice(_LETTERS)}{number}" for number in numbers]
        self.items: dict[str, WarehouseItem] = {}
        for id, name in zip(ids, random.sample(names, _ITEMS), strict=True):
            count, price = random.randint(20, 400), random.randint(11, 900)
            self.items[id] = WarehouseItem(id, name, random.choice(_SHELVES), count, price)
        self._left = random.sample(ids, _ITEMS)

    def take(self) -> WarehouseItem:
        return self.items[self._left.pop()]

    def take_replaced(self) -> tuple[WarehouseItem, WarehouseItem]:
        """Hands out an item that another one replaces, and the other one."""
        old, new = self.take(), self.take()
        self.items[old.id] = replace(old, replaced_by=new.id)
        return self.items[old.id], new

    def fill(self, shelf: str, count: int) -> list[WarehouseItem]:
        """Hands out so many items that are on a shelf, which has no others."""
        for id, item in self.items.items():
            if item.shelf == shelf:
                others = [other for other in _SHELVES if other != shelf]
                self.items[id] = replace(item, shelf=self.random.choice(others))
        filled: list[WarehouseItem] = []
        for _ in range(count):
            item = replace(self.take(), shelf=shelf)
            self.items[item.id] = item
            filled.append(item)
        return filled

    def draw_shelf(self, *, but: str = "") -> str:
        return self.random.choice([shelf for shelf in _SHELVES if shelf != but])

    def draw_count(self, *, but: int = 0) -> int:
        count = self.random.randint(20, 400)
        return count if count != but else count + 1


def _set_count(drawn: _Drawn) -> Goal:
    item = drawn.take()
    count = drawn.draw_count(but=item.count)
    return Goal(f"Set the count of item {item.id} to {count}.", {item.id: {"count": count}})


def _name(item: WarehouseItem, *, by_id: bool) -> str:
    return f"item {item.id}" if by_id else f"the {item.name}"


def _move(drawn: _Drawn, *, by_id: bool) -> Goal:
    item = drawn.take()
    shelf = drawn.draw_shelf(but=item.shelf)
    text = f"Move {_name(item, by_id=by_id)} to the shelf {shelf}."
    return Goal(text, {item.id: {"shelf": shelf}})


def _read(drawn: _Drawn, *, field: str, by_id: bool) -> Goal:
    item = drawn.take()
    text = f"What is the {field} of {_name(item, by_id=by_id)}? Answer with the number."
    return Goal(text, answer=getattr(item, field))


def _find_id(drawn: _Drawn) -> Goal:
    item = drawn.take()
    return Goal(f"What is the id of the {item.name}? Answer with the id.", answer=item.id)


def _add(drawn: _Drawn, *, by_id: bool) -> Goal:
    item = drawn.take()
    more = drawn.random.randint(2, 9)
    text = f"{more} more pieces of {_name(item, by_id=by_id)} have arrived. Update its count."
    return Goal(text, {item.id: {"count": item.count + more}})


def _sum_counts(drawn: _Drawn) -> Goal:
    one, other = drawn.take(), drawn.take()
    text = f"What is the count of {one.id} and {other.id} together? Answer with the number."
    return Goal(text, answer=one.count + other.count)


def _read_replacement(drawn: _Drawn) -> Goal:
    old, new = drawn.take_replaced()
    text = f"What is the price of the item that replaces the {old.name}? Answer with the number."
    return Goal(text, answer=new.price)


def _refill(drawn: _Drawn) -> Goal:
    pair = [drawn.take(), drawn.take()]
    lower = min(pair, key=lambda item: item.count)
    if pair[0].count == pair[1].count:
        drawn.items[lower.id] = replace(lower, count=lower.count - 1)
    text = f"Of the items {pair[0].id} and {pair[1].id}, set the one with the lower count to 500."
    return Goal(text, {lower.id: {"count": 500}})


def _empty(drawn: _Drawn, *, count: int) -> Goal:
    shelf = drawn.draw_shelf()
    items = drawn.fill(shelf, count)
    target = drawn.draw_shelf(but=shelf)
    text = f"Move all items of the shelf {shelf} to the shelf {target}."
    return Goal(text, {item.id: {"shelf": target} for item in items})


def _transfer(drawn: _Drawn) -> Goal:
    giver, taker = drawn.take(), drawn.take()
    count = drawn.random.randint(2, 9)
    text = f"{count} pieces of item {giver.id} were in fact {taker.id}. Correct both counts."
    changes = {
        giver.id: {"count": giver.count - count},
        taker.id: {"count": taker.count + count},
    }
    return Goal(text, changes)


def _add_to_replacement(drawn: _Drawn) -> Goal:
    old, new = drawn.take_replaced()
    more = drawn.random.randint(2, 9)
    text = f"{more} more pieces of the item that replaces the {old.name} have arrived. "
    return Goal(text + "Update the count of that item.", {new.id: {"count": new.count + more}})


def _find_dearest(drawn: _Drawn) -> Goal:
    shelf = drawn.draw_shelf()
    items = drawn.fill(shelf, 3)
    text = f"What is the highest price of the items on the shelf {shelf}? Answer with the number."
    return Goal(text, answer=max(item.price for item in items))


SHAPES: Mapping[str, Callable[[_Drawn], Goal]] = {
    # 1 call
    "set a count": _set_count,
    "move": partial(_move, by_id=True),
    "read a count": partial(_read, field="count", by_id=True),
    "find an id": _find_id,
    # 2 calls
    "find and move": partial(_move, by_id=False),
    "find and read": partial(_read, field="price", by_id=False),
    "add to a count": partial(_add, by_id=True),
    "add two counts": _sum_counts,
    # 3 calls
    "find and add": partial(_add, by_id=False),
    "follow a reference": _read_replacement,
    "compare and set": _refill,
    "empty a shelf of two": partial(_empty, count=2),
    # 4 calls
    "empty a shelf of three": partial(_empty, count=3),
    "transfer": _transfer,
    "follow and add": _add_to_replacement,
    "read all of a shelf": _find_dearest,
}
"""The shapes of episodes, by the number of calls that each takes."""


def draw_episode(shape: str, seed: int) -> Episode:
    drawn = _Drawn(random.Random(f"{shape} {seed}"))
    goal = SHAPES[shape](drawn)
    return Episode(shape, seed, drawn.items, goal)


def draw_episodes(count: int, seed: int = 0) -> list[Episode]:
    """Draws so many episodes, one of each shape in turn."""
    episodes: list[Episode] = []
    for number in range(count):
        shape = [*SHAPES][number % len(SHAPES)]
        episodes.append(draw_episode(shape, seed + number // len(SHAPES)))
    return episodes


class EpisodeEnd(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"  # a turn without a call
    LIMIT = "limit"  # the turns were used up
    REPEATED = "repeated"  # too many turns in a row only repeated earlier calls
    CUT = "cut"  # the tokens ran out in a turn; its calls were not executed
    ERROR = "error"  # there was no turn


@dataclass(frozen=True)
class EpisodeResult:
    """What came of an episode."""

    reached: bool
    end: EpisodeEnd
    calls: int  # that were executed
    valid: bool  # all of these calls fit the schema of a tool
    # the turns. Since the world is scripted, they give the same result again.
    answers: Sequence[ModelAnswer]


def run_episode(episode: Episode, ask: Asker, *, max_turns: int = MAX_TURNS) -> EpisodeResult:
    """Lets a model work on a task, until a turn has no call.

    A change that is made counts even if the episode ends before the model says that it is done.
    """
    run = _Run(episode)
    end = None
    while end is None:
        end = run.take(ask([*run.messages], TOOLS))
        if end is None and len(run.answers) == max_turns:
            end = EpisodeEnd.LIMIT
    return run.finish(end)


class _Run:
    def __init__(self, episode: Episode):
        self._episode = episode
        self._warehouse = Warehouse(episode.stock)
        self._results: list[tuple[str, str, str]] = []  # names, arguments, results
        self._valid = True
        self._idle_turns = 0
        self.answers: list[ModelAnswer] = []
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": episode.goal.text}]

    def take(self, answer: ModelAnswer) -> EpisodeEnd | None:
        """Takes a turn and executes its calls; returns why the episode is over, if it is."""
        self.answers.append(answer)
        if answer.error:
            return EpisodeEnd.ERROR
        if answer.cut:
            return EpisodeEnd.CUT
        if not answer.calls:
            return EpisodeEnd.ANSWERED
        before = set(self._results)
        made: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for call in answer.calls:
            arguments = _write_arguments(call.arguments)
            self._valid = self._valid and not find_problem(call.name, call.arguments)
            content = self._warehouse.execute(call.name, call.arguments)
            self._results.append((call.name, arguments, content))
            id = f"call_{len(self._results)}"
            function = {"name": call.name, "arguments": arguments}
            made.append({"id": id, "type": "function", "function": function})
            results.append({"role": "tool", "tool_call_id": id, "content": content})
        message = {"role": "assistant", "content": answer.text, "tool_calls": made}
        self.messages += [message, *results]
        self._idle_turns = self._idle_turns + 1 if before == set(self._results) else 0
        return EpisodeEnd.REPEATED if self._idle_turns == MAX_IDLE_TURNS else None

    def finish(self, end: EpisodeEnd) -> EpisodeResult:
        episode, last = self._episode, self.answers[-1]
        text = last.text if end is EpisodeEnd.ANSWERED else ""
        return EpisodeResult(
            reached=episode.goal.is_reached(episode.stock, self._warehouse.items, text),
            end=end,
            calls=len(self._results),
            valid=self._valid,
            answers=tuple(self.answers),
        )


def _write_arguments(arguments: Any) -> str:
    """Returns arguments as the history has them: those that are no JSON object, which chat
    templates cannot write, are left out, and the result of their call says what is wrong."""
    if not isinstance(arguments, dict):
        return "{}"
    try:
        return json.dumps(arguments, allow_nan=False)
    except (RecursionError, ValueError):
        return "{}"
