"""Whether an answer is right. Values are compared as BFCL's own checker does: texts without spaces,
case and `,./-_*^`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.inspect.evaluation.asking import AskedWay, ModelAnswer, WrittenCall
from constrained.inspect.evaluation.rows import Question, QuestionKind, RightCall, fits
from constrained.inspect.evaluation.world import Episode, EpisodeEnd, EpisodeResult

OMITTED = ""
"""Among BFCL's alternatives of an argument: it may be left out."""
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Judgement:
    """What came of a question, or of an agent task."""

    way: AskedWay
    id: str
    kind: QuestionKind
    called: bool
    # there are calls, and all fit the schema of a tool on offer. None, here and below: it is no
    # matter of this kind of question.
    valid: bool | None
    right_tool: bool | None  # the right tools are called, and no others
    exact: bool | None  # exactly the right calls; of an agent task: its goal is reached
    no_call: bool | None  # rightly no call
    answer: ModelAnswer  # with its tokens and its time; of an agent task, of all its turns

    @property
    def is_right(self) -> bool:
        """Whether all is as it should be: the right calls, or rightly none."""
        return bool(self.exact or self.no_call)

    @property
    def fault(self) -> str:
        """What is wrong with it; "" if nothing is."""
        if self.is_right:
            return ""
        if self.answer.error:
            return "errors"
        if self.exact is None:
            return "a call where none is expected"
        if not self.called:
            return "no call"
        if not self.valid:
            return "a call that does not fit"
        if self.kind is QuestionKind.AGENT:
            return "goal not reached"
        if not self.right_tool:
            return "wrong tool"
        return "wrong arguments"


def judge(way: AskedWay, question: Question, answer: ModelAnswer) -> Judgement:
    calls = answer.calls
    valid = right_tool = exact = no_call = None
    if question.right:
        valid = bool(calls) and all(fits(call, question.tools) for call in calls)
        names = {call.name for call in calls}
        right_tool = names == {right.name for right in question.right}
        exact = is_exact(calls, question.right)
    else:
        no_call = not calls and not answer.error
    return Judgement(
        way,
        question.id,
        question.kind,
        called=bool(calls),
        valid=valid,
        right_tool=right_tool,
        exact=exact,
        no_call=no_call,
        answer=answer,
    )


def judge_episode(way: AskedWay, episode: Episode, result: EpisodeResult) -> Judgement:
    """Judges an agent task by whether its goal is reached."""
    answers = result.answers
    whole = ModelAnswer(
        text=answers[-1].text,
        tokens=sum(answer.tokens for answer in answers),
        seconds=sum(answer.seconds for answer in answers),
        cut=result.end is EpisodeEnd.CUT,
        error=answers[-1].error,
    )
    return Judgement(
        way,
        f"{episode.shape} {episode.seed}",
        QuestionKind.AGENT,
        called=result.calls > 0,
        valid=result.calls > 0 and result.valid,
        right_tool=None,
        exact=result.reached,
        no_call=None,
        answer=whole,
    )


def is_exact(calls: Sequence[WrittenCall], right: Sequence[RightCall]) -> bool:
    """Returns whether these are the right calls, in any order, and no others."""
    if not calls or len(calls) != len(right):
        return not calls and not right
    first, *others = calls
    for index, candidate in enumerate(right):
        is_same = first.name == candidate.name and _has(first.arguments, candidate.arguments)
        if is_same and is_exact(others, [*right[:index], *right[index + 1 :]]):
            return True
    return False


def _has(value: Any, right: Mapping[str, Sequence[Any]]) -> bool:
    """Returns True for an object whose members are among their alternatives, and that lacks
    none."""
    if not isinstance(value, dict) or not value.keys() <= right.keys():
        return False
    for key, alternatives in right.items():
        if not isinstance(alternatives, list):
            alternatives = [alternatives]  # so in simple_java_64
        if key not in value:
            if OMITTED not in alternatives:
                return False
        elif not any(_is_same(value[key], alternative) for alternative in alternatives):
            return False
    return True


def _is_same(value: Any, right: Any) -> bool:
    match right:
        case dict():
            return _has(value, right)
        case list():
            is_list = isinstance(value, list) and len(value) == len(right)
            return is_list and all(map(_is_same, value, right))
        case str():
            return isinstance(value, str) and _standardise(value) == _standardise(right)
        case bool() | None:
            return value is right
        case _:
            return not isinstance(value, bool) and value == right


def _standardise(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
