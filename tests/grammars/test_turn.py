"""Policies, errors, and the parts of a format."""

from dataclasses import replace

import pytest

from grammars.errors import Error, PolicyError, SchemaError, ToolError
from grammars.parse.parser import parse
from grammars.schema.lowering.lower import lower
from grammars.turn import (
    Choice,
    Policy,
    ReasoningStart,
    Start,
    State,
    Think,
    Tool,
    ToolCall,
    Turn,
    find_reasoning_start,
)
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_grammar, build_turn
from grammars.wire.format import (
    Format,
    Literal,
    Reasoning,
    count_common,
    find_named,
    is_taggable,
)
from grammars.wire.formats import FORMATS, HERMES, LLAMA3_JSON, QWEN3_CODER

A, B = (Tool(name, lower({"type": "object"})) for name in "ab")


def test_a_policy_selects_in_the_order_of_the_offer() -> None:
    assert Policy().select([A, B]) == (A, B)
    assert Policy(names=("b", "a")).select([A, B]) == (A, B)
    assert Policy.named("b").select([A, B]) == (B,)
    assert Policy(Choice.NONE).select([A, B]) == ()
    assert Policy(names=()).select([A, B]) == ()
    assert Policy().select([]) == ()


def test_a_policy_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(PolicyError, match="unknown tool 'c'") as info:
        Policy.named("c").select([A, B])
    assert info.value.hint == "Offered: a, b"
    with pytest.raises(PolicyError, match="'c'") as info:
        Policy(names=("c",)).select([])
    assert info.value.hint == "Offered: none"
    with pytest.raises(PolicyError, match="no tool is offered"):
        Policy(Choice.REQUIRED).select([])
    with pytest.raises(ToolError, match="two tools") as clash:
        Policy(Choice.NONE).select([A, B, A])
    assert clash.value.where == "/tools/2"


def test_a_start_state_that_cannot_be_kept_is_refused() -> None:
    thinks = Policy(think=Think.REQUIRED)
    with pytest.raises(PolicyError, match="closed the reasoning block"):
        build_grammar(HERMES, [A], thinks, State(Start.CLOSED))
    plain = Format("plain", HERMES.call)
    with pytest.raises(PolicyError, match="has no reasoning block"):
        build_grammar(plain, [A], thinks)
    assert "think" not in build_grammar(plain, [A])


def test_errors_say_what_where_and_what_to_do() -> None:
    assert str(Error("wrong")) == "wrong"
    assert str(SchemaError("wrong", where="", hint="Do it")) == "wrong (at the root). Do it"
    assert str(Error("wrong", where="/a")) == "wrong (at /a)"


def test_a_call_without_errors_is_valid() -> None:
    assert ToolCall("a", {}).valid


def test_formats_know_what_opens_a_call() -> None:
    assert list(HERMES.openings) == ["<tool_call>"]
    assert list(QWEN3_CODER.openings) == ["<tool_call>", "<function="]
    assert HERMES.markers == ("<tool_call>", "</tool_call>", "<think>", "</think>")
    assert not LLAMA3_JSON.openings
    assert LLAMA3_JSON.bare == LLAMA3_JSON.hole
    with pytest.raises(TypeError, match="calls open with a marker, a JsonCall or a list in Python"):
        Format("odd", (Literal("a"),))
    assert find_named("hermes", FORMATS) is HERMES
    assert find_named("none", FORMATS) is None


def test_names_between_tags() -> None:
    assert is_taggable("a b")
    assert not any(is_taggable(name) for name in ("", " a", "a\x1c", "a<", "a>", "a\nb", "a" * 257))
    assert count_common("abc", "abd") == 2
    assert count_common("ab", "abd") == 2


BLOCK = HERMES.reasoning
LONE_CLOSER = replace(BLOCK, starts_closed=True) if BLOCK else None
EMPTY_BLOCK = replace(BLOCK, empty="<no></no>") if BLOCK else None
CLOSER = ("</think>",)
TWO_WAYS = replace(BLOCK, empty="<no></no>", starts_closed=True) if BLOCK else None


@pytest.mark.parametrize(
    ("block", "state", "think", "expected"),
    [
        (BLOCK, State(), Think.OPTIONAL, ReasoningStart(may_open=True)),
        (BLOCK, State(), Think.REQUIRED, ReasoningStart(may_open=True, must_open=True)),
        (BLOCK, State(), Think.FORBIDDEN, ReasoningStart()),
        (LONE_CLOSER, State(), Think.OPTIONAL, ReasoningStart(may_open=True, instead=CLOSER)),
        (LONE_CLOSER, State(), Think.FORBIDDEN, ReasoningStart(instead=CLOSER)),
        (TWO_WAYS, State(), Think.FORBIDDEN, ReasoningStart(instead=("<no></no>", "</think>"))),
        (EMPTY_BLOCK, State(), Think.FORBIDDEN, ReasoningStart(instead=("<no></no>",))),
        (EMPTY_BLOCK, State(Start.CLOSED), Think.OPTIONAL, ReasoningStart(instead=CLOSER)),
        (BLOCK, State(Start.CLOSED), Think.OPTIONAL, ReasoningStart(instead=CLOSER)),
        (BLOCK, State(Start.CLOSED, lead="<"), Think.OPTIONAL, ReasoningStart()),
        (BLOCK, State(Start.OPEN), Think.OPTIONAL, ReasoningStart(is_open=True)),
        (
            BLOCK,
            State(Start.OPEN),
            Think.FORBIDDEN,
            ReasoningStart(is_open=True, closes_at_once=True),
        ),
        (None, State(), Think.OPTIONAL, ReasoningStart()),
    ],
)
def test_what_a_turn_may_begin_with(
    block: Reasoning | None, state: State, think: Think, expected: ReasoningStart
) -> None:
    assert find_reasoning_start(block, state, think) == expected
    without = replace(expected, instead=())
    assert find_reasoning_start(block, state, think, has_answer=True) == without


@pytest.mark.parametrize("start", ["<no></no>", "</think>", ""])
@pytest.mark.parametrize("think", [Think.OPTIONAL, Think.FORBIDDEN])
def test_a_turn_without_reasoning_may_begin_in_two_ways(start: str, think: Think) -> None:
    format = replace(HERMES, reasoning=TWO_WAYS)
    grammar = build_turn(format, [A], Policy(think=think))
    assert Completer(grammar).complete(f"{start}It is.") is not None
    assert parse(f"{start}It is.", format, [A]) == Turn("It is.")
