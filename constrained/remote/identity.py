"""Is an engine still the one that the handshake was with?

It may be started again with another model while the front runs. So behind a failure, and behind a
pause in which it could have been started again, it is asked what it is before it gets a request.
Where it was away, or says that it was started anew, or that others draw its replies, it goes
through the whole handshake again, and its weights are compared by the probabilities of a token.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

from constrained.deadline import Clock
from constrained.errors import RemoteError
from constrained.remote.handshake import Handshake, Weights
from constrained.remote.sampler import DrawnBy

LOG = logging.getLogger(__name__)
PAUSE = 1.0  # seconds; no engine ends and starts again within these
SAMPLE = 256  # tokens whose text is compared
MAX_STARTS = 64
"""Starts that are remembered: behind one address there may be several processes."""
HINT = "Start the engine again with what it had, or start this process again"


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """What an engine says of itself, all of which has to stay; the base of those of each engine.

    Args:
        start: what is another one once it was started again, though it may be the same engine: a
            version, times; empty: it does not tell.
    """

    start: str = field(default="", compare=False)


Facts = TypeVar("Facts", bound=EngineFacts)


@dataclass(frozen=True)
class Identity(Generic[Facts]):
    """What is known of an engine.

    Args:
        facts: that it says of itself.
        spelling: the text of some of its tokens.
    """

    facts: Facts
    spelling: str


class EngineIdentity(Generic[Facts]):
    """Knows one engine again.

    Args:
        handshake: what was asked of it at the start, and is again once it was not there.
        read_facts: asks it what it is; raises RemoteError.
        clock: seconds.
    """

    def __init__(
        self,
        handshake: Handshake,
        read_facts: Callable[[], Awaitable[Facts]],
        *,
        clock: Clock = time.monotonic,
    ):
        self._handshake = handshake
        self._read_facts = read_facts
        self._clock = clock
        self._lock = asyncio.Lock()
        self._known: Identity[Facts] | None = None
        self._weights: Weights | None = None
        self._starts = dict[str, None]()  # of what passed the handshake, the oldest first
        self._was_away = True
        self._has_failed = False
        self._answered_at = 0.0

    async def confirm(self) -> None:
        """Makes sure that it is the same one, and that it enforces grammars; the first time, gets
        to know it.

        Raises:
            RemoteError: it is another one, or cannot be used.
        """
        async with self._lock:  # one request asks, the others wait for what comes of it
            is_recent = self._clock() - self._answered_at < PAUSE
            if is_recent and not self._was_away and not self._has_failed:
                return
            found = Identity(await self._read_facts(), await self._spell())
            if self._known is not None and found != self._known:
                raise self._refuse(_list_changes(self._known, found))
            start = found.facts.start
            if self._known is not None and start not in self._starts:
                LOG.warning("%s was started again", self._name)
                self._was_away = True
            if self._was_away:
                await self._handshake.check()
                self._know_weights(await self._handshake.read_weights())
            self._known = found
            self._remember_start(start)
            self._was_away = self._has_failed = False
            self._answered_at = self._clock()

    def _remember_start(self, start: str) -> None:
        self._starts.pop(start, None)
        self._starts[start] = None
        if len(self._starts) > MAX_STARTS:
            del self._starts[next(iter(self._starts))]

    @property
    def _name(self) -> str:
        return self._handshake.sampler.name

    def _know_weights(self, found: Weights) -> None:
        """Compares the weights; others are taken where the engine says that they are others: it
        has changed them on purpose, and computes anew what it had cached. To name them for the
        first time, or no more, does not say so.

        Raises:
            RemoteError: they are others, and it does not say so.
        """
        known = self._weights or found
        before, now = known.drawn_by.weights, found.drawn_by.weights
        are_named_others = None not in (before, now) and before != now
        if not are_named_others:
            if not found.may_be(known):
                raise self._refuse(["weights"])
            found = replace(found, likely=found.likely or known.likely)
        self._weights = found

    async def _spell(self) -> str:
        size = len(self._handshake.sampler.vocabulary.tokens)
        tokens = list(range(0, size, max(1, size // SAMPLE)))
        return await self._handshake.tokenizer.detokenize(tokens)

    def _refuse(self, changed: list[str]) -> RemoteError:
        message = f"{self._name} was started again, and differs in: {', '.join(changed)}"
        return RemoteError(message, hint=HINT)

    def note_answer(self, drawn_by: DrawnBy) -> None:
        """It has ended a reply.

        Args:
            drawn_by: what has drawn it.
        """
        self._answered_at = self._clock()
        if self._weights is None or self._was_away:
            return
        known = self._weights.drawn_by
        for what, before, now in (
            ("build", known.build, drawn_by.build),
            ("weights", known.weights, drawn_by.weights),
        ):
            if None not in (before, now) and before != now:
                LOG.warning(
                    "%s names other %s than before: %s, before %s", self._name, what, now, before
                )
                self._was_away = True

    def note_failure(self, error: Exception) -> None:
        """A request has failed at it."""
        self._has_failed = True
        if isinstance(error, RemoteError) and error.is_away:
            self._was_away = True


def _list_changes(known: Identity[Facts], found: Identity[Facts]) -> list[str]:
    changed: list[str] = []
    for one in fields(known.facts):
        if one.compare and getattr(known.facts, one.name) != getattr(found.facts, one.name):
            changed.append(one.name.replace("_", " "))
    return changed or ["vocabulary"]
