"""Who sends the request under way, for what is shared out among callers."""

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
