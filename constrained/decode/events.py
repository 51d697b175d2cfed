"""What is told of a turn while it is written."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from constrained.logits import TokenDrawn
from grammars.turn import Event


@dataclass(frozen=True)
class Exhausted:
    """The tokens have run out: what is told of the turn from here on is its shortest ending."""


Sent: TypeAlias = Event | TokenDrawn | Exhausted
"""An event of the turn, or what goes with it."""


def find_events(told: Iterable[Sent]) -> list[Event]:
    """What the parser has read, of what is told."""
    return [one for one in told if not isinstance(one, TokenDrawn | Exhausted)]
