"""The outcome of a run, and of each of its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from constrained.agent.budget import Spent
from constrained.agent.context import DroppedResult
from constrained.limits.isolated_call import IsolatedError
from constrained.model.reply import Reply
from constrained.prompt.tools.execution import format_result
from grammars.turn import ToolCall

MAX_ERROR_LENGTH = 1000  # characters of an error that the model is shown


class Reason(StrEnum):
    """Why a run ended.

    Attributes:
        STOP: the model answered.
        LENGTH: the tokens ran out.
        MAX_STEPS: the limit `max_steps` was reached.
        REPEATED: the model kept repeating itself, and had to answer.
        BUDGET: a budget was spent, and the model had to answer.
        DECLINED: the model repeated a call that was declined.
        TOOL_CALLS: the model called a tool that has no function; see `Run.pending`.
        UNSURE: the model was not sure of a call, and asked or answered instead; see `unsure`.
        WAITING: a call waits for approval; `Model.resume` continues the run.
    """

    STOP = "stop"
    LENGTH = "length"
    MAX_STEPS = "max_steps"
    REPEATED = "repeated"
    BUDGET = "budget"
    DECLINED = "declined"
    TOOL_CALLS = "tool_calls"
    UNSURE = "unsure"
    WAITING = "waiting"


class Outcome(StrEnum):
    """The outcome of a call.

    Attributes:
        DONE: the function returned.
        FAILED: the function raised an exception, or the arguments do not fit.
        DECLINED: not executed, `approve` declined it.
        REPEATED: not executed, it would only repeat earlier calls.
        OVER_BUDGET: not executed, the budget is spent.
        CUT: not executed, the tokens ran out in this turn.
        UNKNOWN: the process ended while the call was being executed.
    """

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"
    OVER_BUDGET = "over_budget"
    CUT = "cut"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CallResult:
    """A call and its result.

    Args:
        call: the call.
        outcome: whether it was executed, and how that ended.
        content: the text that the model reads as the result.
        result: what the function returned; its JSON in a resumed run; None if it was not executed
            or failed.
        error: the exception that the function raised, or why its arguments do not fit.
    """

    call: ToolCall
    outcome: Outcome
    content: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Run:
    """A finished run of the agent loop.

    Args:
        messages: the whole conversation in OpenAI's form, to pass to the next `run` or `call`.
        reply: the last reply of the model.
        steps: number of turns that the model generated.
        reason: why the run ended.
        calls: all executed or declined calls with their results, in order.
        detail: more about the reason, such as which call was repeated or which budget is spent; ""
            if there is no more.
        spent: tokens, seconds, calls and cost of the run.
        dropped: results that were left out of the prompt to save context; `messages` has them.
        id: the id of the run in its record; None without one.
    """

    messages: list[Mapping[str, Any]]
    reply: Reply
    steps: int
    reason: Reason
    calls: tuple[CallResult, ...]
    detail: str = ""
    spent: Spent = field(default_factory=Spent)
    dropped: tuple[DroppedResult, ...] = ()
    id: str | None = None

    @property
    def content(self) -> str:
        """The content of the last reply."""
        return self.reply.content

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls of the last turn if you have to execute them yourself, because a tool has no
        function, or if they wait for approval; otherwise empty."""
        if self.reason not in (Reason.TOOL_CALLS, Reason.WAITING):
            return ()
        return self.reply.calls


def refuse(call: ToolCall, outcome: Outcome, why: str) -> CallResult:
    """Makes the result of a call that is not executed."""
    return CallResult(call, outcome, _explain(f"not executed: {why}"))


def decline(call: ToolCall, verdict: object) -> CallResult:
    """Makes the result of a call that was not approved."""
    why = "the user does not allow it"
    if isinstance(verdict, str) and verdict:
        why = verdict
    return refuse(call, Outcome.DECLINED, why)


def fail(call: ToolCall, error: Exception) -> CallResult:
    """Makes the result of a call whose function has raised an error."""
    text, message = type(error).__name__, str(error)
    if isinstance(error, IsolatedError):  # its text begins with the type of the original error
        text, _, message = error.text.partition(": ")
    if message:
        text += f": {message[:MAX_ERROR_LENGTH]}"
    if len(message) > MAX_ERROR_LENGTH:
        text += " ..."
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)


def lose(call: ToolCall) -> CallResult:
    """Makes the result of a call that was being executed when the process ended."""
    text = "the outcome is not known: the program ended while the call was running"
    return CallResult(call, Outcome.UNKNOWN, _explain(text))


def _explain(error: str) -> str:
    return format_result({"error": error})
