"""The grammar, the parser and the renderer agree, whatever the tools and the turn."""

import json
import random

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from grammars.formats import FORMATS
from grammars.parse import parse
from grammars.turn import Choice, Start, Think, Turn
from grammars.wire import Format, find_format
from tests.agreement.matching import Masked
from tests.strategies import Case, cases, mutate, seeds

BOTH = pytest.mark.parametrize("name", [f.name for f in FORMATS])
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def by_name(name: str) -> Format:
    format = find_format(name, FORMATS)
    assert format is not None
    return format


def masked(case: Case, single: bool) -> Masked:
    """The grammar of the case; rejects data that would be taken for markers."""
    if single:
        spelled = json.dumps([c.arguments for c in case.turn.calls], ensure_ascii=False)
        assume(not any(m in spelled for m in case.format.markers))
    return Masked(case.format, case.tools, case.policy, case.state, single)


def spelled(turn: Turn) -> object:
    """A turn in which 1, 1.0 and True are three values."""
    calls = [(c.name, json.dumps(c.arguments), c.errors) for c in turn.calls]
    return turn.content, turn.reasoning, calls, turn.unfinished


def assert_obeys(turn: Turn, case: Case) -> None:
    """Every call is valid, and the policy is kept."""
    for call in turn.calls:
        tool = next(t for t in case.tools if t.name == call.name)
        assert call.valid or tool.schema.report.checked, (call, tool.schema.source)
        assert call.name in (case.policy.names or [t.name for t in case.tools])
    assert not turn.unfinished
    assert len(turn.calls) <= (3000 if case.policy.parallel else 1)
    if case.policy.choice is Choice.REQUIRED:
        assert turn.calls
        assert not turn.content
    if case.policy.choice is Choice.NONE:
        assert not turn.calls
    if case.policy.think is Think.FORBIDDEN or case.state.start is Start.CLOSED:
        assert not turn.reasoning.strip()


@BOTH
@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
@settings(suppress_health_check=SLOW)
@given(data=st.data())
def test_what_is_rendered_is_accepted_and_read_back(
    name: str, single: bool, data: st.DataObject
) -> None:
    case = data.draw(cases(by_name(name)))
    grammar = masked(case, single)
    assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
    read = parse(case.text, case.format, case.tools, case.state)
    assert spelled(read) == spelled(case.turn)
    assert_obeys(read, case)


@BOTH
@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
@settings(suppress_health_check=SLOW)
@given(data=st.data())
def test_what_is_accepted_is_read(name: str, single: bool, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    grammar = masked(case, single)
    rng = random.Random(data.draw(seeds()))
    for _ in range(40):
        text = mutate(case.text, rng)
        if grammar.accepts(text):
            event("mutant accepted")
            assert_obeys(parse(text, case.format, case.tools, case.state), case)
    for _ in range(4):
        start = case.text[: rng.randint(0, len(case.text))]
        text = grammar.walk(rng, start)
        if text is not None:
            event("walk finished")
            assert_obeys(parse(text, case.format, case.tools, case.state), case)
