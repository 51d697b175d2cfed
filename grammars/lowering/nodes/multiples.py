"""Limits the multiples that a mask follows at one time.

A mask follows the remainders of all numbers that may stand at one place of a value, and those of
alternatives multiply: also where the alternatives are objects with the same key, or lists. What one
definition says counts for all places that refer to it, as if they were one place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from grammars.lowering.keywords import MAX_REMAINDERS, count_remainders_together
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Contains,
    Extra,
    Multiple,
    Node,
    Number,
    Object,
    Property,
    Reference,
    Union,
)
from grammars.steps import spend

_Step: TypeAlias = str | int | None
"""A key, an index, or None: all others."""


class LimitedMultiples(NamedTuple):
    """A schema with as many multiples as a mask can follow.

    Args:
        node: the root.
        definitions: the nodes that references name.
        dropped: the multiples that it no longer has.
        kept: those that it has.
    """

    node: Node
    definitions: Mapping[str, Node]
    dropped: tuple[Multiple, ...]
    kept: tuple[Multiple, ...]


def limit_multiples(node: Node, definitions: Mapping[str, Node]) -> LimitedMultiples:
    """Drops those `multipleOf` whose remainders a mask cannot follow together with the smaller ones
    that may stand at the same place."""
    places = _Places(definitions)
    places.read(node)
    dropped: list[Multiple] = []
    kept: list[Multiple] = []
    for numbers in places.list_numbers():
        divisors = _select(numbers)
        for number in numbers:
            if number.multiple is not None:
                is_kept = number.bounds["multipleOf"] in divisors
                (kept if is_kept else dropped).append(number.multiple)
    if not dropped:
        return LimitedMultiples(node, definitions, (), tuple(kept))
    dropping = _Dropping({id(multiple) for multiple in dropped})
    loose = {name: dropping.rewrite(inner) for name, inner in definitions.items()}
    return LimitedMultiples(dropping.rewrite(node), loose, tuple(dropped), tuple(kept))


def _select(numbers: list[Number]) -> set[float]:
    """Returns the divisors that are followed at a place, the smallest first."""
    found = {n.bounds["multipleOf"] for n in numbers if "multipleOf" in n.bounds}
    selected = set[float]()
    for divisor in sorted(found):
        together = selected | {divisor}
        if not selected or count_remainders_together(together) <= MAX_REMAINDERS:
            selected = together
    return selected


@dataclass
class _Place:
    """A place of a value.

    Args:
        numbers: the numbers that may stand there.
        inner: the places in the objects and lists that may stand there.
        same: the place that this one was merged into.
    """

    numbers: list[Number] = field(default_factory=list[Number])
    inner: "dict[_Step, _Place]" = field(default_factory=dict[_Step, "_Place"])
    same: "_Place | None" = None

    def resolve(self) -> "_Place":
        """Returns the place that this one is now."""
        place = self
        while place.same is not None:
            place = place.same
        if self is not place:
            self.same = place
        return place


class _Places:
    """Finds the places of all values that a schema allows.

    Args:
        definitions: the nodes that references name.
    """

    def __init__(self, definitions: Mapping[str, Node]):
        self._definitions = definitions
        self._named: dict[str, _Place] = {}
        self._places: list[_Place] = []
        self._unread: list[tuple[_Place, Node]] = []

    def read(self, node: Node) -> None:
        """Finds the places of the values of this node."""
        self._unread.append((self._add(), node))
        while self._unread:
            spend()
            place, part = self._unread.pop()
            match part:
                case Reference(name) if name in self._named:
                    self._merge(place, self._named[name])
                case Reference(name):
                    self._named[name] = place
                    self._unread.append((place, self._definitions[name]))
                case Union(branches):
                    self._unread += [(place, branch) for branch in reversed(branches)]
                case Number():
                    place.resolve().numbers.append(part)
                case Object() | Array():
                    self._read_inner(place, part)
                case _:
                    pass

    def list_numbers(self) -> Iterator[list[Number]]:
        """Yields the numbers of each place."""
        for place in self._places:
            if place.same is None:
                yield place.numbers

    def _add(self) -> _Place:
        self._places.append(_Place())
        return self._places[-1]

    def _read_inner(self, place: _Place, node: Object | Array) -> None:
        own = self._add()
        for step, part in _list_steps(node):
            if step is None and isinstance(part, AnyValue):
                continue  # no multiples, so it need not join the places of the declared ones
            if step not in own.inner:
                own.inner[step] = self._add()
            self._unread.append((own.inner[step], part))
        self._merge(place, own)

    def _merge(self, first: _Place, second: _Place) -> None:
        """Makes two places one, and those inside of them that values may share."""
        queue = [(first, second)]
        while queue:
            spend()
            place, other = (side.resolve() for side in queue.pop())
            if place is other:
                continue
            if len(place.inner) < len(other.inner):
                place, other = other, place
            queue += _pair(place.inner, other.inner)
            other.same = place
            place.numbers += other.numbers
            place.inner |= {step: at for step, at in other.inner.items() if step not in place.inner}


def _list_steps(node: Object | Array) -> Iterator[tuple[_Step, Node]]:
    """Yields the members of an object, or the items of a list."""
    if isinstance(node, Object):
        for declared in node.properties:
            yield declared.key, declared.node
        for extra in node.extras:
            yield None, extra.node
        return
    items: list[tuple[Node | None, ...]] = [(*node.prefix, node.items)]
    if node.contains is not None:
        items += [node.contains.matching, node.contains.others]
    for alternatives in items:
        last = len(alternatives) - 1
        for index, item in enumerate(alternatives):
            if item is not None:
                yield (None if index == last else index), item


def _pair(
    some: Mapping[_Step, _Place], others: Mapping[_Step, _Place]
) -> Iterator[tuple[_Place, _Place]]:
    """Yields the places that are the same in both."""
    for mine, theirs in ((some, others), (others, some)):
        for step, place in mine.items():
            if step in theirs:
                yield place, theirs[step]
            elif None in theirs:
                yield place, theirs[None]


class _Dropping:
    """Rewrites nodes without some multiples.

    Args:
        dropped: the ids of the multiples.
    """

    def __init__(self, dropped: set[int]):
        self._dropped = dropped

    def rewrite(self, node: Node) -> Node:
        """Returns the node without these multiples."""
        spend()
        match node:
            case Number(multiple=Multiple() as multiple) if id(multiple) in self._dropped:
                return multiple.without
            case Union(branches):
                return Union(tuple(map(self.rewrite, branches)))
            case Object():
                return self._rewrite_object(node)
            case Array(prefix, items, contains=contains):
                return replace(
                    node,
                    prefix=tuple(map(self.rewrite, prefix)),
                    items=self._rewrite_item(items),
                    contains=None if contains is None else self._rewrite_contains(contains),
                )
            case _:
                return node

    def _rewrite_object(self, node: Object) -> Object:
        def rewrite(member: Property) -> Property:
            return replace(member, node=self.rewrite(member.node))

        def rewrite_extra(member: Extra) -> Extra:
            return replace(member, node=self.rewrite(member.node))

        return replace(
            node,
            properties=tuple(map(rewrite, node.properties)),
            additional=self._rewrite_item(node.additional),
            patterned=tuple(map(rewrite_extra, node.patterned)),
        )

    def _rewrite_contains(self, contains: Contains) -> Contains:
        return replace(
            contains,
            matching=tuple(map(self._rewrite_item, contains.matching)),
            others=tuple(map(self._rewrite_item, contains.others)),
        )

    def _rewrite_item(self, node: Node | None) -> Node | None:
        return None if node is None else self.rewrite(node)
