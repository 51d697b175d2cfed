"""Reasoning: what a request says of it, and what becomes of that with the model that is served.

Three layers: the effort becomes reasoning on or off, and a budget; the template gets the variables
that it reads; the engine enforces the budget by counting tokens.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator

from grammars.turn import Think


class Effort(StrEnum):
    """The effort to think, in the words of all dialects."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


def _read_effort(given: Any) -> Any:
    return None if given in ("", "default") else given


EffortField = Annotated[Effort | None, BeforeValidator(_read_effort)]
"""The effort in a request. Clients send "default" (Groq's word), or an empty text, where their user
has chosen none."""
BUDGETS: dict[Effort, int | None] = {
    Effort.NONE: 0,
    Effort.MINIMAL: 256,
    Effort.LOW: 1024,
    Effort.MEDIUM: 4096,
    Effort.HIGH: 16_384,
    Effort.XHIGH: 32_768,
    Effort.MAX: None,
}
"""Tokens of reasoning; None: as many as the model likes."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables of templates that turn reasoning on or off: Qwen's, GLM's and many others';
DeepSeek's and Granite's."""
EFFORTS = "reasoning_effort"  # of gpt-oss, which knows three
BUDGET = "thinking_budget"  # of Seed-OSS


@dataclass(frozen=True)
class ReasoningRequest:
    """The wishes of a request for reasoning.

    Args:
        effort: how hard to think; None: as the template has it.
        budget: tokens of reasoning at most, in place of what the effort says; None: not given.
        must: the turn reasons, however short.
    """

    effort: Effort | None = None
    budget: int | None = None
    must: bool = False

    @property
    def is_given(self) -> bool:
        """True if the request says anything of reasoning."""
        return self.effort is not None or self.budget is not None or self.must

    @property
    def is_off(self) -> bool:
        """True if there is to be no reasoning."""
        return self.effort is Effort.NONE or (self.effort is None and self.budget == 0)

    @property
    def tokens(self) -> int | None:
        """At most so many tokens; None: as many as the model likes."""
        if self.budget is not None:
            return self.budget
        if self.effort is None:
            return None
        return BUDGETS[self.effort]


@dataclass(frozen=True)
class ReasoningPlan:
    """The reasoning of a turn of the model that is served.

    Args:
        think: whether the turn reasons first.
        budget: tokens of reasoning at most; None: as many as the model likes.
        variables: those of the chat template that control reasoning.
        ignored: the model or its template has no reasoning, and the request asked for some.
    """

    think: Think = Think.OPTIONAL
    budget: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignored: bool = False

    def to_json(self) -> dict[str, Any]:
        """The plan as replies show it, in their field `constrained`."""
        if self.ignored:
            return {"ignored": True}
        shown: dict[str, Any] = {"think": self.think.value}
        if self.budget is not None:
            shown["budget"] = self.budget
        return shown


def plan_reasoning(
    request: ReasoningRequest,
    *,
    has_block: bool,
    variables: Collection[str],
    refuses: Callable[[str, bool | str], bool],
) -> ReasoningPlan:
    """The plan for a request for reasoning with one model.

    Args:
        request: what the request says.
        has_block: whether the format of the model's turns has a reasoning block.
        variables: what the chat template reads.
        refuses: whether the template fails where a variable has a value.
    """
    if not request.is_given:
        return ReasoningPlan()
    values = _fill_variables(request, variables, refuses)
    if not has_block:
        return ReasoningPlan(variables=values, ignored=not request.is_off)
    if request.is_off:
        return ReasoningPlan(Think.FORBIDDEN, None, values)
    think = Think.REQUIRED if request.must else Think.OPTIONAL
    return ReasoningPlan(think, request.tokens, values)


def _fill_variables(
    request: ReasoningRequest,
    variables: Collection[str],
    refuses: Callable[[str, bool | str], bool],
) -> dict[str, Any]:
    """The variables for the template, without values that it refuses: the grammar and the budget
    hold without them."""
    values: dict[str, Any] = {}
    for name in SWITCHES:
        if name in variables and not refuses(name, not request.is_off):
            values[name] = not request.is_off
    if EFFORTS in variables and request.effort is not None:
        for word in _list_words(request.effort):
            if not refuses(EFFORTS, word):
                values[EFFORTS] = word
                break
    if BUDGET in variables and request.tokens is not None:
        values[BUDGET] = request.tokens
    return values


def _list_words(effort: Effort) -> Iterator[str]:
    """The words for an effort, the best one first: that of the three which most templates know,
    then the nearest ones, of two as near the higher one."""
    yield _round_effort(effort)
    grades = list(Effort)
    highest_first = reversed(grades[1:])  # without none: reasoning is turned off otherwise
    yield from sorted(
        highest_first, key=lambda grade: abs(grades.index(grade) - grades.index(effort))
    )


def _round_effort(effort: Effort) -> str:
    """The effort in the three words that most templates know."""
    match effort:
        case Effort.NONE | Effort.MINIMAL | Effort.LOW:
            return "low"
        case Effort.MEDIUM:
            return "medium"
        case _:
            return "high"
