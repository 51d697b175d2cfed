"""The figures of a model: its requests, its KV cache and its other caches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grammars.limits.byte_cache import CacheSize


@dataclass(frozen=True)
class Amount:
    """An amount of snapshots, or of what sequences hold."""

    count: int = 0
    tokens: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.count + other.count, self.tokens + other.tokens, self.bytes + other.bytes
        )


@dataclass(frozen=True)
class Metrics:
    """The figures of a model at one moment: KV cache, snapshots, requests.

    Args:
        kv_cache: the sequences that are not empty; their bytes are those of their checkpoints only.
        disk: the snapshots in files that this model can use.
        misses: how many had no snapshot to go on from, and much to compute.
        failures: how many snapshots or checkpoints could not be kept or used: a disk that is full,
            a damaged file. The requests were answered all the same.
        last_failure: what the last one was; None if there was none.
        caches: the caches of grammars and conversations, by name: `matchers` (compiled grammars,
            with what their lexers have learnt), `completers` (the grammars as values), `turns`,
            `shared_prefixes`. For caches that all models of the process share, see `measure_shared`
            of `grammars.limits.byte_cache`.
    """

    sequences: int
    kv_cache: Amount
    memory: Amount
    disk: Amount
    hits: int = 0
    misses: int = 0
    failures: int = 0
    last_failure: str | None = None
    running: int = 0
    waiting: int = 0
    caches: Mapping[str, CacheSize] = field(default_factory=dict[str, CacheSize])

    @property
    def held(self) -> Amount:
        """The former name of `kv_cache`."""
        return self.kv_cache


def add_metrics(parts: Iterable[Metrics]) -> Metrics:
    """Returns the figures of several models together, with the failure of the last model that has
    one."""
    total = Metrics(sequences=0, kv_cache=Amount(), memory=Amount(), disk=Amount())
    for part in parts:
        total = Metrics(
            sequences=total.sequences + part.sequences,
            kv_cache=total.kv_cache + part.kv_cache,
            memory=total.memory + part.memory,
            disk=total.disk + part.disk,
            hits=total.hits + part.hits,
            misses=total.misses + part.misses,
            failures=total.failures + part.failures,
            last_failure=part.last_failure or total.last_failure,
            running=total.running + part.running,
            waiting=total.waiting + part.waiting,
            caches=_add_caches(total.caches, part.caches),
        )
    return total


def _add_caches(
    some: Mapping[str, CacheSize], others: Mapping[str, CacheSize]
) -> dict[str, CacheSize]:
    total = dict(some)
    for name, size in others.items():
        total[name] = total.get(name, CacheSize()) + size
    return total
