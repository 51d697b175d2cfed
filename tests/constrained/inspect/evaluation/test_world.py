"""Agent tasks: each goal can be reached with what the tools tell, and by no accident."""

import json
import random
import re
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.inspect.evaluation.asking import Asker, Messages, ModelAnswer, Tools, WrittenCall
from constrained.inspect.evaluation.world import (
    SHAPES,
    TOOLS,
    EpisodeEnd,
    Warehouse,
    draw_episode,
    draw_episodes,
    find_problem,
    run_episode,
)

Plan = Generator[WrittenCall, str, str]
"""Yields calls, is sent their results, and returns the answer."""

shapes = st.sampled_from([*SHAPES])
seeds = st.integers(0, 2**32)
each_shape = pytest.mark.parametrize("shape", SHAPES)


def find(**arguments: str) -> Generator[WrittenCall, str, list[str]]:
    """Finds the ids of items."""
    found = json.loads((yield WrittenCall("find_items", arguments)))
    return [item["id"] for item in found]


def read(id: str) -> Generator[WrittenCall, str, dict[str, Any]]:
    return json.loads((yield WrittenCall("read_item", {"id": id})))


def change(id: str, **fields: Any) -> Generator[WrittenCall, str, None]:
    result = yield WrittenCall("change_item", {"id": id, **fields})
    assert json.loads(result) == {"changed": id, **fields}


def add(id: str, more: int) -> Plan:
    item = yield from read(id)
    yield from change(id, count=item["count"] + more)
    return "Done."


def set_count(id: str, count: str) -> Plan:
    yield from change(id, count=int(count))
    return "Done."


def move(id: str, shelf: str) -> Plan:
    yield from change(id, shelf=shelf)
    return "Done."


def read_count(id: str) -> Plan:
    item = yield from read(id)
    return f"There are {item['count']} of {id}."


def find_id(name: str) -> Plan:
    [id] = yield from find(word=name)
    return id


def move_named(name: str, shelf: str) -> Plan:
    [id] = yield from find(word=name.upper())
    yield from change(id, shelf=shelf)
    return "Done."


def read_price(name: str) -> Plan:
    [id] = yield from find(word=name)
    item = yield from read(id)
    return f"{item['price']}.00"


def add_by_id(more: str, id: str) -> Plan:
    return (yield from add(id, int(more)))


def sum_counts(one: str, other: str) -> Plan:
    first, second = (yield from read(one))["count"], (yield from read(other))["count"]
    return f"{first} + {second} = {first + second}."


def add_named(more: str, name: str) -> Plan:
    [id] = yield from find(word=name)
    return (yield from add(id, int(more)))


def read_replacement(name: str) -> Plan:
    [id] = yield from find(word=name)
    item = yield from read(id)
    other = yield from read(item["replaced_by"])
    return f"It costs €{other['price']}"


def refill(one: str, other: str) -> Plan:
    items = [(yield from read(one)), (yield from read(other))]
    lower = min(items, key=lambda item: item["count"])
    yield from change(lower["id"], count=500)
    return ""


def empty(shelf: str, target: str) -> Plan:
    for id in (yield from find(shelf=shelf)):
        yield from change(id, shelf=target)
    return "All are moved."


def transfer(count: str, giver: str, taker: str) -> Plan:
    yield from add(giver, -int(count))
    return (yield from add(taker, int(count)))


def add_to_replacement(more: str, name: str) -> Plan:
    [id] = yield from find(word=name)
    item = yield from read(id)
    return (yield from add(item["replaced_by"], int(more)))


def find_dearest(shelf: str) -> Plan:
    prices: list[int] = []
    for id in (yield from find(shelf=shelf)):
        item = yield from read(id)
        prices.append(item["price"])
    return f"**{max(prices)}**"


PLANS: Mapping[str, Callable[..., Plan]] = {
    r"Set the count of item (\w+) to (\d+)\.": set_count,
    r"Move item (\w+) to the shelf (\w+)\.": move,
    r"What is the count of item (\w+)\?.*": read_count,
    r"What is the id of the (.+)\?.*": find_id,
    r"Move the (.+) to the shelf (\w+)\.": move_named,
    r"What is the price of the (\w+ \w+)\?.*": read_price,
    r"(\d+) more pieces of item (\w+) have arrived.*": add_by_id,
    r"What is the count of (\w+) and (\w+) together.*": sum_counts,
    r"(\d+) more pieces of the (\w+ \w+) have arrived.*": add_named,
    r"What is the price of the item that replaces the (\w+ \w+).*": read_replacement,
    r"Of the items (\w+) and (\w+), set the one with the lower count to 500\.": refill,
    r"Move all items of the shelf (\w+) to the shelf (\w+)\.": empty,
    r"(\d+) pieces of item (\w+) were in fact (\w+)\. Correct both counts\.": transfer,
    r"(\d+) more pieces of the item that replaces the (\w+ \w+) have arrived.*": add_to_replacement,
    r"What is the highest price of the items on the shelf (\w+)\?.*": find_dearest,
}
"""What to do for each text of a goal."""


