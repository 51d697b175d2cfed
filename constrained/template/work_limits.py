"""Limits of the work that a chat template does, counted in steps.

Whoever writes a template, or the messages that it reads, can ask for more than anybody has: loops
in loops, texts of gigabytes. So what the sandbox does for a template is counted, and it ends where
the steps are spent: at the same place on every machine, however busy it is.
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
"""All the renderings that tell how a template writes calls: those of 150 models take 113,000."""
MAX_REQUEST_STEPS = 3 * MAX_STEPS  # the prompt of a request, and where it may be reused
CHARACTERS = 128  # of a text that is copied, for a step: so the memory is bounded as well
MAX_CHARACTERS = 2**24  # of one text
MAX_SOURCE = 2**18  # characters of a template
MAX_BITS = 2**12  # of an integer

_OFTEN = 10_000  # steps between two looks at whether the work is still wanted
_COLLECTIONS = (list, tuple, set, frozenset, range, ItemsView, KeysView, ValuesView)
_SCALARS = frozenset({int, float, bool, type(None)})
_HINT = "The template is broken or hostile, or the conversation is too long for it: use another one"


class TemplateLimitError(TemplateError):
    """A chat template that does more work than is allowed.

    Args:
        message: which limit it met.
        place: the template and the line, where they are known.
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

    def __init__(self, max_steps: int, within: "WorkLimit | None" = None):
        self._within = within
        self._allowed = self._max_steps = max_steps
        if within is not None and within.left < max_steps:
            self._allowed, self._max_steps = within._allowed, max(0, within.left)
        self.left = self._max_steps
        self._next_check = self.left - _OFTEN

    def spend(self, steps: int) -> None:
        """Raises TemplateLimitError if fewer steps are left, and from then on; or what
        `check_wanted` raises."""
        self.left -= steps
        if self.left < self._next_check:
            self._next_check = self.left - _OFTEN
            check_wanted()
        if self.left < 0:
            self.left = -1  # caught and tried again, it fails again
            raise TemplateLimitError(
                f"the template takes more than {self._allowed:,} steps of work"
            )

    def close(self) -> None:
        """The work is over: what it has spent is spent of the longer piece, too."""
        if self._within is not None:
            self._within.left -= self._max_steps - self.left


_active: ContextVar[WorkLimit | None] = ContextVar("active", default=None)


@contextmanager
def limit_work(max_steps: int = MAX_STEPS) -> Iterator[None]:
    """What templates do in here takes at most so many steps, all together.

    Raises:
        TemplateLimitError: they take more; also if whoever has tried them went on without.
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
    """Counts so many steps of the work under way.

    Returns:
        True, so that templates can call it in conditions.

    Raises:
        TemplateLimitError: there are not so many left.
    """
    limit = _active.get()
    if limit is not None:
        limit.spend(steps)
    return True


def spend_text(characters: int) -> None:
    """Counts the making of a text of so many characters, before it is made.

    Raises:
        TemplateLimitError: it is too long, or the steps are spent.
    """
    if characters > MAX_CHARACTERS:
        raise TemplateLimitError(
            f"the template makes a text of {characters:,} characters, the limit is "
            f"{MAX_CHARACTERS:,}"
        )
    spend(1 + characters // CHARACTERS)


def check_integer(bits: int) -> None:
    """Raises TemplateLimitError for an integer of more bits than anybody has a use for."""
    if bits > MAX_BITS:
        raise TemplateLimitError(
            f"the template computes an integer of {bits:,} bits, the limit is {MAX_BITS:,}"
        )


def weigh(value: Any) -> Any:
    """Counts a look at all of a value: an item for a step, as often as it is in there.

    Lists that hold the same list twice are trees of any size in little memory, but not where they
    are written or compared.

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
                continue
            if isinstance(item, (str, bytes)):
                spent += len(item) // CHARACTERS
            elif kind is dict or isinstance(item, Mapping):
                stack.append(chain.from_iterable(item.items()))
                break
            elif isinstance(item, _COLLECTIONS):
                stack.append(iter(item))
                break
        else:
            stack.pop()
    limit.spend(spent)
    return value


def count_items(items: Iterable[Any]) -> Iterator[Any]:
    """The items, each counted as it comes: there may be any number of them."""
    for item in items:
        yield weigh(item)


def sum_depths(value: Any) -> int:
    """The sum of the depths of all items in a value that was weighed: 0 for a value by itself."""
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
