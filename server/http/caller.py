"""The client of the current request: its API key, its share of the machine, and its cache salt.
They are context variables, so that no function has to pass them on."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from constrained.decode.request import PassingOwner

T = TypeVar("T")


@dataclass(frozen=True)
class _Caller:
    key: Hashable | None = None
    request_id: str = ""


_caller: ContextVar[_Caller] = ContextVar("caller", default=_Caller())  # noqa: B039  it is frozen


def set_caller(key: Hashable | None, *, request_id: str = "") -> None:
    """Sets the client of the current request; `key` is None where there are no keys. The id names
    the request, to the client and in the log."""
    _caller.set(_Caller(key, request_id))


def as_caller(work: Callable[[], T]) -> Callable[[], T]:
    """Returns the work, to be done in another thread for the client of the current request. All
    other context variables stay those of the thread, such as its deadline."""
    caller = _caller.get()

    def run() -> T:
        before = _caller.set(caller)
        try:
            return work()
        finally:
            _caller.reset(before)

    return run


def find_request_id() -> str:
    return _caller.get().request_id


def find_key() -> Hashable | None:
    return _caller.get().key


def find_owner() -> Hashable:
    """Returns the client with which the machine is shared fairly: the holder of the key. Without
    keys, each request counts as a separate client."""
    key = _caller.get().key
    return PassingOwner() if key is None else key


def find_salt(given: str | None, *, is_shared: bool) -> str | None:
    """Returns the cache salt of the current request: its `cache_salt`, which several keys may
    share, or else one made from its key, unless caches are shared. None: the salt of all requests
    with neither."""
    if given is not None:
        return f"salt {given}"
    key = _caller.get().key
    if key is None or is_shared:
        return None
    return f"key {key!r}"
