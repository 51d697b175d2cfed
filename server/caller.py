"""Who sends the request under way, for what is shared out among callers."""

from collections.abc import Hashable
from contextvars import ContextVar

_caller: ContextVar[Hashable | None] = ContextVar("caller", default=None)


def set_caller(key: Hashable | None) -> None:
    """The request under way comes from the holder of this key; None: there are no keys."""
    _caller.set(key)


def find_owner() -> Hashable:
    """The caller; where there are no keys, each request is one by itself."""
    caller = _caller.get()
    return object() if caller is None else caller
