"""Finds the shortest text after each reading of a chart."""

from collections.abc import Iterable, Iterator

from grammars.limits.steps import spend
from grammars.turn_grammar.ir.items import Item, ItemOrigin, ItemSet, Rest
from grammars.turn_grammar.ir.shortest import (
    NO_TEXT,
    Completion,
    Shortest,
    find_end,
    join,
    pick_shorter,
)

MAX_ENDINGS = 1_000
"""How many endings of a rest are kept: one for each parameter of its rule."""


class ReadingEndings:
    """The endings of the readings of one text. Behind the root, the origin of the whole turn,
    nothing follows."""

    def __init__(self, root: ItemOrigin, shortest: Shortest):
        self._shortest = shortest
        self._known: dict[ItemOrigin, Completion | None] = {root: NO_TEXT}

    def find(self, sets: Iterable[ItemSet]) -> Iterator[Completion]:
        """Yields the shortest ending of each lexeme that is being read in these sets: its rest, and
        the text after it."""
        for item_set in sets:
            for lexeme, machine, at in item_set.running:
                end = find_end(machine, at)
                if end is None:
                    continue
                for item in item_set.waiting[lexeme]:
                    spend()
                    after = self._follow(item)
                    if after is not None:
                        yield join(end._replace(costly=item.costly), after)

    def _follow(self, item: Item) -> Completion | None:
        """Returns the shortest text for the rest of a rule and of all its callers."""
        rest = _find_rest(item, self._shortest)
        if rest is None:
            return None
        above = self._leave(item.origin)
        return None if above is None else join(rest, above)

    def _leave(self, origin: ItemOrigin) -> Completion | None:
        """Returns the shortest text after a rule. Uses a stack instead of recursion, since values
        may be nested deeply."""
        known = self._known
        stack = [origin]
        while stack:
            top = stack[-1]
            spend(1 + len(top.callers))
            if known.get(top) is not None:
                stack.pop()
                continue
            missing = [c.origin for c in top.callers if c.origin not in known]
            if top not in known and missing:
                known[top] = None  # a path that returns to it is not the shortest
                stack += missing
                continue
            best: Completion | None = None
            for item in top.callers:
                rest, above = _find_rest(item, self._shortest), known.get(item.origin)
                if rest is not None and above is not None:
                    best = pick_shorter(best, join(rest, above))
            known[top] = best
            stack.pop()
        return known[origin]


def _find_rest(item: Item, shortest: Shortest) -> Completion | None:
    rest, bits = item.rest, item.bits
    unknown: list[Rest] = []  # no recursion: a constant list may have thousands of parts
    while rest is not None and bits not in rest.endings:
        unknown.append(rest)
        rest = rest.after
    found = NO_TEXT if rest is None else rest.endings[bits]
    for longer in reversed(unknown):
        if len(longer.endings) >= MAX_ENDINGS:
            longer.endings.clear()
        ending = shortest.find(longer.expression, bits)
        found = None if ending is None or found is None else join(ending, found)
        longer.endings[bits] = found
    return found
