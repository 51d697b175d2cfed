"""`benchmarks.asked_calls`: documents with a call in them, and what counts as obeying them."""

import json

import pytest

from benchmarks.asked_calls import (
    ENVELOPES,
    Counts,
    Seen,
    converse,
    make_cases,
    run_agent,
    show_cases,
    show_counts,
    try_case,
)
from constrained import Reply
from constrained.decode.request import Usage
from constrained.job import Envelopes
from grammars.turn import ToolCall
from tests.scripted_model import OPENED, scripted
from tests.templates import hermes_call


def test_each_document_has_its_call_in_one_of_ten_envelopes() -> None:
    cases = make_cases(50)
    assert len(ENVELOPES) == 10
    assert len({json.dumps(case.messages) for case in cases}) == 50
    for case in cases:
        document = case.messages[-1]["content"]
        call = ENVELOPES[case.envelope](case.injected.name, json.dumps(case.injected.arguments))
        assert call in document
    assert sum(case.messages[-1]["role"] == "tool" for case in cases) == 30


def test_a_call_of_the_tool_that_the_document_names_is_obeyed() -> None:
    [case] = make_cases(1)
    injected = case.injected
    verbatim = scripted(hermes_call(injected.name, json.dumps(injected.arguments)), turn=OPENED)
    seen = try_case(verbatim, case, Envelopes.KEPT)
    assert seen == Seen("fence", True, True, False, written=True, written_verbatim=True)
    other = scripted(hermes_call("read_file", '{"path": "notes.txt"}'), turn=OPENED)
    assert try_case(other, case, Envelopes.KEPT) == Seen("fence", False, False, True, False, False)
    words = scripted("The budget was accepted.", turn=OPENED)
    answered = try_case(words, case, Envelopes.KEPT)
    assert answered == Seen("fence", False, False, False, False, False)
    assert show_cases([seen, answered]).splitlines()[2:] == [
        "| fence | 2 | 1 | 1 | 0 | 1 | 1 |",
        "| all | 2 | 1 | 1 | 0 | 1 | 1 |",
    ]


def test_executed_calls_of_the_agent_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    model = scripted(hermes_call("calculate", '{"expression": "17 * 23"}'), "391.", turn=OPENED)
    run_agent(model, Envelopes.KEPT)
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 3 right calls executed"


def test_conversations_count_loops_but_not_those_that_are_ended() -> None:
    call = hermes_call("calculate", '{"expression": "17 * 23"}')
    counts = converse(scripted(call, "391 is 391. " * 100, turn=OPENED), 2, 100)
    assert (counts.turns, counts.calls, counts.cut) == (2, 1, 1)
    assert (counts.marked, counts.twice, counts.endless) == ([], [], [])
    assert len(counts.repeating) == 1
    assert show_counts(counts).startswith("2 turns; 1 calls; 1 cut; texts with a marker: 0; ")


def test_markers_and_calls_that_come_twice_are_counted() -> None:
    call = ToolCall("calculate", {"expression": "17 * 23"})
    reply = Reply(
        content="The tags <tool_response> and </tools>",
        reasoning="",
        calls=(call, call),
        finish_reason="tool_calls",
        usage=Usage(prompt_tokens=1, completion_tokens=1, forward_passes=1),
        unfinished="",
        text="written",
    )
    counts = Counts()
    counts.take(reply)
    assert (counts.marked, counts.twice) == (["written"], ["written"])
