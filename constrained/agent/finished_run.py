"""A finished run of the agent loop, and why it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from constrained.agent.budget import Spent
from constrained.agent.context import DroppedResult
from constrained.model.reply import Reply
from constrained.prompt.tools.execution import CallResult
from grammars.turn import ToolCall


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
    """

    STOP = "stop"
    LENGTH = "length"
    MAX_STEPS = "max_steps"
    REPEATED = "repeated"
    BUDGET = "budget"
    DECLINED = "declined"
    TOOL_CALLS = "tool_calls"
    UNSURE = "unsure"


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
    """

    messages: list[Mapping[str, Any]]
    reply: Reply
    steps: int
    reason: Reason
    calls: tuple[CallResult, ...]
    detail: str = ""
    spent: Spent = field(default_factory=Spent)
    dropped: tuple[DroppedResult, ...] = ()

    @property
    def content(self) -> str:
        """The content of the last reply."""
        return self.reply.content

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls of the last turn if you have to execute them yourself, because a tool has no
        function; otherwise empty."""
        if self.reason is not Reason.TOOL_CALLS:
            return ()
        return self.reply.calls
