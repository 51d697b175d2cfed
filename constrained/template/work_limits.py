"""Limits of the work that a chat template does, counted in steps.

A template, or the messages that it reads, could ask for endless work: nested loops, texts of
gigabytes. So the sandbox counts the steps of a template, and stops it at a limit. The result does
not depend on the speed or load of the machine.
"""

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

from constrained.errors import TemplateError
from grammars.steps import check_wanted

# One step is 0.1 to 0.5 us of Python: the longest rendering takes about a second.
MAX_STEPS = 3_000_000
MAX_DETECTION_STEPS = 1_000_000
"""The limit for all renderings that infer how a template writes calls: those of 150 models take
113,000."""
MAX_REQUEST_STEPS = 3 * MAX_STEPS  # for the prompt of a request, with the search for reuse
CHARACTERS = 128  # copied characters per step: this limits the memory, too
MAX_CHARACTERS = 2**24  # of one text
MAX_SOURCE = 2**18  # characters of a template
MAX_BITS = 2**12  # of an integer
_HASHED = 2**61 - 1
"""Python's hash of an integer is the rest after a division by this number, so larger ones can be
chosen to have the same hash. A set of n such integers takes n * n steps to make."""
_COLLIDING = 1_000
"""The steps for each value whose hash can be chosen: an integer from there on, and a tuple or range
with several numbers. The hashes of texts cannot be known, since Python adds a secret to them."""

_OFTEN = 10_000  # steps between two checks whether the work is still wanted
_COLLECTIONS = (list, tuple, set, frozenset, range, ItemsView, KeysView, ValuesView)
_SCALARS = frozenset({int, float, bool, type(None)})
_HINT = "The template is broken or hostile, or the conversation is too long for it: use another one"


class TemplateLimitError(TemplateError):
    """A chat template did more work than is allowed.

    Args:
        message: which limit it exceeded.
        place: the template and the line, if they are known.
    """

    def __init__(self, message: str, place: str | None = None):
        super().__init__(f"{place}: {message}" if place else message, hint=_HINT)
        self.place = place


class WorkLimit:
    """Counts the steps of one piece of work.

    Args:
        max_steps: steps that it may take.
        within: a longer piece of work that it is a part of.
    """

    def __init__(self, max_steps: int, within: "WorkLimit | None"):
        self._within = within
        self._allowed = self._max_steps = max_steps
        if within is not None and within.left < max_steps:
            self._allowed, self._max_steps = within._allowed, max(0, within.left)
        self.left = self._max_steps
        self._next_check = self.left - _OFTEN

    def spend(self, steps: int) -> None:
        """Counts steps. Raises TemplateLimitError if fewer steps are left, and at each later call;
        or what `check_wanted` raises."""
        self.left -= steps
        if self.left < self._next_check:
            self._next_check = self.left - _OFTEN
            check_wanted()
        if self.left < 0:
            self.left = -1  # if the error is caught, the next call fails again
            raise TemplateLimitError(
                f"the template takes more than {self._allowed:,} steps of work"
            )

    def close(self) -> None:
        """Ends the work: its steps count for the longer piece of work, too."""
        if self._within is not None:
            self._within.left -= self._max_steps - self.left


_active: ContextVar[WorkLimit | None] = ContextVar("active", default=None)


@contextmanager
def limit_work(max_steps: int = MAX_STEPS) -> Iterator[None]:
    """Limits the steps of all templates that are rendered in this context.

    Args:
        max_steps: the maximum number of steps, all together.

    Raises:
        TemplateLimitError: the limit was exceeded, even if the body has caught the error.
    """
    limit = WorkLimit(max_steps, _active.get())
    token = _active.set(limit)
    try:
        yield
    finally:
        _active.reset(token)
        limit.close()
    limit.spend(0)


def spend(steps: int = 1) -> bool:
    """Counts steps of the current work.

    Returns:
        True, so that templates can call it in conditions.

    Raises:
        TemplateLimitError: fewer steps are left.
    """
    limit = _active.get()
    if limit is not None:
        limit.spend(steps)
    return True


def spend_text(characters: int) -> None:
    """Counts the work to make a text, before it is made.

    Args:
        characters: the length of the text.

    Raises:
        TemplateLimitError: the text is too long, or the steps are spent.
    """
    if characters > MAX_CHARACTERS:
        raise TemplateLimitError(
            f"the template makes a text of {characters:,} characters, the limit is "
            f"{MAX_CHARACTERS:,}"
        )
    spend(1 + characters // CHARACTERS)


def check_integer(bits: int) -> None:
    """Raises TemplateLimitError for an integer with more bits than templates need."""
    if bits > MAX_BITS:
        raise TemplateLimitError(
            f"the template computes an integer of {bits:,} bits, the limit is {MAX_BITS:,}"
        )


def weigh(value: Any) -> Any:
    """Counts the work to go through a whole value: a step for each item.

    An item that the value contains several times counts each time: nested lists that contain the
    same list twice need little memory, but writing or comparing them takes exponential time.

    Returns:
        The value.

    Raises:
        TemplateLimitError: see `spend`.
    """
    limit = _active.get()
    if limit is None:
        return value
    if isinstance(value, str):
        limit.spend(1 + len(value) // CHARACTERS)
        return value
    spent = 0
    stack = [iter((value,))]
    while stack:
        for item in stack[-1]:
            spent += 1
            if spent > limit.left:
                limit.spend(spent)
            kind = type(item)
            if kind in _SCALARS:
                if kind is int and not -_HASHED < item < _HASHED:
                    spent += _COLLIDING
                continue
            if isinstance(item, (str, bytes)):
                spent += len(item) // CHARACTERS
            elif kind is dict or isinstance(item, Mapping):
                stack.append(chain.from_iterable(item.items()))
                break
            elif isinstance(item, _COLLECTIONS):
                if isinstance(item, (tuple, range)) and _has_chosen_hash(item):
                    spent += _COLLIDING
                stack.append(iter(item))
                break
        else:
            stack.pop()
    limit.spend(spent)
    return value


def _has_chosen_hash(value: tuple[Any, ...] | range) -> bool:
    """Returns whether others with the same hash can be found: two parts are numbers, or contain
    numbers. Parts that have no hash do not matter: then the value has none."""
    if isinstance(value, range):
        return True  # its hash is that of its length, start and step
    numeric = 0
    for part in value:
        if type(part) in _SCALARS or isinstance(part, (tuple, range)):
            numeric += 1
            if numeric > 1:
                return True
    return False


def count_items(items: Iterable[Any]) -> Iterator[Any]:
    """Yields the items, and counts a step for each, since their number is not known."""
    for item in items:
        yield weigh(item)


def sum_depths(value: Any) -> int:
    """Returns the sum of the depths of all items in a value; `weigh` has to be called before."""
    total, depth = 0, 0
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                below += item.values()
            elif isinstance(item, _COLLECTIONS):
                below += item
        depth += 1
        total += depth * len(below)
        level = below
    return total
