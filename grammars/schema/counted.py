"""Lists whose items depend on those in front of them, as a finite automaton over their items:
some are counted (`contains`), or none may be there twice (`uniqueItems`)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TypeAlias

from grammars.schema.nodes import Array, Constant, Node

State: TypeAlias = tuple[int, int]
"""How many items are written, and how many of those that are counted, as far as it matters; or the
items that are written, as bits."""

Write: TypeAlias = Callable[[Node], str | None]
"""The shortest text of an item; None if none is known."""

MOST_STATES = 300
"""Lists of more states than these are not held."""


@dataclass(frozen=True)
class Step:
    """A further item, and the state behind it."""

    node: Node
    behind: State


class Counted:
    """The items of a list.

    Args:
        node: an array with `contains`.
    """

    start: State = (0, 0)

    def __init__(self, node: Array):
        assert node.contains is not None
        self.node, self.contains = node, node.contains
        self._most = node.max_items
        self._enough = max(1, node.min_items, len(node.prefix))

    @cached_property
    def _alive(self) -> frozenset[State]:
        """The states from which the list can be finished."""
        seen, queue = {self.start}, [self.start]
        before: dict[State, list[State]] = {}
        while queue:
            state = queue.pop()
            for step in self._try(state):
                before.setdefault(step.behind, []).append(state)
                if step.behind not in seen:
                    seen.add(step.behind)
                    queue.append(step.behind)
        queue = [state for state in seen if self.may_end(state)]
        alive = set(queue)
        while queue:
            for state in before.get(queue.pop(), ()):
                if state not in alive:
                    alive.add(state)
                    queue.append(state)
        return frozenset(alive)

    @property
    def nodes(self) -> list[Node]:
        """All items that there may be."""
        return [step.node for state in sorted(self._alive) for step in self.steps(state)]

    @property
    def is_possible(self) -> bool:
        """Is there such a list?"""
        return self.start in self._alive

    @property
    def size(self) -> int:
        """How many states there are, at most."""
        written = self._enough if self._most is None else self._most
        counted = self.contains.least if self.contains.most is None else self.contains.most
        return (written + 1) * (counted + 1)

    def _try(self, state: State) -> Iterator[Step]:
        written, counted = state
        if self._most is not None and written >= self._most:
            return
        place = min(written, len(self.node.prefix))
        after = written + 1 if self._most is not None else min(written + 1, self._enough)
        least, most = self.contains.least, self.contains.most
        matching, other = self.contains.matching[place], self.contains.others[place]
        if matching is not None and (most is None or counted < most):
            more = counted + 1 if most is not None else min(counted + 1, least)
            yield Step(matching, (after, more))
        if other is not None:
            yield Step(other, (after, counted))

    def steps(self, state: State) -> list[Step]:
        """The items that may come next; one that is counted first, as it is."""
        return [step for step in self._try(state) if step.behind in self._alive]

    def may_end(self, state: State) -> bool:
        """Is none missing?"""
        written, counted = state
        return written >= self.node.min_items and counted >= self.contains.least

    def find_missing(self, state: State, write: Write) -> list[str | None] | None:
        """The shortest items that have to follow; None if none are known."""
        queue: list[tuple[int, int, State, list[str | None]]] = [(0, 0, state, [])]
        seen, pushed = set[State](), 0
        while queue:
            length, _, state, texts = heappop(queue)
            if self.may_end(state):
                return texts
            if state in seen:
                continue
            seen.add(state)
            for step in self.steps(state):
                text, pushed = write(step.node), pushed + 1
                if text is not None:
                    total = length + len(text) + 1
                    heappush(queue, (total, pushed, step.behind, [*texts, text]))
        return None


class Distinct:
    """The items of a list that has none of them twice.

    Args:
        node: a distinct array of constants.
    """

    start: State = (0, 0)

    def __init__(self, node: Array):
        assert isinstance(node.items, Constant)
        self.nodes: list[Node] = [Constant((value,)) for value in node.items.values]
        self.least = node.min_items
        self.most = len(self.nodes) if node.max_items is None else node.max_items

    def steps(self, state: State) -> list[Step]:
        """The items that may come next."""
        written = state[0]
        if written.bit_count() >= self.most:
            return []
        free = ((i, n) for i, n in enumerate(self.nodes) if not written >> i & 1)
        return [Step(node, (written | 1 << i, 0)) for i, node in free]

    def may_end(self, state: State) -> bool:
        """Is none missing?"""
        return state[0].bit_count() >= self.least

    def find_missing(self, state: State, write: Write) -> list[str | None] | None:
        """The shortest items that have to follow; None if none are known."""
        texts = [text for step in self.steps(state) if (text := write(step.node)) is not None]
        lacking = max(0, self.least - state[0].bit_count())
        return [*sorted(texts, key=len)[:lacking]] if len(texts) >= lacking else None


Items: TypeAlias = Counted | Distinct


def find_items(node: Array) -> Items | None:
    """The items of a list; None where each is what it is whatever stands in front of it."""
    if node.contains is not None:
        return Counted(node)
    return Distinct(node) if node.distinct else None
