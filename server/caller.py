"""Who sends the request under way: what is shared out among callers, and what is kept apart."""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Caller:
    key: Hashable | None = None
    owner: Hashable | None = None
    background: bool = False
    request_id: str = ""


_caller: ContextVar[_Caller] = ContextVar("caller", default=_Caller())  # noqa: B039  it is frozen


def set_caller(
    key: Hashable | None,
    *,
    owner: Hashable | None = None,
    background: bool = False,
    request_id: str = "",
) -> None:
    """Says who sends the request under way.

    Args:
        key: the API key; None: there are no keys.
        owner: who takes turns with the others, if it is not the holder of the key.
        background: the request is in no hurry.
        request_id: names the request, to the client and in the log.
    """
    _caller.set(_Caller(key, owner, background, request_id))


def as_caller(work: Callable[[], T]) -> Callable[[], T]:
    """The work, to be done in another thread for whoever sends the request under way. The rest of
    the context stays that of the thread: it knows when the work has to stop."""
    caller = _caller.get()

    def run() -> T:
        before = _caller.set(caller)
        try:
            return work()
        finally:
            _caller.reset(before)

    return run


def is_background() -> bool:
    """True if the request under way is in no hurry."""
    return _caller.get().background


def find_request_id() -> str:
    """The id of the request under way; "" if it has none."""
    return _caller.get().request_id


def find_key() -> Hashable | None:
    """The API key of the request under way; None: there are no keys."""
    return _caller.get().key


def find_owner() -> Hashable:
    """Who takes turns with the others: the holder of the key; where there are no keys, each request
    is one by itself."""
    caller = _caller.get()
    for owner in (caller.owner, caller.key):
        if owner is not None:
            return owner
    return object()


def find_salt(given: str | None, *, is_shared: bool) -> str | None:
    """The salt of the caches for the request under way: that of the client, on which several keys
    may agree; else one of its key. None: that of all who give neither.

    Args:
        given: the request's `cache_salt`.
        is_shared: keys have no salts of their own.
    """
    if given is not None:
        return f"salt {given}"
    key = _caller.get().key
    if key is None or is_shared:
        return None
    return f"key {key!r}"
