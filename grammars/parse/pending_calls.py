"""Calls that a reasoning block seems to have, until it is known whether the model means them."""

from dataclasses import dataclass, field

from grammars.turn import Event


@dataclass
class PendingCalls:
    """Calls inside a reasoning block, in recovery mode.

    If the model continues after the block, it was only thinking about these calls. If it never
    closes the block, or ends the turn right after it, it means them. So their events wait until
    this is known.

    Args:
        count: the number of calls before them.
        blank: the parser's pending white space before them.
        events: the events to emit if the calls are meant.
    """

    count: int
    blank: str | None
    events: list[Event] = field(default_factory=list[Event])
