"""What became of a run, and of each of its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from constrained.agent.budget import Spent
from constrained.agent.context import DroppedResult
from constrained.isolation.isolated_call import IsolatedError
from constrained.reply import Reply
from constrained.tools.execution import format_result
from grammars.turn import ToolCall

LONGEST_ERROR = 1000  # characters of an error that the model is shown


class Reason(StrEnum):
    """The reason why a run ended."""

    STOP = "stop"  # the model has answered
    LENGTH = "length"  # the tokens ran out
    MAX_STEPS = "max_steps"
    REPEATED = "repeated"  # it went on repeating itself, and had to answer
    BUDGET = "budget"  # a budget was spent, and it had to answer
    DECLINED = "declined"  # the model made a call again that had been declined
    TOOL_CALLS = "tool_calls"  # calls of tools without a function are left to the caller
    WAITING = "waiting"  # for approval; the run goes on when the decision is there


class Outcome(StrEnum):
    """The outcome of a call."""

    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    REPEATED = "repeated"  # not executed: it would only repeat what was there
    OVER_BUDGET = "over_budget"  # not executed: the budget is spent
    CUT = "cut"  # not executed: the tokens ran out
    UNKNOWN = "unknown"  # the process ended while it was under way


@dataclass(frozen=True)
class CallResult:
    """A call and what became of it.

    Args:
        content: the result as the model reads it.
        result: what the function returned; of a run that was resumed, its JSON.
        error: what it raised, or why its arguments do not fit.
    """

    call: ToolCall
    outcome: Outcome
    content: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        messages: the whole conversation in OpenAI form; a further run can go on with it.
        reply: the last turn.
        steps: how many turns the model generated.
        reason: why it ended.
        detail: the same in words, where there is more to say: which call was repeated, which
            budget is spent.
        calls: all calls that were answered, in order.
        spent: tokens, seconds, calls and cost.
        dropped: the results that the model no longer read, to save context; `messages` has them.
        id: of the run in its record, if there is one.
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
        """The text of the last turn."""
        return self.reply.content

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls that wait for the caller, or for approval: all of the last turn, or none."""
        if self.reason not in (Reason.TOOL_CALLS, Reason.WAITING):
            return ()
        return self.reply.calls


def refuse(call: ToolCall, outcome: Outcome, why: str) -> CallResult:
    """The result of a call that is not executed."""
    return CallResult(call, outcome, _explain(f"not executed: {why}"))


def decline(call: ToolCall, verdict: object) -> CallResult:
    """The result of a call that was not approved."""
    why = "the user does not allow it"
    if isinstance(verdict, str) and verdict:
        why = verdict
    return refuse(call, Outcome.DECLINED, why)


def fail(call: ToolCall, error: Exception) -> CallResult:
    """The result of a call whose function has raised an error."""
    text, message = type(error).__name__, str(error)
    if isinstance(error, IsolatedError):  # which has the type of what was raised in its text
        text, _, message = error.text.partition(": ")
    if message:
        text += f": {message[:LONGEST_ERROR]}"
    if len(message) > LONGEST_ERROR:
        text += " ..."
    return CallResult(call, Outcome.FAILED, _explain(text), error=error)


def lose(call: ToolCall) -> CallResult:
    """The result of a call that was under way when the process ended."""
    text = "the outcome is not known: the program ended while the call was under way"
    return CallResult(call, Outcome.UNKNOWN, _explain(text))


def _explain(error: str) -> str:
    return format_result({"error": error})
