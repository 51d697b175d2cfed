"""Doubt: what a run does about calls that the model was not sure of.

Either somebody is asked (`approve`), or the turn is taken back before anything has happened, and
written once more without calls: as a question to the user, or as an answer. The mask sees to both.
The prompt stays the same, and cached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from constrained.errors import RequestError
from constrained.job import Job
from constrained.reply import Reply
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
class Doubt:
    """From where on a model is sure of a call, and what happens to others.

    Args:
        min_confidence: the least `confidence.lowest` of a call that it is sure of; None: it is sure
            of none, and nobody measures.
        unsure: what happens to others.
    """

    min_confidence: float | None = None
    unsure: Unsure = Unsure.APPROVE

    def is_sure(self, call: ToolCall) -> bool:
        """True if the model was sure of a call."""
        least, found = self.min_confidence, call.confidence
        return least is not None and found is not None and found.lowest >= least

    def find_unsure(self, reply: Reply) -> tuple[ToolCall, ...]:
        """The calls for which the turn is taken back."""
        if self.unsure is Unsure.APPROVE:
            return ()
        return tuple(call for call in reply.calls if not self.is_sure(call))

    def change_job(self, job: Job) -> Job:
        """The job of the turn that is written instead.

        Raises:
            RequestError: that turn would be a question, and has to go on with a message.
        """
        if self.unsure is not Unsure.ASK:
            return replace(job, tool_choice="none")
        if job.prefill:
            message = "a question cannot go on with the last message"
            raise RequestError(message, where="/unsure", hint='Use "decline", or no prefill')
        return replace(job, tool_choice="none", answer=QUESTION)

    def change_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the turn that is written instead."""
        changed = {**options, "tool_choice": "none"}
        if self.unsure is Unsure.ASK:
            changed["response_format"] = QUESTION
        return changed


def read_doubt(min_confidence: Any, unsure: Any, *, has_approve: bool) -> Doubt:
    """Reads the options `min_confidence` and `unsure` of a run.

    Raises:
        RequestError: one cannot be, or does not fit the other.
    """
    if unsure not in list(Unsure):
        hint = f"Use {', '.join(Unsure)}"
        raise RequestError(f"unsure is {unsure!r}", where="/unsure", hint=hint)
    doubt = Doubt(min_confidence, Unsure(unsure))
    if min_confidence is None:
        if doubt.unsure is not Unsure.APPROVE:
            hint = "Give `min_confidence`, from 0 to 1"
            raise RequestError("nobody says what is not sure", where="/unsure", hint=hint)
        return doubt
    check_confidence(min_confidence)
    if doubt.unsure is Unsure.APPROVE and not has_approve:
        hint = "Give `approve`, which is asked about calls below it, or `unsure`"
        raise RequestError("nobody is asked", where="/min_confidence", hint=hint)
    return doubt


def check_confidence(least: Any) -> float | None:
    """The value of `min_confidence`.

    Raises:
        RequestError: it is no number from 0 to 1.
    """
    is_number = isinstance(least, int | float) and not isinstance(least, bool)
    if least is not None and not (is_number and 0 <= least <= 1):
        raise RequestError(f"it is {least!r}, must be from 0 to 1", where="/min_confidence")
    return least


def take_back(unsure: Sequence[ToolCall], reply: Reply, instead: Reply) -> Reply:
    """The reply that is written instead of one with calls that the model was not sure of; its usage
    counts the tokens of both."""
    usage = instead.usage.add_discarded(reply.usage)
    return replace(instead, unsure_calls=tuple(unsure), usage=usage)


def explain_doubt(calls: Sequence[ToolCall]) -> str:
    """Which calls were taken back, and how sure the model was of them."""
    shown: list[str] = []
    for call in calls:
        sureness = "not known" if call.confidence is None else f"{call.confidence.lowest:.2f}"
        shown.append(f"{call.name} (confidence {sureness})")
    return f"not made: {', '.join(shown)}"
