"""Members that may be text in one alternative of an object, and something else in another.

Formats with raw text cannot tell such values apart before it is clear which object is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grammars.schema.nodes import (
    AnyValue,
    Array,
    Extra,
    Node,
    Number,
    Object,
    Property,
    String,
    flatten,
)


@dataclass(frozen=True)
class TextMembers:
    """The declared keys that may be text in one of several alternative objects, and whether
    undeclared ones may be."""

    keys: frozenset[str] = frozenset()
    extras: bool = False

    def has(self, member: Property | Extra) -> bool:
        return member.key in self.keys if isinstance(member, Property) else self.extras


def find_texts(objects: Iterable[Object], definitions: Mapping[str, Node]) -> TextMembers:
    """Returns the members that may be text in one of the objects. In formats with raw text, all
    other scalars of these members must be terminals for text, too: the lexer cannot tell which
    object is written, and would not end a text that may continue."""
    branches = list(objects)
    if len(branches) < 2:
        return TextMembers()
    found = set[str]()
    for key, nodes in _list_declared(branches):
        if any(_may_be_text(node, definitions) for node in nodes):
            found.add(key)
    extras = [extra.node for branch in branches for extra in branch.extras]
    # A key that one object does not declare may be declared by another.
    has_text = bool(found) or any(_may_be_text(node, definitions) for node in extras)
    return TextMembers(frozenset(found), has_text)


def find_covered(objects: Iterable[Object], definitions: Mapping[str, Node]) -> list[str]:
    """Returns the declared keys that may be text in one object, and a list, object or multiple in
    another; no regular expression matches the latter. In their order."""
    branches = list(objects)
    covered: list[str] = []
    for key, nodes in _list_declared(branches) if len(branches) > 1 else ():
        hidden = [node for node in nodes if _may_be_irregular(node, definitions)]
        texts = [node for node in nodes if _may_be_text(node, definitions)]
        both = [*hidden, *texts]
        if hidden and texts and any(node != both[0] for node in both):
            covered.append(key)
    return covered


def _list_declared(branches: Sequence[Object]) -> Iterator[tuple[str, list[Node]]]:
    """Yields each declared key, with its nodes in all objects that allow it."""
    declared: list[dict[str, Property]] = []
    for branch in branches:
        declared.append({member.key: member for member in branch.properties})
    for key in dict.fromkeys(key for members in declared for key in members):
        nodes: list[Node] = []
        for branch, members in zip(branches, declared, strict=True):
            member = members.get(key) or branch.find_extra(key)
            if member is not None:
                nodes.append(member.node)
        yield key, nodes


def _may_be_text(node: Node, definitions: Mapping[str, Node]) -> bool:
    return any(isinstance(part, String | AnyValue) for part in flatten(node, definitions))


def _may_be_irregular(node: Node, definitions: Mapping[str, Node]) -> bool:
    for part in flatten(node, definitions):
        is_multiple = isinstance(part, Number) and "multipleOf" in part.bounds
        if is_multiple or isinstance(part, Array | Object):
            return True
    return False
