"""What a run notes before it goes on, and finds there when it is resumed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from constrained.agent.outcome import CallResult, Run
from constrained.reply import Reply
from grammars.turn import ToolCall


class Approval(Enum):
    """A decision about a call that is not yet there."""

    LATER = "later"


LATER = Approval.LATER
"""What `approve` returns where somebody will decide later: the run ends with reason "waiting"."""

Verdict: TypeAlias = bool | str | Approval


@dataclass(frozen=True)
class CallPlace:
    """A call, the turn that it is of, and its number there; both from 0."""

    turn: int
    number: int
    call: ToolCall


class Journal(Protocol):
    """Keeps what happens in a run. What it finds is not done again."""

    @property
    def id(self) -> str | None:
        """Of the run; None where nothing is kept."""
        ...

    def begin_turn(self, turn: int, seconds: float) -> float:
        """Notes that a turn begins, so many seconds after the run; returns what was noted first."""
        ...

    def note_tools(self, turn: int, tools: Sequence[Any]) -> None:
        """Notes the tools that a turn is about to be generated with."""
        ...

    def find_tools(self, turn: int) -> list[Any]:
        """The tools of a turn that has a reply, without their functions."""
        ...

    def find_reply(self, turn: int) -> tuple[Reply, float] | None:
        """The reply of a turn, and how many seconds after the run began it was there."""
        ...

    def note_reply(self, turn: int, reply: Reply, seconds: float) -> None:
        """Notes the reply of a turn."""
        ...

    def find_verdict(self, place: CallPlace) -> Verdict | None:
        """What was decided about a call; None: nothing."""
        ...

    def note_verdict(self, place: CallPlace, verdict: Verdict) -> None:
        """Notes what was decided about a call."""
        ...

    def find_result(self, place: CallPlace) -> CallResult | None:
        """The result of a call."""
        ...

    def is_begun(self, place: CallPlace) -> bool:
        """True if a call that has no result was begun before: nobody knows what became of it."""
        ...

    def begin_call(self, place: CallPlace) -> None:
        """Notes that a call is about to be executed."""
        ...

    def note_result(self, place: CallPlace, result: CallResult) -> None:
        """Notes the result of a call."""
        ...

    def close(self, run: Run) -> None:
        """Notes how the run ended."""
        ...


class NoJournal:
    """Keeps nothing, of a run that has no record."""

    id = None

    def begin_turn(self, turn: int, seconds: float) -> float:
        """Returns the seconds."""
        return seconds

    def find_reply(self, turn: int) -> None:
        """Finds nothing, as the next two."""

    def find_verdict(self, place: CallPlace) -> None: ...

    def find_result(self, place: CallPlace) -> None: ...

    def is_begun(self, place: CallPlace) -> bool:
        """Returns False: every call is a new one."""
        return False

    def begin_call(self, place: CallPlace) -> None: ...

    def note_reply(self, turn: int, reply: Reply, seconds: float) -> None:
        """Does nothing, as the rest."""

    def note_tools(self, turn: int, tools: Sequence[Any]) -> None: ...

    def find_tools(self, turn: int) -> list[Any]:
        """Finds none: no turn has a reply."""
        return []

    def note_verdict(self, place: CallPlace, verdict: Verdict) -> None: ...

    def note_result(self, place: CallPlace, result: CallResult) -> None: ...

    def close(self, run: Run) -> None: ...
