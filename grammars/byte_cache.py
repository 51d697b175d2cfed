"""Caches whose bounds are bytes, not entries: a client decides how large an entry is.

What is kept of one request may be a thousand times as large as what is kept of another, so a number
of entries bounds nothing. Entries are measured when they come; those that grow are weighed
again and again.
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
OVERHEAD = 300  # bytes of an entry's place in the dictionary, and of its bookkeeping
_COMMON = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, CodeType, Enum)
"""What values refer to and do not have for themselves."""

V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R", covariant=True)
P = ParamSpec("P")


class _Rooms:
    """The rooms of all caches of the process, and what they may come to."""

    def __init__(self) -> None:
        self._bound: int | None = None
        self._claimed = 0
        self._lock = threading.RLock()  # a finalizer may run wherever memory is asked for

    def claim(self, owner: object, room: int) -> None:
        """There is one more cache, until its owner is gone."""
        self._add(room)
        weakref.finalize(owner, self._add, -room).atexit = False

    def _add(self, room: int) -> None:
        with self._lock:
            self._claimed += room

    def bound(self, max_bytes: int | None) -> None:
        self._bound = max_bytes

    def share(self, room: int) -> int:
        if self._bound is None:
            return room
        return room * self._bound // max(1, self._claimed)


_ROOMS = _Rooms()


def bound_caches(max_bytes: int | None) -> None:
    """Bounds what all caches of this process hold together; each gets its share, as large as its
    own room is among those of all. For the start of a program.

    Args:
        max_bytes: bytes; 0: nothing is kept. None: each cache has its own room, whatever the others
            have.
    """
    _ROOMS.bound(max_bytes)


class Room:
    """The bytes that a cache may take, as long as this is referred to.

    Args:
        own: as many, where all caches together have no bound (`bound_caches`).
    """

    def __init__(self, own: int):
        self._own = own
        _ROOMS.claim(self, own)

    @property
    def bytes(self) -> int:
        """How many these are now."""
        return _ROOMS.share(self._own)


@dataclass(frozen=True)
class CacheSize:
    """How much a cache holds."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: "CacheSize") -> "CacheSize":
        return CacheSize(self.count + other.count, self.bytes + other.bytes)


def measure_bytes(value: object) -> int:
    """The bytes of a value and all that it refers to (0.3 us for each object). What other languages
    hold for it is not seen."""
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
        if type(part).__dictoffset__:  # its attributes stand in a block that getsizeof leaves out
            total += ATTRIBUTE_BYTES * len(parts)
        queue += parts
    return total


@dataclass(frozen=True)
class _Weighed(Generic[V]):
    """A value, and what its key and itself weigh."""

    value: V
    key_weight: int
    weight: int

    @property
    def bytes(self) -> int:
        return self.key_weight + self.weight


class ByteCache(Generic[V]):
    """Keeps the values that were wanted last, as far as they have room. For several threads.

    Args:
        max_bytes: bytes of all entries together, see `Room`.
        weigh: the bytes of a value. It is asked again, some `REWEIGHED` times for each value that
            comes, so what grows has to answer quickly; None: what was measured when it came.
        largest: the part of the room that one entry may take. One that has grown beyond is
            forgotten, so that it does not take the room of all others.
    """

    def __init__(
        self,
        max_bytes: int,
        weigh: Callable[[V], int] | None = None,
        *,
        largest: float = 1,
    ):
        self._room = Room(max_bytes)
        self._largest = largest
        self._weigh = weigh
        self._kept: OrderedDict[Hashable, _Weighed[V]] = OrderedDict()
        self._bytes = 0
        self._come = 0  # values, since all were weighed
        self._lock = threading.Lock()

    @property
    def size(self) -> CacheSize:
        """How much it holds."""
        with self._lock:
            self._reweigh()
            return CacheSize(len(self._kept), self._bytes)

    def find(self, key: Hashable, default: T) -> V | T:
        """The value of a key, which was wanted last from now on."""
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
        """Keeps a value, if it has room at all."""
        key_weight = OVERHEAD + measure_bytes(key)
        weight = measure_bytes(value) if self._weigh is None else self._weigh(value)
        with self._lock:
            self._put(key, _Weighed(value, key_weight, weight))
            self._come += 1
            if REWEIGHED * self._come >= len(self._kept):
                self._reweigh()

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _put(self, key: Hashable, entry: _Weighed[V]) -> None:
        """Makes it the last one, and room for it; one that is too large goes itself."""
        before = self._kept.pop(key, None)
        if before is not None:
            self._bytes -= before.bytes
        if self._is_too_large(entry):
            return
        self._kept[key] = entry
        self._bytes += entry.bytes
        self._make_room()

    def _reweigh(self) -> None:
        """Weighs all, also what was not found again but goes on growing; and there may be less room
        than there was."""
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

    def _is_too_large(self, entry: _Weighed[V]) -> bool:
        return entry.bytes > self._largest * self._room.bytes

    def _make_room(self) -> None:
        max_bytes = self._room.bytes
        while self._bytes > max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.bytes


class _Unknown(Enum):
    UNKNOWN = 0


class CachedFunction(Protocol[P, R]):
    """A function whose last results are kept."""

    cache: "ByteCache[Any]"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


_SHARED: list[tuple[str, ByteCache[Any]]] = []


def share_cache(
    name: str, max_bytes: int, weigh: Callable[[Any], int] | None = None
) -> "ByteCache[Any]":
    """A cache of the whole process, which `measure_shared` tells of; see `keep_results`."""
    cache: ByteCache[Any] = ByteCache(max_bytes, weigh)
    _SHARED.append((name, cache))
    return cache


def keep_results(
    name: str, max_bytes: int, weigh: Callable[[Any], int] | None = None
) -> Callable[[Callable[P, T]], CachedFunction[P, T]]:
    """Decorates a function of values that can be told apart, so that its last results are kept. Two
    threads may compute the same one.

    Args:
        name: of what is kept, in figures; several functions may keep the same kind.
        max_bytes: bytes of all results together, see `ByteCache`.
        weigh: the bytes of a result, see `ByteCache`.
    """
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
    """What the caches of the whole process hold, by name."""
    sizes: dict[str, CacheSize] = {}
    for name, cache in _SHARED:
        sizes[name] = sizes.get(name, CacheSize()) + cache.size
    return sizes
