"""The items of a list that may come next, if that depends on earlier items: `contains` counts
items, and `uniqueItems` forbids repeated ones. A finite automaton over items."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from grammars.schema.nodes import Array, Constant, Node

State: TypeAlias = tuple[int, int]
"""`Counted`: the number of items and of matching items, as far as they matter. `Distinct`: the
written items as bits, and 0."""

MAX_STATES = 300
"""Lists of more states than these are not enforced."""


@dataclass(frozen=True)
class Step:
    """An item that may come next, and the state after it."""

    node: Node
    after: State


class Counted:
    """The items of a list with `contains`."""

    start: State = (0, 0)

    def __init__(self, node: Array):
        assert node.contains is not None
        self.node = node
        self.contains = node.contains
        # More items than this are not counted, unless there is a limit.
        self._enough = max(1, node.min_items, len(node.prefix))

    @cached_property
    def _alive(self) -> frozenset[State]:
        """The states from which the list can be completed. Searches forwards from the start, then
        backwards from the states that may end."""
        reached = {self.start}
        before: dict[State, list[State]] = {}
        queue = [self.start]
        while queue:
            state = queue.pop()
            for step in self._list_steps(state):
                before.setdefault(step.after, []).append(state)
                if step.after not in reached:
                    reached.add(step.after)
                    queue.append(step.after)
        queue = [state for state in reached if self.may_end(state)]
        alive = set(queue)
        while queue:
            for state in before.get(queue.pop(), ()):
                if state not in alive:
                    alive.add(state)
                    queue.append(state)
        return frozenset(alive)

    @property
    def nodes(self) -> list[Node]:
        nodes: list[Node] = []
        for state in sorted(self._alive):
            nodes += [step.node for step in self.steps(state)]
        return nodes

    @property
    def is_possible(self) -> bool:
        return self.start in self._alive

    @property
    def size(self) -> int:
        """The maximum number of states."""
        written, matches = self.node.max_items, self.contains.most
        if written is None:
            written = self._enough
        if matches is None:
            matches = self.contains.least
        return (written + 1) * (matches + 1)

    def _list_steps(self, state: State) -> Iterator[Step]:
        """Yields the items that may come next, also those after which no list can be completed."""
        written, matches = state
        longest, contains = self.node.max_items, self.contains
        if longest is not None and written >= longest:
            return
        index = min(written, len(self.node.prefix))
        written += 1
        if longest is None:
            written = min(written, self._enough)
        matching, other = contains.matching[index], contains.others[index]
        if matching is not None and (contains.most is None or matches < contains.most):
            more = matches + 1
            if contains.most is None:
                more = min(more, contains.least)
            yield Step(matching, (written, more))
        if other is not None:
            yield Step(other, (written, matches))

    def steps(self, state: State) -> list[Step]:
        """Returns the items that may come next, the matching ones first."""
        return [step for step in self._list_steps(state) if step.after in self._alive]

    def may_end(self, state: State) -> bool:
        written, matches = state
        return written >= self.node.min_items and matches >= self.contains.least


class Distinct:
    """The items of a distinct list of constants."""

    start: State = (0, 0)

    def __init__(self, node: Array):
        assert isinstance(node.items, Constant)
        self.nodes: list[Node] = [Constant((value,)) for value in node.items.values]
        self.least = node.min_items
        self.most = len(self.nodes) if node.max_items is None else node.max_items

    def steps(self, state: State) -> list[Step]:
        written = state[0]
        if written.bit_count() >= self.most:
            return []
        steps: list[Step] = []
        for index, node in enumerate(self.nodes):
            if not written >> index & 1:
                steps.append(Step(node, (written | 1 << index, 0)))
        return steps

    def may_end(self, state: State) -> bool:
        return state[0].bit_count() >= self.least


Items: TypeAlias = Counted | Distinct


def find_items(node: Array) -> Items | None:
    """Returns the items of a list; None if no item depends on earlier ones."""
    if node.contains is not None:
        return Counted(node)
    if node.distinct:
        return Distinct(node)
    return None
