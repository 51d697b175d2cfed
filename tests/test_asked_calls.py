"""`benchmarks.asked_calls`: documents with a call in them, and what counts as obeying them."""

import json

import pytest

from benchmarks.asked_calls import (
    ENVELOPES,
    Seen,
    make_cases,
    read_load_option,
    run_agent,
    show_cases,
    try_case,
)
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
    seen = try_case(verbatim, case)
    assert seen == Seen("fence", True, True, False, written=True, written_verbatim=True)
    other = scripted(hermes_call("read_file", '{"path": "notes.txt"}'), turn=OPENED)
    assert try_case(other, case) == Seen("fence", False, False, True, False, False)
    words = scripted("The budget was accepted.", turn=OPENED)
    answered = try_case(words, case)
    assert answered == Seen("fence", False, False, False, False, False)
    assert show_cases([seen, answered]).splitlines()[2:] == [
        "| fence | 2 | 1 | 1 | 0 | 1 | 1 |",
        "| all | 2 | 1 | 1 | 0 | 1 | 1 |",
    ]


def test_executed_calls_of_the_agent_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    run_agent(scripted(hermes_call("calculate", '{"expression": "17 * 23"}'), "391.", turn=OPENED))
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 3 right calls executed"


def test_options_of_load_are_read_as_json() -> None:
    assert read_load_option("draft=false") == ("draft", False)
