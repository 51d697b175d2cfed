"""Caches with limits in bytes instead of entries, because a client decides how large an entry is.

The entry of one request may be a thousand times as large as that of another, so a number of entries
would limit nothing. Entries are measured when they are added; those that grow are measured
repeatedly.
"""

import functools
import gc
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

MIB = 1 << 20
REWEIGHED = 8
ATTRIBUTE_BYTES = 8
OVERHEAD = 300  # bytes for an entry's place in the dictionary and its bookkeeping
_COMMON = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, CodeType, Enum)
"""Types of objects that values share with the rest of the process."""

V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R", covariant=True)
P = ParamSpec("P")


class _CommonLimit:
    """What all caches may take together (None: any bytes), and the sum of their own limits."""

    bound: int | None = None
    claimed = 0
    _lock = threading.RLock()  # a finalizer may run at any allocation of memory

    def claim(self, max_bytes: int) -> None:
        with self._lock:
            self.claimed += max_bytes


_COMMON_LIMIT = _CommonLimit()


def bound_caches(max_bytes: int | None) -> None:
    """Limits the bytes of all caches of this process together (0: nothing is cached; None: each
    cache only has its own limit). Each gets a share in proportion to its own limit. Call it at the
    start of a program."""
    _COMMON_LIMIT.bound = max_bytes


class CacheLimit:
    """The bytes that a cache may take, as long as this object exists; `own`: if there is no common
    limit (`bound_caches`)."""

    def __init__(self, own: int):
        self._own = own
        _COMMON_LIMIT.claim(own)
        weakref.finalize(self, _COMMON_LIMIT.claim, -own).atexit = False

    @property
    def bytes(self) -> int:
        """The current limit."""
        if _COMMON_LIMIT.bound is None:
            return self._own
        return self._own * _COMMON_LIMIT.bound // max(1, _COMMON_LIMIT.claimed)


@dataclass(frozen=True)
class CacheSize:
    """The size of a cache."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: "CacheSize") -> "CacheSize":
        return CacheSize(self.count + other.count, self.bytes + other.bytes)


def measure_bytes(value: object) -> int:
    """Returns the bytes of a value and everything that it refers to (0.3 us for each object).
    Memory of extension modules is not included."""
    seen: set[int] = set()
    queue: list[object] = [value]
    total = 0
    while queue:
        part = queue.pop()
        if id(part) in seen or isinstance(part, _COMMON):
            continue
        seen.add(id(part))
        parts = gc.get_referents(part)
        total += sys.getsizeof(part)
        if type(part).__dictoffset__:  # its attributes are in a block that getsizeof leaves out
            total += ATTRIBUTE_BYTES * len(parts)
        queue += parts
    return total


@dataclass(frozen=True)
class _WeighedValue(Generic[V]):
    """A value, and the bytes of its key and itself."""

    value: V
    key_weight: int
    weight: int

    @property
    def bytes(self) -> int:
        return self.key_weight + self.weight


class ByteCache(Generic[V]):
    """Keeps the most recently used values, up to a limit in bytes. For several threads.

    Args:
        weigh: returns the bytes of a value. It is called again about `REWEIGHED` times for each new
            value, so it must be fast for values that grow. None: the value is measured once, when
            it is added.
        largest: the part of the limit that one entry may take. A larger entry is dropped, so that
            it does not displace all others.
    """

    def __init__(
        self, max_bytes: int, weigh: Callable[[V], int] | None = None, *, largest: float = 1
    ):
        self._limit = CacheLimit(max_bytes)
        self._largest = largest
        self._weigh = weigh
        self._kept: OrderedDict[Hashable, _WeighedValue[V]] = OrderedDict()
        self._bytes = 0
        self._come = 0  # values added since all were measured
        self._lock = threading.Lock()

    @property
    def size(self) -> CacheSize:
        with self._lock:
            self._reweigh()
            return CacheSize(len(self._kept), self._bytes)

    def find(self, key: Hashable, default: T) -> V | T:
        """Returns the value of a key, now the most recently used one, or the default."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return default
            if self._weigh is None:
                self._kept.move_to_end(key)
            else:
                self._put(key, replace(entry, weight=self._weigh(entry.value)))
            return entry.value

    def keep(self, key: Hashable, value: V) -> None:
        """Adds a value, if it is small enough."""
        key_weight = OVERHEAD + measure_bytes(key)
        weight = measure_bytes(value) if self._weigh is None else self._weigh(value)
        with self._lock:
            self._put(key, _WeighedValue(value, key_weight, weight))
            self._come += 1
            if REWEIGHED * self._come >= len(self._kept):
                self._reweigh()

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _put(self, key: Hashable, entry: _WeighedValue[V]) -> None:
        """Adds an entry as the most recently used one, if it is small enough, and drops others."""
        before = self._kept.pop(key, None)
        if before is not None:
            self._bytes -= before.bytes
        if self._is_too_large(entry):
            return
        self._kept[key] = entry
        self._bytes += entry.bytes
        self._make_room()

    def _reweigh(self) -> None:
        """Measures all entries again: any may have grown, and the limit may have become smaller."""
        self._come = 0
        if self._weigh is not None:
            for key, entry in [*self._kept.items()]:
                weighed = replace(entry, weight=self._weigh(entry.value))
                self._bytes += weighed.bytes - entry.bytes
                self._kept[key] = weighed
                if self._is_too_large(weighed):
                    del self._kept[key]
                    self._bytes -= weighed.bytes
        self._make_room()

    def _is_too_large(self, entry: _WeighedValue[V]) -> bool:
        return entry.bytes > self._largest * self._limit.bytes

    def _make_room(self) -> None:
        max_bytes = self._limit.bytes
        while self._bytes > max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.bytes


class _Unknown(Enum):
    UNKNOWN = 0


class CachedFunction(Protocol[P, R]):
    """A function with a cache of its most recently used results."""

    cache: "ByteCache[Any]"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


_SHARED: list[tuple[str, ByteCache[Any]]] = []


def share_cache(name: str, max_bytes: int, weigh: Callable[[Any], int] | None) -> "ByteCache[Any]":
    """Returns a cache of the whole process, which `measure_shared` includes; see `keep_results`."""
    cache: ByteCache[Any] = ByteCache(max_bytes, weigh)
    _SHARED.append((name, cache))
    return cache


def keep_results(
    name: str, max_bytes: int, weigh: Callable[[Any], int] | None = None
) -> Callable[[Callable[P, T]], CachedFunction[P, T]]:
    """Decorates a function with hashable arguments to cache its results, up to `max_bytes`. Two
    threads may compute the same result. The cache is named in `measure_shared`; several functions
    may have the same name."""
    cache = share_cache(name, max_bytes, weigh)

    def decorate(compute: Callable[P, T]) -> CachedFunction[P, T]:
        @functools.wraps(compute)
        def find(*args: P.args, **kwargs: P.kwargs) -> T:
            key = (args, *kwargs.items()) if kwargs else args
            found = cache.find(key, _Unknown.UNKNOWN)
            if found is _Unknown.UNKNOWN:
                found = compute(*args, **kwargs)
                cache.keep(key, found)
            return found

        kept: Any = find
        kept.cache = cache
        return kept

    return decorate


def measure_shared() -> dict[str, CacheSize]:
    """Returns the sizes of the caches of the whole process, by name."""
    sizes: dict[str, CacheSize] = {}
    for name, cache in _SHARED:
        sizes[name] = sizes.get(name, CacheSize()) + cache.size
    return sizes
