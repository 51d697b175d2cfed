"""A remote engine in the form that a model needs."""

from pathlib import Path
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.limits.deadline import Clock
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.identity import EngineIdentity
from constrained.remote.remote_runner import RemoteRunner
from constrained.remote.sampler import Lack, TokenSampler

NOTES = {
    Lack.FORCED_TOKENS: "tokens that the grammar forces cost a decode each",
    Lack.SNAPSHOTS: "no snapshots of the KV cache",
    Lack.PREFILL: "no prefill",
    Lack.AFTER_REPETITION: "a value that repeats itself too long (max_repetition) ends the reply",
    Lack.REWRITING: "a value that does not fit is an error at once",
    Lack.TRACE: "no trace",
    Lack.DETERMINISM: "no deterministic replies",
    Lack.SALTS: "its prompt cache does not support cache_salt",
}


class RemoteEngine:
    """A `ModelEngine` whose tokens are sampled elsewhere. Also a context manager.

    Args:
        loop: where the sampler runs; it is closed with the engine.
        identity: recognises the engine after a restart; None: it cannot change.
    """

    memory_bytes = 0
    path: Path | None = None

    def __init__(
        self,
        sampler: TokenSampler,
        loop: EventLoopThread,
        identity: EngineIdentity[Any] | None = None,
    ):
        self.sampler = sampler
        self._loop = loop
        self._identity = identity

    def __enter__(self) -> "RemoteEngine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def vocabulary(self) -> Vocabulary:
        return self.sampler.vocabulary

    @property
    def context_length(self) -> int:
        return self.sampler.limits.context_length

    @property
    def max_sequences(self) -> int:
        return self.sampler.limits.sequences

    @property
    def notice(self) -> str:
        """What users of the engine should know."""
        notes = "; ".join(NOTES[lack] for lack in self.sampler.limits.lacks)
        return f"{self.sampler.name} samples the tokens, each is checked here: {notes}"

    def make_runner(self, *, clock: Clock, max_waiting: int) -> RemoteRunner:
        """Makes the runner, which executes turns at this engine."""
        return RemoteRunner(
            self.sampler,
            self._loop,
            identity=self._identity,
            clock=clock,
            max_waiting=max_waiting,
        )

    def close(self) -> None:
        """Closes all connections; further calls do nothing."""
        if not self._loop.is_closed:
            self._loop.run(self.sampler.close())
            self._loop.close()
