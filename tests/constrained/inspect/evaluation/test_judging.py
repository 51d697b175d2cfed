"""Whether an answer is right."""

from typing import Any

import pytest

from constrained.inspect.evaluation.asking import AskedWay, ModelAnswer, WayName, WrittenCall
from constrained.inspect.evaluation.judging import Judgement, is_exact, judge, judge_episode
from constrained.inspect.evaluation.rows import Question, QuestionKind, RightCall
from constrained.inspect.evaluation.world import draw_episode, run_episode

PARAMETERS = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}
TOOLS = ({"type": "function", "function": {"name": "ring", "parameters": PARAMETERS}},)
MESSAGES = ({"role": "user", "content": "Ring twice"},)
RINGS = WrittenCall("ring", {"times": 2})
WAY = AskedWay("model", WayName.MASKED, "auto")


def right(**alternatives: Any) -> RightCall:
    """A right call with these alternatives of its arguments."""
    return RightCall("ring", alternatives)


SIMPLE = Question("id", QuestionKind.SIMPLE, TOOLS, MESSAGES, (right(times=[2]),))
NOTHING_OF_USE = Question("id", QuestionKind.IRRELEVANCE, TOOLS, MESSAGES, ())


def judge_calls(question: Question, *calls: WrittenCall, error: str = "") -> Judgement:
    return judge(WAY, question, ModelAnswer(calls, error=error))


@pytest.mark.parametrize(
    ("alternatives", "value"),
    [
        ([2, 3], 3),
        ([2], 2.0),
        (["New York"], "new-york"),
        (["it's"], 'it"s'),
        ([["a", "b"]], ["A", "b."]),
        ([{"a": [1, 2], "b": ["x", ""]}], {"a": 2}),
        ([{"a": "x"}], {"a": "X"}),
        ([[{"a": ["x"]}]], [{"a": "X"}]),
        ([True], True),
        ([None], None),
    ],
)
def test_values_that_count_as_right(alternatives: list[Any], value: Any) -> None:
    assert is_exact([WrittenCall("ring", {"times": value})], [right(times=alternatives)])


@pytest.mark.parametrize(
    ("alternatives", "value"),
    [
        ([1], True),
        ([True], 1),
        ([2], "2"),
        (["2"], 2),
        ([["a", "b"]], ["b", "a"]),
        ([["a"]], ["a", "a"]),
        ([{"a": [1]}], {}),
        ([{"a": [1]}], {"a": 1, "b": 1}),
        ([{"a": [1]}], [1]),
        ([None], False),
    ],
)
def test_values_that_do_not(alternatives: list[Any], value: Any) -> None:
    assert not is_exact([WrittenCall("ring", {"times": value})], [right(times=alternatives)])


def test_what_may_be_left_out() -> None:
    question = [right(times=[2], loud=[True, ""])]
    assert is_exact([RINGS], question)
    assert is_exact([WrittenCall("ring", {"times": 2, "loud": True})], question)
    assert not is_exact([WrittenCall("ring", {"times": 2, "loud": False})], question)
    assert not is_exact([WrittenCall("ring", {"times": 2, "long": True})], question)
    assert not is_exact([WrittenCall("ring", {"loud": True})], question)
    assert not is_exact([WrittenCall("ring", ["times"])], question)


def test_parallel_calls_are_right_in_any_order() -> None:
    thrice = WrittenCall("ring", {"times": 3})
    either = [right(times=[2, 3]), right(times=[2])]  # the first call must not take the second one
    assert is_exact([RINGS, thrice], either)
    assert is_exact([thrice, RINGS], either)
    assert not is_exact([thrice, thrice], either)
    assert not is_exact([RINGS], either)


@pytest.mark.parametrize(
    ("calls", "valid", "right_tool", "exact", "fault"),
    [
        ([RINGS], True, True, True, ""),
        ([WrittenCall("ring", {"times": 3})], True, True, False, "wrong arguments"),
        ([WrittenCall("ring", {"times": "2"})], False, True, False, "a call that does not fit"),
        ([WrittenCall("ring", '{"times')], False, True, False, "a call that does not fit"),
        ([WrittenCall("sing", {})], False, False, False, "a call that does not fit"),
        ([RINGS, WrittenCall("sing", {})], False, False, False, "a call that does not fit"),
        ([], False, False, False, "no call"),
    ],
)
def test_a_question_that_needs_a_call(
    calls: list[WrittenCall], valid: bool, right_tool: bool, exact: bool, fault: str
) -> None:
    found = judge_calls(SIMPLE, *calls)
    assert (found.valid, found.right_tool, found.exact) == (valid, right_tool, exact)
    assert (found.no_call, found.fault, found.is_right) == (None, fault, exact)


def test_a_question_that_no_tool_answers() -> None:
    silent, calling = judge_calls(NOTHING_OF_USE), judge_calls(NOTHING_OF_USE, RINGS)
    assert (silent.no_call, silent.is_right, silent.valid, silent.exact) == (True, True, None, None)
    assert (calling.no_call, calling.fault) == (False, "a call where none is expected")
    failed = judge_calls(NOTHING_OF_USE, error="status 500")
    assert (failed.no_call, failed.fault) == (False, "errors")


def test_an_agent_task_is_right_if_its_goal_is_reached() -> None:
    episode = draw_episode("set a count", 0)
    [(id, fields)] = episode.goal.changes.items()
    turns = [
        ModelAnswer((WrittenCall("change_item", {"id": id, **fields}),), tokens=5, seconds=1.0),
        ModelAnswer(text="Done.", tokens=2, seconds=0.5),
    ]
    left = iter(turns)
    found = judge_episode(WAY, episode, run_episode(episode, lambda *_: next(left)))
    assert (found.called, found.valid, found.exact, found.fault) == (True, True, True, "")
    assert (found.answer.tokens, found.answer.seconds) == (7, 1.5)
    lost = judge_episode(WAY, episode, run_episode(episode, lambda *_: turns[1]))
    assert (lost.called, lost.valid, lost.exact, lost.fault) == (False, False, False, "no call")
