"""Is an engine still the one that the handshake was with?

It may be started again with another model while the front runs. So behind a failure, and behind a
pause in which it could have been started again, it is asked what it is before it gets a request.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from constrained.deadline import Clock
from constrained.errors import RemoteError
from constrained.remote.handshake import Handshake

PAUSE = 1.0  # seconds; no engine ends and starts again within these
SAMPLE = 256  # tokens whose text is compared
HINT = "Start the engine again with what it had, or start this process again"


@dataclass(frozen=True)
class Identity:
    """What an engine says of itself.

    Args:
        facts: a dataclass, that of the engine.
        spelling: the text of some of its tokens.
    """

    facts: Any
    spelling: str


class EngineIdentity:
    """Knows one engine again.

    Args:
        handshake: what was asked of it at the start, and is again once it was not there.
        read_facts: asks it what it is; raises RemoteError.
        clock: seconds.
    """

    def __init__(
        self,
        handshake: Handshake,
        read_facts: Callable[[], Awaitable[Any]],
        *,
        clock: Clock = time.monotonic,
    ):
        self._handshake = handshake
        self._read_facts = read_facts
        self._clock = clock
        self._lock = asyncio.Lock()
        self._known: Identity | None = None
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
                raise self._refuse(self._known, found)
            if self._was_away:
                await self._handshake.check()
            self._known = found
            self._was_away = self._has_failed = False
            self._answered_at = self._clock()

    async def _spell(self) -> str:
        size = len(self._handshake.sampler.vocabulary.tokens)
        tokens = list(range(0, size, max(1, size // SAMPLE)))
        return await self._handshake.tokenizer.detokenize(tokens)

    def _refuse(self, known: Identity, found: Identity) -> RemoteError:
        assert is_dataclass(found.facts)
        changed: list[str] = []
        for field in fields(found.facts):
            if getattr(known.facts, field.name) != getattr(found.facts, field.name):
                changed.append(field.name.replace("_", " "))
        if not changed:
            changed = ["vocabulary"]
        engine = self._handshake.sampler.name
        message = f"{engine} was started again, and differs in: {', '.join(changed)}"
        return RemoteError(message, hint=HINT)

    def note_answer(self) -> None:
        """It has ended a reply."""
        self._answered_at = self._clock()

    def note_failure(self, error: Exception) -> None:
        """A request has failed at it."""
        self._has_failed = True
        if isinstance(error, RemoteError) and error.is_away:
            self._was_away = True
