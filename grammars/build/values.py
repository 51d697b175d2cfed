"""Values in Lark: a lowered schema as rules for text, spelled as the template spells it.

Objects and arrays become rules of their own rather than one `%json`: so a declared key cannot be
shadowed by an escaped spelling of it, every number is a finite double, and the same nodes serve the
raw-text formats. Multiples, and patterns that it reads aright, are left to llguidance's `%json`.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from grammars.build.items import write_items
from grammars.build.members import write_members
from grammars.build.numbers import NUMBER, write_number
from grammars.build.rules import RuleBook, count_times
from grammars.build.rules import escape_regex as escape_regex
from grammars.build.rules import quote as quote
from grammars.build.texts import JsonTexts, OtherTexts
from grammars.errors import SchemaError
from grammars.schema.counted import Items, find_items
from grammars.schema.members import KeyOrder, Members, arrange
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
    escape,
)
from grammars.spelling.parts import sort_properties, take_apart
from grammars.spelling.styles import deepen, find_breaks, has_json_strings, spell
from grammars.wire.format import JsonStyle

LOOSE = r"/[ \n]{1,256}/"


class Rules(RuleBook):
    """Rules for values in a style.

    Args:
        style: how values are spelled.
        ids: the names of special tokens.
        order: in which order objects have their declared keys.
    """

    def __init__(
        self,
        style: JsonStyle | None = None,
        ids: Mapping[str, int] | None = None,
        order: KeyOrder = KeyOrder.ANY,
    ):
        super().__init__(ids)
        self.order = order
        self.style = style or JsonStyle()
        self._level = self.style.level
        quoted = has_json_strings(self.style) and not self.style.bare_keys
        texts = JsonTexts if quoted else OtherTexts
        self._texts = texts(self.style, self)
        self._references: dict[tuple[int, str, int], str] = {}

    def restyle(self, style: JsonStyle) -> "Rules":
        """Adds rules for values in another style to the same grammar."""
        other = Rules(style, self.ids, self.order)
        other.share(self)
        return other

    def value(self, node: Node, definitions: Mapping[str, Node]) -> str:
        """An expression for the text of a value that the node admits."""
        match node:
            case AnyValue():
                return self._any()
            case Constant(values):
                options = list(dict.fromkeys(map(self._constant, values)))
                options = [option for option in options if option]
                if not options:
                    raise SchemaError("none of its values can be written in this format", where="")
                return self.define(" | ".join(options), "enum")
            case String():
                return self._texts.string(node)
            case Number():
                return write_number(node, self)
            case Boolean():
                words = self.style.true + self.style.false
                return self.define(" | ".join(map(quote, words)), "boolean")
            case Null():
                words = " | ".join(map(quote, self.style.null))
                return words if len(self.style.null) == 1 else self.define(words, "null")
            case Array():
                return self._array(node, definitions)
            case Object():
                return self._object(node, definitions)
            case Union(branches):
                options = dict.fromkeys(self.value(b, definitions) for b in branches)
                return self.define(" | ".join(options), "union")
            case Reference(name):
                return self._reference(name, definitions)

    def spell(self, value: Json) -> str:
        """A value as the template writes it."""
        return spell(value, self.style)

    def _constant(self, value: Json) -> str:
        """A constant in all its spellings; "" where it cannot be written."""
        if isinstance(value, list | dict):
            try:
                return self.value(take_apart(cast(Json, value)), {})
            except SchemaError:
                return ""
        return self._texts.scalar(value)

    def _key(self, key: str) -> str:
        return f"{self._texts.key(key)} {quote(self.style.key)} "

    def _reference(self, name: str, definitions: Mapping[str, Node]) -> str:
        key = (id(definitions), name, self._level)
        if key not in self._references:
            self._references[key] = rule = self.reserve("ref")
            self.fill(rule, self.value(definitions[name], definitions))
        return self._references[key]

    def _any(self) -> str:
        key = (0, "any", self._level)
        if key not in self._references:
            self._references[key] = rule = self.reserve("json")
            words = " | ".join(map(quote, self.style.true + self.style.false))
            scalars = (
                f"{self._texts.string(String())} | {self.terminal(NUMBER, 'NUMBER')} | {words}"
            )
            null = " | ".join(map(quote, self.style.null))
            array = self._array(Array(), {})
            self.fill(rule, f"{scalars} | {null} | {array} | {self._object(Object(), {})}")
        return self._references[key]

    @contextmanager
    def _inside(self) -> Generator[None]:
        """Inside a list or object, values stand one level deeper."""
        before, self._level = self._level, deepen(self.style, self._level)
        yield
        self._level = before

    def _breaks(self) -> tuple[str, str, str]:
        """What stands behind an opening bracket, between items, before the closing bracket."""
        breaks = find_breaks(self.style, self._level)
        if breaks.loose:
            space = self.terminal(LOOSE, "SPACE")
            return f"{space}? ", f"{quote(breaks.item)} {space}?", f" {space}?"
        if not breaks.open:
            return "", quote(breaks.item), ""
        return f"{quote(breaks.open)} ", quote(breaks.item), f" {quote(breaks.close)}"

    def _array(self, node: Array, definitions: Mapping[str, Node]) -> str:
        opening, comma, closing = self._breaks()
        if (counted := find_items(node)) is not None:
            return self._counted(counted, definitions)
        with self._inside():
            item = "" if node.items is None else self.value(node.items, definitions)
            prefix = [self.value(p, definitions) for p in node.prefix]
        tail = ""
        longest = node.max_items
        if item and (longest is None or longest > len(prefix)):
            fewest = max(0, node.min_items - max(1, len(prefix)))
            most = None if longest is None else longest - max(1, len(prefix))
            tail = f"({comma} {item}){count_times(fewest, most)}" if most != 0 else ""
        first = prefix or [item]
        if node.max_items == 0 or first == [""]:
            return self.define('"["  "]"', "array")
        body = tail
        count = min(len(first), node.max_items if node.max_items is not None else len(first))
        for i in reversed(range(count)):
            body = f"{comma + ' ' if i else opening}{first[i]} {body}{'' if i else closing}"
            body = f"({body})?" if i >= node.min_items else body
            body = self.define(body, "tail") if i else body  # Lark bounds how deep it nests
        return self.define(f'"[" {body} "]"', "array")

    def _counted(self, counted: Items, definitions: Mapping[str, Node]) -> str:
        opening, comma, closing = self._breaks()
        with self._inside():
            values = {id(item): self.value(item, definitions) for item in counted.nodes}
        start = write_items(counted, values, comma, self)
        body = f"{opening}({start}){closing}" if start else ""
        body = f"({body})?" if start and counted.may_end(counted.start) else body
        return self.define(f'"[" {body} "]"', "array")

    def _object(self, node: Object, definitions: Mapping[str, Node]) -> str:
        opening, comma, closing = self._breaks()
        with self._inside():
            node = replace(node, properties=sort_properties(node, self.style))
            pairs = [self._pair(p, definitions) for p in node.properties]
            extra = self._extra(node, definitions)
        start = write_members(node, self._arrange(node), pairs, extra, comma, self)
        if not start.body:
            return '"{" "}"'
        body = f"{opening}({start.body}){closing}"
        optional = f"({body})?" if opening else body + "?"
        return self.define('"{" ' + (body if start.required else optional) + ' "}"', "object")

    def _arrange(self, node: Object) -> Members:
        extra, mixed = bool(node.extras), self.style.sorted_keys
        return arrange(node.properties, extra, node.presence, self.order, mixed=mixed)

    def _extra(self, node: Object, definitions: Mapping[str, Node]) -> str:
        """An undeclared key and its value; "" if there is none."""
        options: list[str] = []
        for extra in node.extras:
            key = self._texts.extra_key(node.properties, extra.keys)
            value = self.value(extra.node, definitions)
            options.append(f"{key} {quote(self.style.key)} {value}")
        return self.define(" | ".join(options), "extra") if options else ""

    def _pair(self, declared: Property, definitions: Mapping[str, Node]) -> str:
        key = self._key(declared.key)
        try:
            value = self.value(declared.node, definitions)
        except SchemaError as e:
            where = f"/properties/{escape(declared.key)}{e.where or ''}"
            raise SchemaError(e.message, where=where, hint=e.hint) from None
        return self.define(key + value, "pair")
