"""What a front asks of a replica, and what it gets: a turn to decode, then its events."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from constrained.compile.detached_turn import DetachedTurn
from constrained.decode.filters.events import StreamEvent
from constrained.decode.request import DecodeOptions, Generation
from grammars.errors import Error
from server.cluster.prefix_chain import chain_prefixes


class RouteWatch(Protocol):
    """Somebody who wants to know how far a request is: the router. For any thread."""

    def note_read(self) -> None:
        """The replica has computed the prompt; a second time does nothing."""
        ...

    def finish(self, chain: tuple[int, ...]) -> None:
        """The replica is done with it, or lost; a second time does nothing.

        Args:
            chain: of all that it has computed.
        """
        ...


@dataclass
class RouteTicket:
    """The place where a router leaves its interest in a request; it stays in its process."""

    watch: RouteWatch | None = None

    def note_read(self) -> None:
        """The first token is there."""
        if self.watch is not None:
            self.watch.note_read()

    def finish(self, chain: tuple[int, ...]) -> None:
        """The replica is done with the request, or lost."""
        if self.watch is not None:
            self.watch.finish(chain)

    def __reduce__(self) -> Any:
        return RouteTicket, ()


@dataclass(frozen=True)
class TurnOrder:
    """A turn to decode.

    Args:
        turn: with the tokens of its prompt.
        options: of decoding it; it goes on after their `written`.
        chain: names of the prefixes of its prompt.
        seconds: that it may take; None: any number.
        owner: who asks.
        background: it is in no hurry.
        avoid: replicas that were tried, or are busy.
        ticket: for the router.
    """

    turn: DetachedTurn
    options: DecodeOptions
    chain: tuple[int, ...]
    seconds: float | None = None
    owner: str | None = None
    background: bool = False
    avoid: frozenset[str] = frozenset()
    ticket: RouteTicket = field(default_factory=RouteTicket, compare=False)

    @property
    def prompt(self) -> tuple[int, ...]:
        """What the model reads before the first token of the turn that is new."""
        return (*self.turn.prompt.tokens, *self.turn.prefix.tokens)

    def name_prefixes(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The chain of the prompt with these tokens after it."""
        return chain_prefixes([*self.prompt, *tokens], self.turn.scope)

    def resume(
        self, written: tuple[int, ...], avoid: frozenset[str], seconds: float | None
    ) -> "TurnOrder":
        """The order for another replica, which goes on after these tokens in the time that is
        left."""
        return replace(
            self,
            options=replace(self.options, written=written),
            avoid=avoid,
            seconds=seconds,
            ticket=RouteTicket(),
        )


@dataclass(frozen=True)
class Accepted:
    """A replica of this name has the turn."""

    replica: str


@dataclass(frozen=True)
class Failed:
    """The turn has failed, and would elsewhere, too; or the replica has too much to do."""

    error: Error


Answer: TypeAlias = "Accepted | Failed | Generation | list[StreamEvent]"
"""What a replica says of a turn: that it has it, batches of its events (an empty one where there is
nothing to say for long), and at last what has come of it."""


class ReplicaLostError(Exception):
    """The replica of a turn has ended, or does not say anything any more.

    Args:
        reason: what is known of it.
    """

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Fleet(Protocol):
    """The replicas of a model, behind a router."""

    def open(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        """Has a replica decode a turn; closing the generator ends that.

        Raises:
            ReplicaLostError: the replica has ended, or there is none.
        """
        ...
