"""Who sends the request under way: what is shared out among callers, and what is kept apart."""

from collections.abc import Hashable
from contextvars import ContextVar

_caller: ContextVar[Hashable | None] = ContextVar("caller", default=None)
_background: ContextVar[bool] = ContextVar("background", default=False)


def set_caller(key: Hashable | None, *, background: bool = False) -> None:
    """The request under way comes from the holder of this key; None: there are no keys. One in the
    background is in no hurry."""
    _caller.set(key)
    _background.set(background)


def is_background() -> bool:
    """True if the request under way is in no hurry."""
    return _background.get()


def find_owner() -> Hashable:
    """The caller; where there are no keys, each request is one by itself."""
    caller = _caller.get()
    return object() if caller is None else caller


def find_salt(given: str | None, *, is_shared: bool) -> str | None:
    """The salt of the caches for the request under way: that of the client, on which several keys
    may agree; else one of its key. None: that of all who give neither.

    Args:
        given: the request's `cache_salt`.
        is_shared: keys have no salts of their own.
    """
    if given is not None:
        return f"salt {given}"
    caller = _caller.get()
    if caller is None or is_shared:
        return None
    return f"key {caller!r}"
