"""Searches that end: what they do is counted in steps, at the same place on every machine."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar


class ExhaustedError(Exception):
    """A search that takes more steps than it was given."""


class SearchEffort:
    """The steps that are left for a search.

    Args:
        steps: 1 to 5 us each.
    """

    def __init__(self, steps: int):
        self.left = steps


_active: ContextVar[SearchEffort | None] = ContextVar("effort", default=None)


@contextmanager
def limit_effort(effort: SearchEffort) -> Generator[None]:
    """What is searched in here takes its steps from this effort.

    Raises:
        ExhaustedError: there are not enough.
    """
    token = _active.set(effort)
    try:
        yield
    finally:
        _active.reset(token)


def spend(steps: int = 1) -> None:
    """Counts steps of the search under way; none is limited outside of `limit_effort`.

    Raises:
        ExhaustedError: there are not so many left.
    """
    effort = _active.get()
    if effort is not None:
        effort.left -= steps
        if effort.left < 0:
            raise ExhaustedError
