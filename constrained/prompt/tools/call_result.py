"""What a tool call came to: its outcome, and the text that the model reads as its result."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.limits.isolated_call import IsolatedError
from constrained.prompt.tools.execution import format_result
from grammars.turn import ToolCall

MAX_ERROR_LENGTH = 1000  # characters of an error that the model is shown


class Outcome(StrEnum):
    """The outcome of a call.

    Attributes:
        DONE: the function returned.
        FAILED: the function raised an exception, or the arguments do not fit.
        DECLINED: not executed, `approve` declined it.
        REPEATED: not executed, it would only repeat earlier calls.
        OVER_BUDGET: not executed, the budget is spent.
        CUT: not executed, the tokens ran out in this turn.
    """

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"
    OVER_BUDGET = "over_budget"
    CUT = "cut"


@dataclass(frozen=True)
class CallResult:
    """A call and its result.

    Args:
        call: the call.
        outcome: whether it was executed, and how that ended.
        content: the text that the model reads as the result.
        result: what the function returned; None if it was not executed or failed.
        error: the exception that the function raised, or why its arguments do not fit.
    """

    call: ToolCall
    outcome: Outcome
    content: str
    result: Any = None
    error: Exception | None = None


def refuse(call: ToolCall, outcome: Outcome, why: str) -> CallResult:
    return CallResult(call, outcome, _explain(f"not executed: {why}"))


def decline(call: ToolCall, verdict: object) -> CallResult:
    why = "the user does not allow it"
    if isinstance(verdict, str) and verdict:
        why = verdict
    return refuse(call, Outcome.DECLINED, why)


def fail(call: ToolCall, error: Exception) -> CallResult:
    text, message = type(error).__name__, str(error)
    if isinstance(error, IsolatedError):  # its text begins with the type of the original error
        text, _, message = message.partition(": ")
    if message:
        text += f": {message[:MAX_ERROR_LENGTH]}"
    if len(message) > MAX_ERROR_LENGTH:
        text += " ..."
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)


def _explain(error: str) -> str:
    return format_result({"error": error})
