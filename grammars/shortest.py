"""The shortest JSON text of each node, and of what is left of a list or object under way."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from string import ascii_lowercase

from grammars.complete_scalar import encode, join
from grammars.languages import Language, pick_shortest, speak_number, speak_string
from grammars.lark_values import Rules
from grammars.schema import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Json,
    Node,
    Null,
    Number,
    Object,
    Property,
    Reference,
    String,
    Union,
)
from grammars.wire import JsonStyle


@dataclass(frozen=True)
class Layout:
    """What reading an object needs to know of its node."""

    node: Object
    keys: Mapping[str, int]  # by their spelling, quotes included
    reserved: frozenset[str]  # spellings that no undeclared key has
    needed: int  # the properties before this index have to be there, or not all are optional

    def reach(self, index: int) -> range:
        """The properties that may come next: the optional ones, and the first required one."""
        properties = self.node.properties
        first = next((i for i in range(index, self.needed) if properties[i].required), None)
        return range(index, len(properties) if first is None else first + 1)


class Shortest:
    """Shortest texts over one schema, in one style; remembers what it has found.

    Args:
        style: how JSON is spelled.
        definitions: what references name.
    """

    def __init__(self, style: JsonStyle, definitions: Mapping[str, Node]):
        self.style = style
        self.definitions = definitions
        self.spell = Rules(style).spell
        self._values: dict[int, tuple[Node, str | None]] = {}  # holds the node, so its id stays
        self._layouts: dict[int, Layout] = {}
        self._languages: dict[int, tuple[Node, Language]] = {}
        self._constants: dict[int, tuple[Node, Mapping[str, Json]]] = {}
        self._references: dict[str, str | None] | None = None

    def value(self, node: Node) -> str | None:
        """The shortest text of a value; None if none is known."""
        if isinstance(node, Reference):
            return self._settle()[node.name]
        if id(node) not in self._values:
            self._values[id(node)] = node, self._make(node)
        return self._values[id(node)][1]

    def _settle(self) -> dict[str, str | None]:
        """The texts of the definitions. They may refer to each other, so they are improved on
        until nothing becomes shorter."""
        if self._references is None:
            self._references = dict.fromkeys(self.definitions)
            before = None
            while before != self._references:
                before = self._references
                self._values.clear()
                self._references = {
                    name: pick_shortest([before[name], self.value(node)])
                    for name, node in self.definitions.items()
                }
            self._values.clear()
        return self._references

    def _make(self, node: Node) -> str | None:
        match node:
            case AnyValue():
                return "0"
            case Constant():
                return pick_shortest(self.constants(node))
            case String():
                text = self.language(node).extend("")
                return None if text is None else f'"{encode(text)}"'
            case Number():
                return self.language(node).extend("")
            case Boolean():
                return "true"
            case Null():
                return "null"
            case Array():
                return join("[", self.items(node, 0))
            case Object():
                return join("{", self.members(node, 0, first=True))
            case Union(branches):
                return pick_shortest(map(self.value, branches))
            case Reference():
                return self.value(node)

    def language(self, node: String | Number) -> Language:
        """The texts of a string (without its quotes and escapes) or number."""
        if id(node) not in self._languages:
            language = speak_string(node) if isinstance(node, String) else speak_number(node)
            self._languages[id(node)] = node, language
        return self._languages[id(node)][1]

    def constants(self, node: Constant) -> Mapping[str, Json]:
        """The values by their spelling."""
        if id(node) not in self._constants:
            self._constants[id(node)] = node, {self.spell(v): v for v in node.values}
        return self._constants[id(node)][1]

    def items(self, node: Array, done: int) -> str | None:
        """The rest of a list in which `done` items are written."""
        missing = [self.item(node, i) for i in range(done, node.min_items)]
        texts = [None if item is None else self.value(item) for item in missing]
        separated = join(*(x for text in texts for x in (self.style.item, text)))
        if separated is None or done:
            return join(separated, "]")
        return separated.removeprefix(self.style.item) + "]"

    def item(self, node: Array, index: int) -> Node | None:
        """The node of that item; None if there is no such item."""
        if node.max_items is not None and index >= node.max_items:
            return None
        return node.prefix[index] if index < len(node.prefix) else node.items

    def layout(self, node: Object) -> Layout:
        """What is to be known of an object to read it."""
        if id(node) not in self._layouts:
            properties = node.properties
            self._layouts[id(node)] = Layout(
                node,
                {self.spell(p.key): i for i, p in enumerate(properties)},
                frozenset(json.dumps(p.key, ensure_ascii=False) for p in properties),
                max((i + 1 for i, p in enumerate(properties) if p.required), default=0),
            )
        return self._layouts[id(node)]

    def members(self, node: Object, index: int, *, first: bool = False) -> str | None:
        """The rest of an object from that property on; `first`: nothing is written yet."""
        missing = [self.pair(p) for p in node.properties[index:] if p.required]
        separated = join(*(x for pair in missing for x in (self.style.item, pair)))
        if separated is None or not first:
            return join(separated, "}")
        return separated.removeprefix(self.style.item) + "}"

    def pair(self, declared: Property) -> str | None:
        """A declared key and its value."""
        return join(self.spell(declared.key), self.style.key, self.value(declared.node))

    def another(self, node: Object, index: int) -> str | None:
        """The rest of an object, behind a separator: one more member at least."""
        layout = self.layout(node)
        options = [
            join(self.pair(node.properties[i]), self.members(node, i + 1))
            for i in layout.reach(index)
        ]
        if node.additional is not None and index >= layout.needed:
            key = '"' + self.close_key(layout, '"') + self.style.key
            options.append(join(key, self.value(node.additional), "}"))
        return pick_shortest(options)

    def close_key(self, layout: Layout, written: str) -> str:
        """The shortest end of an undeclared key of which that much is written."""
        ends = chain(("", *ascii_lowercase), ("a" * n for n in count(2)))
        return next(end + '"' for end in ends if written + end + '"' not in layout.reserved)
