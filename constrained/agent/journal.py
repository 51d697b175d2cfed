"""The journal of a run: records each step, so that a resumed run does not repeat it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from constrained.agent.finished_run import Run
from constrained.model.reply import Reply
from constrained.prompt.tools.call_result import CallResult
from grammars.turn import ToolCall


class Approval(Enum):
    """A verdict about a call that is not decided yet."""

    LATER = "later"


LATER = Approval.LATER
"""`approve` returns this if the call is decided later: the run ends with the reason "waiting"."""

Verdict: TypeAlias = bool | str | Approval


@dataclass(frozen=True)
class CallPlace:
    """A call and its place in the run: the number of its turn, and its number there, from 0."""

    turn: int
    number: int
    call: ToolCall


class Journal:
    """Records what happens in a run; recorded actions are not repeated. This one records nothing.

    Attributes:
        id: of the run; None if nothing is recorded.
    """

    id: str | None = None

    def begin_turn(self, turn: int, seconds: float) -> float:
        """Notes when a turn begins, in seconds since the run began; returns the first such time."""
        return seconds

    def note_tools(self, turn: int, tools: Sequence[Any]) -> None:
        """Notes the tools of a turn before it is generated."""

    def find_tools(self, turn: int) -> list[Any]:
        """Returns the tools of a turn that has a reply, without their functions."""
        return []

    def find_reply(self, turn: int) -> tuple[Reply, float] | None:
        """Returns the reply of a turn and its time, in seconds since the run began; None if it has
        no reply."""

    def note_reply(self, turn: int, reply: Reply, seconds: float) -> None:
        """Notes the reply of a turn."""

    def find_verdict(self, place: CallPlace) -> Verdict | None:
        """Returns the verdict about a call; None if there is none yet."""

    def note_verdict(self, place: CallPlace, verdict: Verdict) -> None:
        """Notes the verdict about a call."""

    def find_result(self, place: CallPlace) -> CallResult | None:
        """Returns the result of a call; None if there is none yet."""

    def was_started(self, place: CallPlace) -> bool:
        """Returns whether a call has started before but has no result: its outcome is unknown."""
        return False

    def begin_call(self, place: CallPlace) -> None:
        """Notes that a call is about to be executed."""

    def note_result(self, place: CallPlace, result: CallResult) -> None:
        """Notes the result of a call."""

    def close(self, run: Run) -> None:
        """Notes how the run ended."""
