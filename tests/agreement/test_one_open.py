"""A single call may be left without what closes the calls: the grammar and the parser agree."""

import pytest

from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn, collect
from grammars.wire.format import Format, JsonCall, Literal, Marker
from tests.agreement.matching import Masked

FORMAT = Format(
    name="one_open",
    opening=(Marker("<jobs>"),),
    call=(Marker("<job>"), JsonCall(), Literal("\n"), Marker("</job>")),
    closing=(Marker("</jobs>"),),
    between="\n",
    closes_one=False,
    ends=("<end>",),
)
TOOLS = (Tool("f", lower({"type": "object", "properties": {"a": {"type": "string"}}})),)
CALL = ToolCall("f", {"a": "x"})
ONE = render(Turn(calls=(CALL,)), FORMAT, TOOLS)
TWO = render(Turn(calls=(CALL, CALL)), FORMAT, TOOLS)
POLICIES = [Policy(), Policy(Choice.REQUIRED), Policy(parallel=False)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("single", [False, True])
def test_a_single_call_may_be_left_open(policy: Policy, single: bool) -> None:
    masked = Masked(FORMAT, TOOLS, policy, State(), single)
    assert masked.accepts(ONE)
    assert masked.accepts(ONE.removesuffix("</jobs>"))
    assert not masked.accepts(ONE.removesuffix("</job></jobs>"))
    assert masked.accepts(TWO) == policy.parallel
    assert not masked.accepts(TWO.removesuffix("</jobs>"))


@pytest.mark.parametrize("recover", [False, True])
def test_it_is_read_whether_it_is_closed_or_not(recover: bool) -> None:
    turn = Turn(calls=(CALL,))
    for text in (ONE, ONE.removesuffix("</jobs>")):
        assert parse(text, FORMAT, TOOLS, recover=recover) == turn
        parser = Parser(FORMAT, TOOLS, recover=recover, stream=True)
        events = [event for character in text for event in parser.feed(character)]
        assert collect([*events, *parser.close()]) == turn


def test_others_close_every_call() -> None:
    closed = Format(FORMAT.name, FORMAT.call, FORMAT.opening, FORMAT.closing)
    masked = Masked(closed, TOOLS, Policy(), State(), False)
    assert masked.accepts(ONE)
    assert not masked.accepts(ONE.removesuffix("</jobs>"))
