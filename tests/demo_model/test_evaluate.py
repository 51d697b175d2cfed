"""What counts as valid and as exact."""

from dataclasses import replace
from typing import Any

import pytest

from examples.demo_model.evaluate import Answer, Row, is_exact, is_valid, read_calls, show_table
from examples.demo_model.exam import Question, draw_questions

SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}, "ok": {"type": "boolean"}}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
CALL = {"name": "f", "arguments": {"n": 2}}


def answer(calls: list[dict[str, Any]] | None, finished: bool = True) -> Answer:
    return Answer(calls, finished, 1.0, 1)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Hello.", []),
        ('<tool_call>\n{"name": "f", "arguments": {"n": 2}}\n</tool_call>', [CALL]),
        ('<tool_call>{"name": "f", "arguments": {"n": 2}}</tool_call>\n' * 2, [CALL, CALL]),
        ('<tool_call>\n{"name": "f", "arguments": {"n": 2}}', None),
        ('<tool_call>\n{"name": "f", "arguments": {"n": }}\n</tool_call>', None),
        ('<tool_call>\n{"name": "f"}\n</tool_call>', None),
    ],
)
def test_reading_is_strict(text: str, calls: Any):
    assert read_calls(text) == calls


@pytest.mark.parametrize(
    ("calls", "valid", "exact"),
    [
        ([CALL], True, True),
        ([{"name": "f", "arguments": {"n": 2.0}}], True, True),
        ([{"name": "f", "arguments": {"n": 3}}], True, False),
        ([{"name": "f", "arguments": {"n": "2"}}], False, False),
        ([{"name": "f", "arguments": {"n": 2, "m": 1}}], False, False),
        ([{"name": "g", "arguments": {"n": 2}}], False, False),
        ([CALL, CALL], True, False),
        ([], True, False),
        (None, False, False),
    ],
)
def test_valid_and_exact(calls: Any, valid: bool, exact: bool):
    question = Question("twice", TOOLS, [CALL])
    assert is_valid(answer(calls), question) is valid
    assert is_exact(answer(calls), question) is exact
    assert not is_valid(answer(calls, finished=False), question)
    assert not is_exact(answer(calls, finished=False), question)
    assert is_valid(replace(answer(calls, finished=False), closed=True), question) is valid


def test_true_is_not_one():
    question = Question("yes", TOOLS, [{"name": "f", "arguments": {"n": 1}}])
    assert not is_exact(answer([{"name": "f", "arguments": {"n": True}}]), question)


def test_an_answer_mentions_the_result():
    question = Question("how warm?", TOOLS, [], says=("21", "sunny"))
    assert is_exact(Answer([], True, 1.0, 1, "It is 21 degrees and sunny."), question)
    assert not is_exact(Answer([], True, 1.0, 1, "It is 12 degrees and sunny."), question)
    assert not is_exact(Answer([CALL], True, 1.0, 1, "21, sunny"), question)


def test_handwritten_questions():
    questions = draw_questions("handwritten", 200)
    assert len(questions) == 100
    assert len({question.text for question in questions}) == 100
    names = {tool["function"]["name"] for q in questions for tool in q.tools}
    assert len(names) > 70
    for question in questions:
        assert is_valid(answer(question.calls), question), question.text


def test_table():
    rows = [Row("m", "seen", mask, 4, 1.0, 0.5, 0.25, 10.04, 3.0) for mask in (False, True)]
    cells = "100.0% → 100.0% | 50.0% → 50.0% | 25.0% → 25.0% | 10.0 → 10.0 | 3.0 → 3.0"
    assert show_table(rows).splitlines()[-1] == f"| m | 4 seen | {cells} |"
