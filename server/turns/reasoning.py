"""Reasoning: what a request asks for, and what the served model does.

Three layers: the effort becomes reasoning on or off, and a budget; the template gets the variables
that it reads; the engine enforces the budget by counting tokens.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator

from constrained.prompt.template.effort_words import EffortWords, read_effort_words
from grammars.turn import Think


class Effort(StrEnum):
    """The effort of reasoning, in the words of all dialects."""

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
"""The effort in a request. Clients send "default" (Groq's word) or "" if their user has chosen
none."""
BUDGETS: dict[Effort, int | None] = {
    Effort.NONE: 0,
    Effort.MINIMAL: 256,
    Effort.LOW: 1024,
    Effort.MEDIUM: 4096,
    Effort.HIGH: 16_384,
    Effort.XHIGH: 32_768,
    Effort.MAX: None,
}
"""Reasoning tokens; None: no limit."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables of templates that turn reasoning on or off: the first for Qwen, GLM and many others,
the second for DeepSeek and Granite."""
EFFORTS = "reasoning_effort"  # of gpt-oss, which has three levels
BUDGET = "thinking_budget"  # of Seed-OSS


@dataclass(frozen=True)
class ReasoningRequest:
    """The reasoning that a request asks for. None: it does not say. The budget in tokens overrides
    that of the effort. If it `must`, the turn has to reason, however briefly."""

    effort: Effort | None = None
    budget: int | None = None
    must: bool = False

    @property
    def is_given(self) -> bool:
        return self.effort is not None or self.budget is not None or self.must

    @property
    def is_off(self) -> bool:
        return self.effort is Effort.NONE or (self.effort is None and self.budget == 0)

    @property
    def tokens(self) -> int | None:
        """The maximum number of reasoning tokens; None: no limit."""
        if self.budget is not None:
            return self.budget
        if self.effort is None:
            return None
        return BUDGETS[self.effort]


@dataclass(frozen=True)
class ReasoningPlan:
    """The reasoning of a turn of the served model. It is `ignored` if the request asks for it, but
    the model or its template has none."""

    think: Think = Think.OPTIONAL
    budget: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignored: bool = False

    def to_json(self) -> dict[str, Any]:
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
    refuses: Callable[[Mapping[str, bool | str]], bool],
    write: Callable[[Mapping[str, bool | str]], str | None],
) -> ReasoningPlan:
    """Plans the reasoning of a request for one model: `refuses` says whether variables cannot have
    these values, `write` writes a prompt with them (None: the template fails)."""
    if not request.is_given:
        return ReasoningPlan()
    values = _fill_variables(request, variables, refuses=refuses, write=write)
    if not has_block:
        return ReasoningPlan(variables=values, ignored=not request.is_off)
    if request.is_off:
        return ReasoningPlan(Think.FORBIDDEN, None, values)
    think = Think.REQUIRED if request.must else Think.OPTIONAL
    return ReasoningPlan(think, request.tokens, values)


def _fill_variables(
    request: ReasoningRequest,
    variables: Collection[str],
    *,
    refuses: Callable[[Mapping[str, bool | str]], bool],
    write: Callable[[Mapping[str, bool | str]], str | None],
) -> dict[str, Any]:
    """Returns the variables for the template, without switches and efforts that it refuses: the
    grammar and the budget are enforced without them."""
    values: dict[str, Any] = {}
    for name in SWITCHES:
        chosen = values | {name: not request.is_off}
        if name in variables and not refuses(chosen):
            values = chosen
    if EFFORTS in variables and request.effort is not None:
        beside = dict(values)
        words = read_effort_words(lambda word: write({**beside, EFFORTS: word}))
        for word in _list_words(request.effort, words):
            chosen = values | {EFFORTS: word}
            if not refuses(chosen):
                values = chosen
                break
    if BUDGET in variables and request.tokens is not None:
        values[BUDGET] = request.tokens
    return values


def _list_words(effort: Effort, words: EffortWords) -> Iterator[str]:
    """Yields the words for an effort, the best one first: its own if the template knows it, the
    matching one of the three words that most templates know, then the nearest ones. A medium effort
    or less gets a higher one last; of two words that are equally near to a high effort, the higher
    one comes first. A word that the template takes for another one is none."""
    if effort is Effort.NONE:  # a higher effort would ask for reasoning that the mask forbids
        found = ["low", "none", "minimal"]
    else:
        grades = list(Effort)
        asked = grades.index(effort)
        is_high = asked > grades.index(Effort.MEDIUM)

        def rank(grade: Effort) -> tuple[bool, int]:
            distance = grades.index(grade) - asked
            return not is_high and distance > 0, abs(distance)

        highest_first = reversed(grades[1:])  # without "none": that is turned off in another way
        nearest_first = [grade.value for grade in sorted(highest_first, key=rank)]
        own = [effort.value] if effort in words.known else []
        found = [*own, _round_effort(effort), *nearest_first]
    yield from (word for word in found if word not in words.taken_for_other)


def _round_effort(effort: Effort) -> str:
    match effort:
        case Effort.NONE | Effort.MINIMAL | Effort.LOW:
            return "low"
        case Effort.MEDIUM:
            return "medium"
        case _:
            return "high"
