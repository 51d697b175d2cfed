"""The shortest nested tags of each node. It mirrors `lark_nested`."""

from dataclasses import dataclass

from grammars.complete.scalar import join
from grammars.complete.shortest import Shortest
from grammars.regex.texts import Texts
from grammars.schema.counted import Items, State, find_items
from grammars.schema.members import Members, arrange
from grammars.schema.nodes import (
    Array,
    Boolean,
    Constant,
    Node,
    Null,
    Number,
    Object,
    String,
    flatten,
)
from grammars.spelling.languages import Language, Words, pick_shortest, speak_number, speak_string
from grammars.spelling.nested import find_extras, is_writable, part, spell_words
from grammars.spelling.parts import take_apart
from grammars.wire.format import NestedArguments


@dataclass(frozen=True)
class Branches:
    """What a value may be: texts, and lists and objects."""

    texts: tuple[Language, ...]
    containers: tuple[Array | Object, ...]


class NestedShortest:
    """Shortest texts over one schema.

    Args:
        hole: how the arguments are written.
        shortest: knows what references name, and how other values are spelled.
    """

    def __init__(self, hole: NestedArguments, shortest: Shortest):
        self._hole, self.shortest = hole, shortest
        self._branches: dict[int, tuple[Node, Branches]] = {}  # holds the node, so its id stays
        self._values: dict[int, str | None] = {}
        self._members: dict[int, tuple[Node, Members]] = {}
        self._extras: dict[int, tuple[Node, list[tuple[Texts, Node]]]] = {}
        self._open: set[int] = set()  # values that are being looked for

    def branches(self, node: Node) -> Branches:
        """What a value may be."""
        if id(node) not in self._branches:
            self._branches[id(node)] = node, self._sort(node)
        return self._branches[id(node)][1]

    def _sort(self, node: Node) -> Branches:
        texts, words, containers = list[Language](), list[str](), list[Array | Object]()
        for branch in part(flatten(node, self.shortest.definitions)):
            match branch:
                case String():
                    texts.append(speak_string(branch))
                case Number():
                    texts.append(speak_number(branch))
                case Boolean():
                    words += ["true", "false"]
                case Null():
                    words.append("null")
                case Constant(values) if is_writable(values[0], self._hole):
                    if isinstance(values[0], list | dict):
                        made = take_apart(values[0])
                        containers += [made] if isinstance(made, Array | Object) else []
                    else:
                        words += spell_words(values[0])
                case Array() | Object():
                    containers.append(branch)
                case _:
                    pass
        texts += [Words(tuple(words))] if words else []
        return Branches(tuple(texts), tuple(containers))

    def value(self, node: Node) -> str | None:
        """The shortest text of a value; None if none is known, or none that is finite."""
        key = id(node)
        if key in self._values:
            return self._values[key]
        if key in self._open:
            return None
        self._open.add(key)
        branches = self.branches(node)
        texts = (text.extend("") for text in branches.texts)
        found = pick_shortest([*texts, *map(self.container, branches.containers)])
        self._open.discard(key)
        if found is not None or not self._open:  # else it may be known outside of the circle
            self._values[key] = found
        return found

    def element(self, node: Node, tag: str) -> str | None:
        """The shortest value and its closing tag."""
        return join(self.value(node), self._hole.close(tag))

    def container(self, node: Array | Object) -> str | None:
        """The shortest list or object."""
        return self.object(node) if isinstance(node, Object) else self.items(node, 0)

    def object(self, node: Object) -> str | None:
        """The shortest members."""
        return self.rest(node, self.members(node).start)

    def members(self, node: Object) -> Members:
        """In which order the members come."""
        if id(node) not in self._members:
            extra = bool(self.extras(node))
            members = arrange(node.properties, extra, node.presence, self.shortest.order)
            self._members[id(node)] = node, members
        return self._members[id(node)][1]

    def rest(self, node: Object, state: int) -> str | None:
        """The shortest rest of an object in that state."""

        def measure(index: int | None) -> int | None:
            text = self._member(node, index)
            return None if text is None else len(text)

        missing = self.members(node).find_missing(state, measure)
        return None if missing is None else join(*(self._member(node, i) for i in missing))

    def _member(self, node: Object, index: int | None) -> str | None:
        """The shortest declared member with that index, or an undeclared one."""
        if index is not None:
            declared = node.properties[index]
            return join(self._hole.open(declared.key), self.element(declared.node, declared.key))
        ends = self.extend_key(node, "")
        return pick_shortest(join(self._hole.open(k), self.element(v, k)) for k, v in ends)

    def items(self, node: Array, index: int) -> str | None:
        """The shortest rest of a list, from that item on."""
        if (counted := find_items(node)) is not None:
            return self.counted(counted, counted.start)
        tag, parts = self._hole.item, list[str | None]()
        for i in range(index, node.min_items):
            item = self.shortest.item(node, i)
            parts += [self._hole.open(tag), None if item is None else self.element(item, tag)]
        return join(*parts)

    def counted(self, counted: Items, state: State) -> str | None:
        """The shortest rest of a list some of whose items are counted."""
        tag = self._hole.item
        texts = counted.find_missing(
            state, lambda item: join(self._hole.open(tag), self.element(item, tag))
        )
        return None if texts is None else join(*texts)

    def extras(self, node: Object) -> list[tuple[Texts, Node]]:
        """The undeclared keys that can be written, and what their values are."""
        if id(node) not in self._extras:
            self._extras[id(node)] = node, find_extras(node, self._hole)
        return self._extras[id(node)][1]

    def extend_key(self, node: Object, written: str) -> list[tuple[str, Node]]:
        """The shortest undeclared keys that begin so, each with what its value is."""
        ends = ((keys.extend(written), value) for keys, value in self.extras(node))
        return [(written + end, value) for end, value in ends if end is not None]
