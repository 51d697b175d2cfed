"""Checks that an engine is still the one that has passed the handshake.

It may be restarted with another model while this process runs. So after a failure, and after a
pause that is long enough for a restart, its properties are requested before it gets a request. If
it was unreachable, or reports another start or other weights, the whole handshake is repeated, and
its weights are compared by the probabilities of one token.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

from constrained.errors import RemoteError
from constrained.limits.deadline import Clock
from constrained.remote.handshake import Handshake, Weights
from constrained.remote.sampler import EngineVersion

LOG = logging.getLogger(__name__)
PAUSE = 1.0  # seconds; no engine restarts within this time
SAMPLE = 256  # tokens whose text is compared
MAX_STARTS = 64
"""The maximum number of remembered starts: several processes may share one address."""
HINT = "Restart the engine as it was before, or restart this process"


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """The properties that an engine reports, all of which have to stay the same; base for all
    engines.

    Args:
        start: changes with each restart, even of the same engine: a version, times; empty: not
            reported.
    """

    start: str = field(default="", compare=False)


Facts = TypeVar("Facts", bound=EngineFacts)


@dataclass(frozen=True)
class Identity(Generic[Facts]):
    """The known properties of an engine."""

    facts: Facts
    spelling: str


class EngineIdentity(Generic[Facts]):
    """Recognises one engine.

    Args:
        handshake: the checks at the start, which are repeated after an outage.
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
        self._starts = dict[str, None]()  # those that have passed the handshake, the oldest first
        self._was_away = True
        self._has_failed = False
        self._answered_at = 0.0

    async def confirm(self) -> None:
        """Checks that it is the same engine, and that it enforces grammars; the first call notes
        its identity."""
        async with self._lock:  # one request asks, the others wait for its result
            is_recent = self._clock() - self._answered_at < PAUSE
            if is_recent and not self._was_away and not self._has_failed:
                return
            found = Identity(await self._read_facts(), await self._spell())
            if self._known is not None and found != self._known:
                raise self._refuse(_list_changes(self._known, found))
            start = found.facts.start
            if self._known is not None and start not in self._starts:
                LOG.warning("%s was restarted", self._name)
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
        """Compares the weights. Changed weights are accepted if the engine itself reports the
        change: then it was intended, and the engine has dropped its caches. A version that is
        reported for the first time, or no longer, does not count as such a report."""
        known = self._weights or found
        before, now = known.version.weights, found.version.weights
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
        message = f"{self._name} was restarted, and differs in: {', '.join(changed)}"
        return RemoteError(message, hint=HINT)

    def note_answer(self, version: EngineVersion) -> None:
        """Notes that it has completed a reply."""
        self._answered_at = self._clock()
        if self._weights is None or self._was_away:
            return
        known = self._weights.version
        for what, before, now in (
            ("build", known.build, version.build),
            ("weights", known.weights, version.weights),
        ):
            if None not in (before, now) and before != now:
                LOG.warning(
                    "%s names other %s than before: %s, before %s", self._name, what, now, before
                )
                self._was_away = True

    def note_failure(self, error: Exception) -> None:
        """Notes that a request has failed."""
        self._has_failed = True
        if isinstance(error, RemoteError) and error.is_away:
            self._was_away = True


def _list_changes(known: Identity[Facts], found: Identity[Facts]) -> list[str]:
    changed: list[str] = []
    for one in fields(known.facts):
        if one.compare and getattr(known.facts, one.name) != getattr(found.facts, one.name):
            changed.append(one.name.replace("_", " "))
    return changed or ["vocabulary"]
