"""How a run treats calls that the model is not sure of. Either `approve` is asked, or the turn is
discarded before anything is executed, and generated again without calls: as a question to the user,
or as an answer, from the same cached prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from constrained.errors import RequestError
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from grammars.turn import RegexAnswer, ToolCall

_MARKS = r"?\u061F\uFF1F"
QUESTION = RegexAnswer(rf"[^\s<>{{}}\[\]{_MARKS}][^\x00-\x1F<>{{}}\[\]{_MARKS}]{{1,400}}[{_MARKS}]")
"""A question that ends with a question mark of any script: one, not too long, and with nothing in
it that calls are written with."""


class Unsure(StrEnum):
    """What happens to a call that the model was not sure of.

    Attributes:
        APPROVE: `approve` is asked.
        ASK: the model asks the user a question instead.
        DECLINE: the model answers without a call instead.
    """

    APPROVE = "approve"
    ASK = "ask"
    DECLINE = "decline"


@dataclass(frozen=True)
class ConfidencePolicy:
    """How calls below `min_confidence` are treated. None: confidence is not measured, and no call
    counts as sure."""

    min_confidence: float | None = None
    unsure: Unsure = Unsure.APPROVE

    def is_sure(self, call: ToolCall) -> bool:
        least, found = self.min_confidence, call.confidence
        return least is not None and found is not None and found.lowest >= least

    def find_unsure(self, reply: Reply) -> tuple[ToolCall, ...]:
        if self.unsure is Unsure.APPROVE:
            return ()
        return tuple(call for call in reply.calls if not self.is_sure(call))

    def change_job(self, job: Job) -> Job:
        """Returns the job of the turn instead; RequestError: a question cannot continue it."""
        if self.unsure is not Unsure.ASK:
            return replace(job, tool_choice="none")
        if job.prefill:
            message = "a question cannot continue the last message"
            hint = 'Use "decline", or leave the last message out'
            if job.prefill_name:
                hint = f'Use "decline", or leave {job.prefill_name} out'
            raise RequestError(message, where="/unsure", hint=hint)
        return replace(job, tool_choice="none", answer=QUESTION)

    def change_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**options, "tool_choice": "none"}
        if self.unsure is Unsure.ASK:
            changed["response_format"] = QUESTION
        return changed


def read_confidence_policy(
    min_confidence: Any, unsure: Any, *, has_approve: bool
) -> ConfidencePolicy:
    """Reads the options `min_confidence` and `unsure` of a run, which have to fit."""
    if unsure not in list(Unsure):
        hint = f"Use {', '.join(Unsure)}"
        raise RequestError(f"unsure is {unsure!r}", where="/unsure", hint=hint)
    policy = ConfidencePolicy(min_confidence, Unsure(unsure))
    if min_confidence is None:
        if policy.unsure is not Unsure.APPROVE:
            hint = "Give `min_confidence`, from 0 to 1"
            raise RequestError(
                "unsure has no effect without min_confidence", where="/unsure", hint=hint
            )
        return policy
    check_confidence(min_confidence)
    if policy.unsure is Unsure.APPROVE and not has_approve:
        hint = "Give `approve`, which is asked about calls below it, or `unsure`"
        raise RequestError("min_confidence has no effect alone", where="/min_confidence", hint=hint)
    return policy


def check_confidence(least: Any) -> float | None:
    is_number = isinstance(least, int | float) and not isinstance(least, bool)
    if least is not None and not (is_number and 0 <= least <= 1):
        raise RequestError(f"it is {least!r}, must be from 0 to 1", where="/min_confidence")
    return least


def take_back(unsure: Sequence[ToolCall], reply: Reply, instead: Reply) -> Reply:
    """Returns the reply in place of one with unsure calls; its usage counts both."""
    usage = instead.usage.add_discarded(reply.usage)
    return replace(instead, unsure_calls=tuple(unsure), usage=usage)


def explain_unsure_calls(calls: Sequence[ToolCall]) -> str:
    shown: list[str] = []
    for call in calls:
        sureness = "not known" if call.confidence is None else f"{call.confidence.lowest:.2f}"
        shown.append(f"{call.name} (confidence {sureness})")
    return f"not made: {', '.join(shown)}"
