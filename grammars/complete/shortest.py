"""The shortest text of each node, and of what is left of a list or object under way."""

from collections.abc import Mapping
from dataclasses import dataclass

from grammars.complete.scalar import join
from grammars.complete.string import Keys, read_keys, read_strings
from grammars.schema.counted import Items, State, find_items
from grammars.schema.members import KeyOrder, Members, arrange, find_next
from grammars.schema.nodes import (
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
from grammars.spelling.languages import Language, pick_shortest, speak_number
from grammars.spelling.parts import sort_properties, take_apart
from grammars.spelling.styles import (
    Breaks,
    deepen,
    find_breaks,
    holds,
    is_writable,
    spell,
    spell_key,
    spell_scalar,
)
from grammars.wire.format import JsonStyle


@dataclass(frozen=True)
class Layout:
    """What reading an object needs to know of its node."""

    node: Object
    properties: tuple[Property, ...]  # in the order in which the style writes them
    keys: Keys
    extras: tuple[tuple[Keys, Node], ...]  # the undeclared ones, and what their values are
    members: Members

    def find_extra(self, key: str, state: int) -> Node | None:
        """The value of this undeclared key; None if it cannot come next."""
        if not self.members.may_have_extra(state):
            return None
        return next((node for keys, node in self.extras if keys.is_extra(key)), None)


@dataclass(frozen=True)
class Constants:
    """The values of a constant: all spellings of some, and nodes for the others."""

    spelled: Mapping[str, Json]
    nodes: tuple[Node, ...] = ()


class Shortest:
    """Shortest texts over one schema, in one style; remembers what it has found.

    A level is how deep a value stands where the style indents; deeper than the exact levels the
    shortest text has no white space.

    Args:
        style: how values are spelled.
        definitions: what references name.
        order: in which order objects have their declared keys.
    """

    def __init__(
        self,
        style: JsonStyle,
        definitions: Mapping[str, Node],
        order: KeyOrder = KeyOrder.ANY,
    ):
        self.style = style
        self.order = order
        self.definitions = definitions
        self.strings = read_strings(style)
        self._values: dict[tuple[int, int], tuple[Node, str | None]] = {}  # holds the node: its id
        self._layouts: dict[int, Layout] = {}
        self._languages: dict[int, tuple[Node, Language]] = {}
        self._constants: dict[int, tuple[Node, Constants]] = {}
        self._references: dict[tuple[str, int], str | None] | None = None

    def spell(self, value: Json) -> str:
        """A value as the template writes it."""
        return spell(value, self.style)

    def inside(self, level: int) -> int:
        """The level of what stands in a list or object on that level."""
        return deepen(self.style, level)

    def breaks(self, level: int) -> Breaks:
        """What stands between the parts of a list or object on that level."""
        return find_breaks(self.style, level)

    def value(self, node: Node, level: int | None = None) -> str | None:
        """The shortest text of a value; None if none is known."""
        level = self.style.level if level is None else level
        if isinstance(node, Reference):
            return self._settle()[node.name, level]
        key = id(node), level
        if key not in self._values:
            self._values[key] = node, self._make(node, level)
        return self._values[key][1]

    def _settle(self) -> dict[tuple[str, int], str | None]:
        """The texts of the definitions. They may refer to each other, so they are improved on
        until nothing becomes shorter."""
        if self._references is None:
            levels = [self.style.level]
            while (deeper := self.inside(levels[-1])) not in levels:
                levels.append(deeper)
            self._references = dict.fromkeys((n, at) for n in self.definitions for at in levels)
            before = None
            while before != self._references:
                before = self._references
                self._values.clear()
                self._references = {
                    (name, at): pick_shortest([text, self.value(self.definitions[name], at)])
                    for (name, at), text in before.items()
                }
            self._values.clear()
        return self._references

    def _make(self, node: Node, level: int) -> str | None:
        match node:
            case AnyValue():
                return "0"
            case Constant():
                constants = self.constants(node)
                parts = (self.value(part, level) for part in constants.nodes)
                return pick_shortest([*constants.spelled, *parts])
            case String():
                return self.strings.shortest(node)
            case Number():
                return self.language(node).extend("")
            case Boolean():
                return pick_shortest(self.style.true + self.style.false)
            case Null():
                return pick_shortest(self.style.null)
            case Array():
                return join("[", self.items(node, 0, level))
            case Object():
                return join("{", self.members(node, 0, level, first=True))
            case Union(branches):
                return pick_shortest(self.value(branch, level) for branch in branches)
            case Reference():
                return self.value(node, level)

    def language(self, node: Number) -> Language:
        """The texts of a number."""
        if id(node) not in self._languages:
            self._languages[id(node)] = node, speak_number(node)
        return self._languages[id(node)][1]

    def constants(self, node: Constant) -> Constants:
        """How the values are written."""
        if id(node) not in self._constants:
            self._constants[id(node)] = node, self._read_constants(node)
        return self._constants[id(node)][1]

    def _read_constants(self, node: Constant) -> Constants:
        scalars = [v for v in node.values if not isinstance(v, list | dict)]
        writable = [v for v in scalars if not isinstance(v, str) or is_writable(v, self.style)]
        listed: list[Json] = [v for v in node.values if isinstance(v, list | dict)]
        nodes = [take_apart(v) for v in listed if holds(v, self.style)]
        return Constants(
            {text: v for v in writable for text in spell_scalar(v, self.style)}, tuple(nodes)
        )

    def items(self, node: Array, done: int, level: int) -> str | None:
        """The rest of a list in which `done` items are written."""
        breaks, inner = self.breaks(level), self.inside(level)
        if (counted := find_items(node)) is not None:
            return self.counted(counted, counted.start, level)
        missing = [self.item(node, i) for i in range(done, node.min_items)]
        texts = [None if item is None else self.value(item, inner) for item in missing]
        return _close(texts, breaks, "]", first=not done)

    def counted(self, counted: Items, state: State, level: int) -> str | None:
        """The rest of a list some of whose items are counted."""
        inner = self.inside(level)
        texts = counted.find_missing(state, lambda node: self.value(node, inner))
        first = state == counted.start
        return None if texts is None else _close(texts, self.breaks(level), "]", first=first)

    def item(self, node: Array, index: int) -> Node | None:
        """The node of that item; None if there is no such item."""
        if node.max_items is not None and index >= node.max_items:
            return None
        return node.find(index)

    def layout(self, node: Object) -> Layout:
        """What is to be known of an object to read it."""
        if id(node) not in self._layouts:
            properties = sort_properties(node, self.style)
            rest = bool(node.extras), node.presence, self.order
            members = arrange(properties, *rest, mixed=self.style.sorted_keys)
            declared = [p.key for p in properties]
            extras = tuple((read_keys(declared, self.style, e.keys), e.node) for e in node.extras)
            keys = extras[-1][0] if extras else read_keys(declared, self.style)
            self._layouts[id(node)] = Layout(node, properties, keys, extras, members)
        return self._layouts[id(node)]

    def members(self, node: Object, state: int, level: int, *, first: bool = False) -> str | None:
        """The rest of an object in that state; `first`: nothing is written yet."""
        layout, breaks = self.layout(node), self.breaks(level)

        def measure(index: int | None) -> int | None:
            text = join(breaks.item, self._member(layout, index, level))
            return None if text is None else len(text)

        missing = layout.members.find_missing(state, measure)
        if missing is None:
            return None
        texts = [self._member(layout, index, level) for index in missing]
        return _close(texts, breaks, "}", first=first)

    def _member(self, layout: Layout, index: int | None, level: int) -> str | None:
        """The property with that index, or an undeclared one."""
        if index is not None:
            return self.pair(layout.properties[index], self.inside(level))
        return self.extra(layout, "", level)

    def extra(self, layout: Layout, written: str, level: int) -> str | None:
        """The shortest end of an undeclared member of whose key that much is written."""
        inner = self.inside(level)
        return pick_shortest(
            join(keys.extend(written), self.style.key, self.value(node, inner))
            for keys, node in layout.extras
        )

    def pair(self, declared: Property, level: int) -> str | None:
        """A declared key and its value."""
        key = spell_key(declared.key, self.style)
        return join(key, self.style.key, self.value(declared.node, level))

    def another(self, node: Object, state: int, level: int) -> str | None:
        """The rest of an object, behind a separator: one more member at least."""
        layout, members = self.layout(node), self.layout(node).members
        if not members.may_end(state):
            rest = self.members(node, state, level)
            return None if rest is None else rest.removeprefix(self.breaks(level).item)
        return pick_shortest(
            join(self._member(layout, index, level), self.members(node, after, level))
            for index, after in find_next(members, state).items()
        )


def _close(texts: list[str | None], breaks: Breaks, bracket: str, *, first: bool) -> str | None:
    """The rest of a list or object of these parts; `first`: nothing stands before them."""
    if first and not texts:
        return bracket
    separated = join(*(x for text in texts for x in (breaks.item, text)))
    if first and separated is not None:
        separated = breaks.open + separated.removeprefix(breaks.item)
    return join(separated, breaks.close, bracket)
