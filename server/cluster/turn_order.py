"""The messages between a front and a replica: a turn to decode, then its events."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from constrained.decode.filters.events import StreamEvent
from constrained.decode.request import DecodeOptions, Generation, PassingOwner
from constrained.model.compile.detached_turn import DetachedTurn
from grammars.errors import Error
from server.cluster.prefix_index import chain_prefixes


class RouteWatch(Protocol):
    """Is notified about the progress of a request, for the router. For any thread."""

    def note_read(self) -> None:
        """Notes that the replica has computed the prompt; a second call does nothing."""
        ...

    def finish(self, chain: tuple[int, ...]) -> None:
        """Notes that the replica has finished the request or is lost; a second call does nothing.
        The hash chain is that of everything that it has computed."""
        ...


@dataclass
class RouteTicket:
    """Connects a request with the router that watches it. It is not sent to other processes."""

    watch: RouteWatch | None = None

    def note_read(self) -> None:
        if self.watch is not None:
            self.watch.note_read()

    def finish(self, chain: tuple[int, ...]) -> None:
        if self.watch is not None:
            self.watch.finish(chain)

    def __reduce__(self) -> Any:
        return RouteTicket, ()


@dataclass(frozen=True)
class TurnOrder:
    """A turn to decode, after the `written` of its options: the hash chain of its prompt, the
    seconds that it may take (None: no limit), its client, and the names of replicas that have been
    tried or are busy."""

    turn: DetachedTurn
    options: DecodeOptions
    chain: tuple[int, ...]
    seconds: float | None = None
    owner: str | PassingOwner | None = None
    avoid: frozenset[str] = frozenset()
    ticket: RouteTicket = field(default_factory=RouteTicket, compare=False)

    @property
    def prompt(self) -> tuple[int, ...]:
        plan = self.turn.plan
        return (*plan.prompt.tokens, *plan.prefill.tokens)

    def name_prefixes(self, tokens: Sequence[int]) -> tuple[int, ...]:
        return chain_prefixes([*self.prompt, *tokens], self.turn.plan.scope)

    def resume(
        self, written: tuple[int, ...], avoid: frozenset[str], seconds: float | None
    ) -> "TurnOrder":
        """Returns the order for another replica, which continues after these tokens in the
        remaining time."""
        return replace(
            self,
            options=replace(self.options, written=written),
            avoid=avoid,
            seconds=seconds,
            ticket=RouteTicket(),
        )


@dataclass(frozen=True)
class Accepted:
    """The replica with this name has accepted the turn."""

    replica: str


@dataclass(frozen=True)
class Failed:
    """The turn has failed and would also fail elsewhere, or the replica is too busy."""

    error: Error


Answer: TypeAlias = "Accepted | Failed | Generation | list[StreamEvent]"
"""The messages of a replica about a turn: that it has accepted the turn, then batches of events (an
empty batch if none comes for long), and finally the result or the error."""


class ReplicaLostError(Exception):
    """The replica of a turn has ended, or has stopped sending messages."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Fleet(Protocol):
    """The replicas of a model; a router chooses among them."""

    def open(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        """Sends a turn to a replica, and yields its messages. Closing the generator ends the turn.

        Raises:
            ReplicaLostError: the replica has ended, or there is none.
        """
        ...
