"""Strategies for tools, turns, policies, states, and for what happens to a text."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from grammars.errors import RenderError, SchemaError
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, KeyOrder, Policy, Start, State, Think, Tool, ToolCall, Turn
from grammars.turn_grammar.calls import find_index
from grammars.wire.format import ContentPlace, Format, Name
from tests.schema_strategies import Shape, fitting, parameters
from tests.text_strategies import FRAGMENTS, KEYS, TEXTS, UNTAGGED_KEYS

NAMES = ["get", "get_weather", "x", "a-b.c", "Größe", "name", "tool_call", "f" * 60]


def states(format: Format) -> SearchStrategy[State]:
    """Where a prompt of this format can end."""
    counts = find_index(format)
    if counts is not None and not counts.anew:
        known = st.none() | st.integers(0, 12)
        return st.builds(lambda state, calls: replace(state, calls=calls), _starts(format), known)
    return _starts(format)


def _starts(format: Format) -> SearchStrategy[State]:
    if format.reasoning is None:
        return st.just(State())
    return st.one_of(
        st.just(State()),
        st.sampled_from(["", "\n"]).map(lambda pad: State(Start.OPEN, pad)),
        st.sampled_from(["", "\n", "\n\n"]).map(lambda pad: State(Start.CLOSED, pad)),
    )


@dataclass(frozen=True)
class Case:
    """A request, a turn that it allows, and how the format writes it: with its content in one of
    the places that the format knows."""

    format: Format
    tools: tuple[Tool, ...]
    policy: Policy
    state: State
    turn: Turn
    text: str
    place: ContentPlace = ContentPlace.BEFORE

    def __repr__(self) -> str:
        schemas = {t.name: t.schema.source for t in self.tools}
        return f"Case({self.text!r}, {schemas}, {self.policy}, {self.state}, {self.turn})"


@st.composite
def tool_sets(draw: DrawFn, keys: Sequence[str] = KEYS) -> list[tuple[Tool, Shape]]:
    """One to three tools."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    tools: list[tuple[Tool, Shape]] = []
    for name in names:
        shape = draw(parameters(keys))
        try:
            tools.append((Tool(name, lower(shape.schema)), shape))
        except SchemaError:
            reject()
    return tools


@st.composite
def policies(draw: DrawFn, names: Sequence[str], format: Format, state: State) -> Policy:
    """A policy that these tools, this format and this state can satisfy."""
    can_think = format.reasoning is not None and state.start is not Start.CLOSED
    thoughts = [t for t in Think if t is not Think.REQUIRED or can_think]
    allowed = draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple))
    think, order = draw(st.sampled_from(thoughts)), draw(st.sampled_from(KeyOrder))
    choice, parallel = draw(st.sampled_from(Choice)), draw(st.booleans())
    return Policy(choice, allowed, parallel, think, key_order=order)


@st.composite
def ordered(draw: DrawFn, shape: Shape, order: KeyOrder) -> Any:
    """A value that fits the shape; in any order, its keys stand as they like. Not those of enums:
    they are written as the schema has them."""
    fixed = list(find_constants(shape.schema))

    def shuffle(value: Any) -> Any:
        if isinstance(value, list | dict) and value in fixed:
            return value
        if isinstance(value, list):
            return [shuffle(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: shuffle(value[key]) for key in draw(st.permutations(list(value)))}

    value = draw(fitting(shape))
    return shuffle(value) if order is KeyOrder.ANY else value


def find_constants(schema: Any) -> Iterator[Any]:
    """The values of all enums in a schema; a property may be called so, too."""
    if isinstance(schema, dict):
        values = schema.get("enum")
        yield from values if isinstance(values, list) else ()
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        yield from find_constants(inner)


@st.composite
def cases(
    draw: DrawFn, format: Format, offers: SearchStrategy[list[tuple[Tool, Shape]]] | None = None
) -> Case:
    """A request and a turn that it allows; turns that the format cannot write are rejected."""
    keys = KEYS if Name() in format.call else KEYS + UNTAGGED_KEYS
    offer = draw(tool_sets(keys) if offers is None else offers)
    tools = tuple(tool for tool, _ in offer)
    shapes = {t.name: shape for t, shape in offer}
    state = draw(states(format))
    policy = draw(policies(list(shapes), format, state))
    selected = policy.select(tools)
    fewest = int(policy.choice is Choice.REQUIRED)
    most = 0
    if selected:
        most = 3 if policy.parallel and not format.single else 1
    calls = [
        ToolCall(tool.name, draw(ordered(shapes[tool.name], policy.key_order)))
        for _ in range(draw(st.integers(fewest, most)))
        for tool in [draw(st.sampled_from(selected))]
    ]
    turn = Turn(
        content="" if policy.choice is Choice.REQUIRED else draw(prose(format, bool(calls))),
        reasoning=draw(thoughts(format, policy, state)),
        calls=tuple(calls),
    )
    place = draw(st.sampled_from(format.content_places))
    try:
        text = render(turn, replace(format, content_places=(place,)), tools, state)
    except RenderError:
        reject()
    return Case(format, tools, policy, state, turn, text, place=place)


def prose(format: Format, before_call: bool = False) -> SearchStrategy[str]:
    """Text without the markers of the format; none before a call that has no marker."""
    free = TEXTS.filter(lambda t: not any(m in t for m in {*format.reserved, *format.atoms}))
    if before_call and format.bare is not None:
        return st.just("")
    return free.filter(lambda t: not t or bool(t.strip())) if before_call else free


def thoughts(format: Format, policy: Policy, state: State) -> SearchStrategy[str]:
    """Reasoning, where there may be some."""
    closed = format.reasoning is None or state.start is Start.CLOSED
    if closed or policy.think is Think.FORBIDDEN:
        return st.just("")
    fewest = int(policy.think is Think.REQUIRED and state.start is Start.PLAIN)
    return prose(format).filter(lambda t: len(t) >= fewest)


def chunkings(text: str) -> SearchStrategy[list[str]]:
    """The text in pieces, some of them empty."""
    places = st.lists(st.integers(0, len(text)), max_size=8).map(sorted)
    return places.map(
        lambda at: [text[i:j] for i, j in zip([0, *at], [*at, len(text)], strict=True)]
    )


def mutate(text: str, rng: random.Random, pieces: Sequence[str] = FRAGMENTS) -> str:
    """The text after a few random edits."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        i, j = sorted(rng.randint(0, len(text)) for _ in range(2))
        k = rng.randint(0, len(text))
        character = rng.choice('abc019 \n\t"\\{}[]<>/=-.,:éu')
        match rng.randrange(7):
            case 0:
                text = text[:k] + text[k + 1 :]
            case 1:
                text = text[:k] + character + text[k:]
            case 2:
                text = text[:k] + character + text[k + 1 :]
            case 3:
                text = text[:j] + text[i:j] + text[j:]
            case 4:
                text = text[:k] + rng.choice(pieces) + text[k:]
            case 5:
                text = text[:i] + text[min(j, i + 12) :]
            case _:
                text = text[:k] + text[i : min(j, i + 30)] + text[k:]
    return text


def seeds() -> SearchStrategy[Any]:
    """Seeds of `random.Random`: for walks whose length only the grammar knows."""
    return st.integers(0, 2**32 - 1)
