"""Who sends the request under way: what is shared out among callers, and what is kept apart."""

from collections.abc import Hashable
from contextvars import ContextVar

_caller: ContextVar[Hashable | None] = ContextVar("caller", default=None)
_owner: ContextVar[Hashable | None] = ContextVar("owner", default=None)
_background: ContextVar[bool] = ContextVar("background", default=False)


def set_caller(
    key: Hashable | None, *, owner: Hashable | None = None, background: bool = False
) -> None:
    """Says who sends the request under way.

    Args:
        key: the API key; None: there are no keys.
        owner: who takes turns with the others, if it is not the holder of the key.
        background: the request is in no hurry.
    """
    _caller.set(key)
    _owner.set(owner)
    _background.set(background)


def is_background() -> bool:
    """True if the request under way is in no hurry."""
    return _background.get()


def find_owner() -> Hashable:
    """Who takes turns with the others: the holder of the key; where there are no keys, each request
    is one by itself."""
    for owner in (_owner.get(), _caller.get()):
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
    caller = _caller.get()
    if caller is None or is_shared:
        return None
    return f"key {caller!r}"