def choose_plan(goal: str) -> Plan:
    for pattern, plan in PLANS.items():
        if match := re.fullmatch(pattern, goal):
            return plan(*match.groups())
    raise AssertionError(goal)


class Solver:
    """Reaches every goal, with nothing but the messages."""

    def __init__(self) -> None:
        self._plan: Plan | None = None

    def __call__(self, messages: Messages, tools: Tools) -> ModelAnswer:
        try:
            if self._plan is None:
                self._plan = choose_plan(messages[-1]["content"])
                return ModelAnswer((next(self._plan),))
            return ModelAnswer((self._plan.send(messages[-1]["content"]),))
        except StopIteration as e:
            return ModelAnswer(text=e.value)


def do_nothing(messages: Messages, tools: Tools) -> ModelAnswer:
    return ModelAnswer()


class Guesser:
    """Makes random valid calls, with ids that it has read; ends with a number or an id."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def __call__(self, messages: Messages, tools: Tools) -> ModelAnswer:
        text = " ".join(message["content"] for message in messages)
        id = self._random.choice(re.findall(r"\b[A-Z]\d\d\b", text) or ["A10"])
        if self._random.random() < 0.2:
            return ModelAnswer(text=self._random.choice([id, str(self._random.randint(1, 900))]))
        shelf = self._random.choice(["north", "south", "east", "west"])
        count = self._random.randint(1, 500)
        call = self._random.choice(
            [
                WrittenCall("find_items", {"shelf": shelf}),
                WrittenCall("read_item", {"id": id}),
                WrittenCall("change_item", {"id": id, "shelf": shelf}),
                WrittenCall("change_item", {"id": id, "count": count}),
            ]
        )
        assert not find_problem(call.name, call.arguments)
        return ModelAnswer((call,))


@given(shapes, seeds)
def test_every_goal_can_be_reached(shape: str, seed: int) -> None:
    episode = draw_episode(shape, seed)
    result = run_episode(episode, Solver())
    assert result.reached
    assert result.end is EpisodeEnd.ANSWERED
    assert result.calls == 1 + [*SHAPES].index(shape) // 4
    assert len(result.answers) == result.calls + 1
    assert result.valid


@given(shapes, seeds)
def test_a_goal_is_not_reached_by_doing_nothing(shape: str, seed: int) -> None:
    result = run_episode(draw_episode(shape, seed), do_nothing)
    assert not result.reached
    assert (result.end, len(result.answers), result.calls) == (EpisodeEnd.ANSWERED, 1, 0)


@given(shapes, seeds)
def test_an_answer_that_is_wrong_reaches_nothing(shape: str, seed: int) -> None:
    solve = Solver()

    def mislead(messages: Messages, tools: Tools) -> ModelAnswer:
        answer = solve(messages, tools)
        return answer if answer.calls else ModelAnswer(text=f"{answer.text} Or rather 901, of Q10")

    episode = draw_episode(shape, seed)
    assert run_episode(episode, mislead).reached == (episode.goal.answer is None)


@given(shapes, seeds)
def test_a_change_too_many_is_not_the_goal(shape: str, seed: int) -> None:
    solve = Solver()
    episode = draw_episode(shape, seed)
    item = next(item for item in episode.stock.values() if item.id not in episode.goal.changes)
    call = WrittenCall("change_item", {"id": item.id, "count": item.count + 1})

    def begin_wrongly(messages: Messages, tools: Tools) -> ModelAnswer:
        goal, *rest = messages
        return solve([goal, *rest[2:]], tools) if rest else ModelAnswer((call,))

    result = run_episode(episode, begin_wrongly)
    assert result.end is EpisodeEnd.ANSWERED
    assert not result.reached


def test_guesses_practically_never_reach_a_goal() -> None:
    episodes = draw_episodes(1600)
    reached = [run_episode(one, Guesser(number)).reached for number, one in enumerate(episodes)]
    assert sum(reached) <= 16


def test_shapes_come_in_turn() -> None:
    assert len(SHAPES) == 16
    assert [one.shape for one in draw_episodes(len(SHAPES))] == [*SHAPES]


@given(shapes, seeds)
def test_a_seed_is_an_episode(shape: str, seed: int) -> None:
    assert draw_episode(shape, seed) == draw_episode(shape, seed)
    assert draw_episode(shape, seed) != draw_episode(shape, seed + 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
near_arguments = st.dictionaries(st.sampled_from(["id", "word", "shelf", "count"]), json_values)
names = st.sampled_from([tool["function"]["name"] for tool in TOOLS]) | st.text()


@given(names, near_arguments | json_values)
def test_any_call_has_a_result(name: str, arguments: Any) -> None:
    """It is an error exactly if the call is not valid, or names what there is not."""
    answers = iter([ModelAnswer((WrittenCall(name, arguments),)), ModelAnswer()])
    seen: list[Messages] = []

    def ask(messages: Messages, tools: Tools) -> ModelAnswer:
        seen.append(messages)
        return next(answers)

    episode = draw_episode("move", 0)
    result = run_episode(episode, ask)
    assert result.valid == (not find_problem(name, arguments))
    _, made, told = seen[-1]
    assert isinstance(json.loads(made["tool_calls"][0]["function"]["arguments"]), dict)
    assert told["tool_call_id"] == made["tool_calls"][0]["id"]
    assert told["content"].startswith("error: ") or result.valid


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_item", {"id": "Q10"}, 'there is no item with the id "Q10"; find_items lists ids'),
        ("read_item", {}, '"id" is a required property'),
        ("change_item", {"id": "Q10", "count": 5}, "there is no item"),
        ("change_item", {"id": "Q10", "count": "five"}, "count: "),
        ("change_item", {"id": "Q10", "shelf": "top"}, "shelf: "),
        ("find_items", {}, "word or shelf is required"),
        ("find_items", "lamp", "is not of type"),
        ("ring", {}, 'there is no tool "ring"; the tools are find_items, read_item, change_item'),
    ],
)
def test_errors_are_results(name: str, arguments: Any, told: str) -> None:
    result = Warehouse(draw_episode("move", 0).stock).execute(name, arguments)
    assert result.startswith("error: ")
    assert told in result


def test_arguments_that_nest_too_deeply_are_an_error() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    answers = iter([ModelAnswer((WrittenCall("read_item", {"id": deep}),)), ModelAnswer()])
    result = run_episode(draw_episode("move", 0), lambda messages, tools: next(answers))
    assert not result.valid


def test_a_change_without_fields_is_an_error() -> None:
    episode = draw_episode("move", 0)
    id = next(iter(episode.stock))
    result = Warehouse(episode.stock).execute("change_item", {"id": id})
    assert result == "error: nothing to change: count or shelf is required"


def repeat(answer: ModelAnswer) -> Asker:
    return lambda messages, tools: answer


def test_an_episode_ends_after_so_many_turns() -> None:
    seen: list[ModelAnswer] = []

    def count_up(messages: Messages, tools: Tools) -> ModelAnswer:
        call = WrittenCall("find_items", {"word": "lamp" * (len(seen) + 1)})
        seen.append(ModelAnswer((call,)))
        return seen[-1]

    result = run_episode(draw_episode("move", 0), count_up, max_turns=5)
    assert result.end is EpisodeEnd.LIMIT
    assert result.answers == tuple(seen)
    assert len(seen) == 5


def test_turns_that_only_repeat_calls_end_an_episode() -> None:
    answer = ModelAnswer((WrittenCall("find_items", {"word": "lamp"}),))
    result = run_episode(draw_episode("move", 0), repeat(answer))
    assert (result.end, len(result.answers)) == (EpisodeEnd.REPEATED, 3)


def test_a_call_that_has_another_result_is_no_repetition() -> None:
    episode = draw_episode("set a count", 0)
    [(id, fields)] = episode.goal.changes.items()
    look = WrittenCall("read_item", {"id": id})
    change = WrittenCall("change_item", {"id": id, **fields})
    answers = iter([*(ModelAnswer((call,)) for call in (look, change, look)), ModelAnswer()])
    result = run_episode(episode, lambda messages, tools: next(answers))
    assert (result.reached, result.end) == (True, EpisodeEnd.ANSWERED)


def test_what_is_done_counts_at_the_limit() -> None:
    result = run_episode(draw_episode("move", 0), Solver(), max_turns=1)
    assert (result.reached, result.end) == (True, EpisodeEnd.LIMIT)


def test_calls_of_a_turn_that_is_cut_are_not_executed() -> None:
    episode = draw_episode("move", 0)
    answer = Solver()([{"content": episode.goal.text}], TOOLS)
    cut = ModelAnswer(answer.calls, cut=True)
    result = run_episode(episode, repeat(cut))
    assert (result.reached, result.end, result.calls) == (False, EpisodeEnd.CUT, 0)


def test_an_error_ends_the_episode() -> None:
    result = run_episode(draw_episode("read a count", 0), repeat(ModelAnswer(error="no memory")))
    assert (result.reached, result.end) == (False, EpisodeEnd.ERROR)


@each_shape
def test_kept_answers_give_the_same_result(shape: str) -> None:
    episode = draw_episode(shape, 3)
    result = run_episode(episode, Solver())
    answers = iter(result.answers)
    assert run_episode(episode, lambda messages, tools: next(answers)) == result


def test_parallel_calls_are_executed_in_order() -> None:
    episode = draw_episode("empty a shelf of two", 1)
    changes = [{"id": id, **fields} for id, fields in episode.goal.changes.items()]
    calls = tuple(WrittenCall("change_item", change) for change in changes)
    answers = iter([ModelAnswer(calls), ModelAnswer(text="Done.")])
    result = run_episode(episode, lambda messages, tools: next(answers))
    assert (result.reached, len(result.answers), result.calls) == (True, 2, 2)
