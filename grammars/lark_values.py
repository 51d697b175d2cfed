"""Values in Lark: a lowered schema as rules for JSON text, spelled as the template spells it.

Objects and arrays become rules of their own rather than one `%json`: so a declared key cannot be
shadowed by an escaped spelling of it, every number is a finite double, and the same nodes serve the
raw-text formats. Strings with a pattern and multiples are left to llguidance's `%json`.
"""

import json
from collections.abc import Mapping
from typing import cast

from grammars.ranges import INTEGER, bound_regexes
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

_CHARACTER = (
    r'([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))"
)
"""One code point in a JSON string; a surrogate only as half of a pair (RFC 8259, 7 and 8.2)."""

NUMBER = (
    r"/-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?"
    r"([eE](-[0-9]{1,3}|\+?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9])))?/"
)
"""Bounded in digits, so that every number is a finite double and no integer overflows 64 bits."""

LARGEST = 10**15
_TIGHT: dict[str, Json] = {"x-guidance": {"whitespace_flexible": False}}
"""Two `%json` side by side would else admit white space in front of them."""


def quote(text: str) -> str:
    """A Lark string literal."""
    return _dump(text)


def _dump(value: Json) -> str:
    """JSON as the lexer of llguidance takes it: without a raw U+007F."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def escape_regex(text: str) -> str:
    """Text as a regular expression that matches just it, fit for `/.../` in Lark."""
    special = r"\.+*?()|[]{}^$#&-~/" + '"'
    return "".join(
        "\\" + c if c in special else {"\n": r"\n", "\t": r"\t", "\r": r"\r"}.get(c, c)
        for c in text
    )


class Rules:
    """Rules of a grammar under way; equal bodies share one rule."""

    def __init__(self, style: JsonStyle | None = None):
        self.style = style or JsonStyle()
        self._names: dict[str, str] = {}
        self._bodies: dict[str, str] = {}
        self._references: dict[tuple[int, str], str] = {}

    def define(self, body: str, hint: str = "r", *, lazy: bool = False) -> str:
        """The name of the rule with this body; a lazy one ends at its first match."""
        if body not in self._names:
            self._names[body] = name = self.reserve(hint)
            self.fill(name, body, lazy=lazy)
        return self._names[body]

    def reserve(self, hint: str) -> str:
        """A name for a rule that refers to itself; `fill` gives it its body."""
        name = f"{hint}_{len(self._bodies)}"
        self._bodies[name] = ""
        return name

    def fill(self, name: str, body: str, *, lazy: bool = False) -> None:
        """Gives a reserved name its body."""
        self._bodies[name] = f"{name}{'[lazy]' if lazy else ''}: {body}\n"

    def capture(self, body: str, label: str) -> str:
        """The name of a rule with this body, whose text the matcher keeps under the label."""
        name = self.reserve("captured")
        self._bodies[name] = f"{name}[capture={quote(label)}]: {body}\n"
        return name

    def terminal(self, regex: str, hint: str = "T") -> str:
        """The name of the terminal with this expression (`/.../`, `&`, `~`)."""
        return self.define(regex, hint)

    def text(self) -> str:
        """All rules, one a line."""
        return "".join(self._bodies.values())

    def value(self, node: Node, definitions: Mapping[str, Node]) -> str:
        """An expression for the JSON text of a value that the node admits."""
        match node:
            case AnyValue():
                return self._any()
            case Constant(values):
                return self.define(" | ".join(dict.fromkeys(map(self._constant, values))), "enum")
            case String():
                return self._string(node)
            case Number():
                return self._number(node)
            case Boolean():
                return self.define('"true" | "false"', "boolean")
            case Null():
                return '"null"'
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
        """A value as JSON text in this style."""
        style = self.style
        separators = (style.item, style.key)
        return json.dumps(value, ensure_ascii=style.ascii, separators=separators)

    def _constant(self, value: Json) -> str:
        """Cut into the same pieces as other values, for the lexer takes the longest it can."""
        comma = f" {quote(self.style.item)} "
        match value:
            case list():
                return f'"[" {comma.join(map(self._constant, cast(list[Json], value)))} "]"'
            case dict():
                members = cast(dict[str, Json], value).items()
                pairs = [self._key(key) + self._constant(member) for key, member in members]
                return f'"{{" {comma.join(pairs)} "}}"'
            case _:
                return quote(self.spell(value))

    def _key(self, key: str) -> str:
        return f"{quote(self.spell(key))} {quote(self.style.key)} "

    def _reference(self, name: str, definitions: Mapping[str, Node]) -> str:
        key = (id(definitions), name)
        if key not in self._references:
            self._references[key] = rule = self.reserve("ref")
            self.fill(rule, self.value(definitions[name], definitions))
        return self._references[key]

    def _any(self) -> str:
        key = (0, "any")
        if key not in self._references:
            self._references[key] = rule = self.reserve("json")
            scalars = f'{self.string()} | {self.terminal(NUMBER, "NUMBER")} | "true" | "false"'
            array = self._array(Array(), {})
            self.fill(rule, f'{scalars} | "null" | {array} | {self._object(Object(), {})}')
        return self._references[key]

    def string(self) -> str:
        """The terminal of any JSON string."""
        return self.terminal(f'/"{_CHARACTER}*"/', "STRING")

    def _string(self, node: String) -> str:
        if node.pattern is not None:
            schema: dict[str, Json] = {"type": "string", "pattern": f"^({node.pattern})$", **_TIGHT}
            schema |= {"minLength": node.min_length} if node.min_length else {}
            schema |= {"maxLength": node.max_length} if node.max_length is not None else {}
            return self.define(f"%json {_dump(schema)}", "string")
        if node.is_free:
            return self.string()
        bounds = f"{{{node.min_length},{'' if node.max_length is None else node.max_length}}}"
        return self.terminal(f'/"{_CHARACTER}{bounds}"/', "STRING")

    def _number(self, node: Number) -> str:
        if not node.bounds:
            return self.terminal(f"/{INTEGER}/" if node.integer else NUMBER, "NUMBER")
        if "multipleOf" in node.bounds:
            spoken = " ".join(node.bounds).lower()
            limits = {"minimum": -LARGEST, "maximum": LARGEST}
            limits = {keyword: limit for keyword, limit in limits.items() if keyword not in spoken}
            kind = {"type": "integer" if node.integer else "number", **_TIGHT}
            schema = {**kind, **limits, **node.bounds}
            return self.define(f"%json {_dump(schema)}", "number")
        regexes = bound_regexes(node.bounds, integer=node.integer)
        return self.terminal(" & ".join(f"/{r}/" for r in regexes), "NUMBER")

    def _array(self, node: Array, definitions: Mapping[str, Node]) -> str:
        item, comma = "", quote(self.style.item)
        if node.items is not None:
            item = self.value(node.items, definitions)
        prefix = [self.value(p, definitions) for p in node.prefix]
        tail = ""
        longest = node.max_items
        if item and (longest is None or longest > len(prefix)):
            fewest = max(0, node.min_items - max(1, len(prefix)))
            most = "" if longest is None else str(longest - max(1, len(prefix)))
            times = "*" if (fewest, most) == (0, "") else f"{{{fewest},{most}}}"
            tail = f"({comma} {item}){times}" if most != "0" else ""
        elements = self._elements(prefix or [item], tail, node, comma)
        return self.define(f'"[" {elements} "]"', "array")

    def _elements(self, first: list[str], tail: str, node: Array, comma: str) -> str:
        if node.max_items == 0 or first == [""]:
            return ""
        body = tail
        count = min(len(first), node.max_items if node.max_items is not None else len(first))
        for i in reversed(range(count)):
            body = f"{comma + ' ' if i else ''}{first[i]} {body}"
            body = f"({body})?" if i >= node.min_items else body
        return body

    def _object(self, node: Object, definitions: Mapping[str, Node]) -> str:
        comma = quote(self.style.item)
        pairs = [self._pair(p, definitions) for p in node.properties]
        extra = ""
        if node.additional is not None:
            key = self._extra_key(node.properties)
            extra = f"{key} {quote(self.style.key)} {self.value(node.additional, definitions)}"
            extra = self.define(extra, "extra")
        rest = f"({comma} {extra})*" if extra else ""
        starts = [f"{extra} {rest}"] if extra else []
        required = False
        for declared, pair in reversed(list(zip(node.properties, pairs, strict=True))):
            if declared.required:
                starts, required = [], True
            starts.insert(0, f"{pair} {rest}")
            body = f"{comma} {pair}" if declared.required else f"({comma} {pair})?"
            rest = self.define(f"{body} {rest}", "rest")
        if not starts:
            return '"{" "}"'
        body = " | ".join(starts)
        return self.define('"{" ' + (f"({body})" if required else f"({body})?") + ' "}"', "object")

    def _pair(self, declared: Property, definitions: Mapping[str, Node]) -> str:
        value = self.value(declared.node, definitions)
        return self.define(self._key(declared.key) + value, "pair")

    def _extra_key(self, declared: tuple[Property, ...]) -> str:
        """Any key but the declared ones; no `\\u` where that could spell a declared one."""
        if not declared:
            return self.string()
        spelled = (json.dumps(p.key, ensure_ascii=False) for p in declared)
        names = "|".join(map(escape_regex, spelled))
        return self.terminal(rf'/"([^"\\\x00-\x1f]|\\["\\bfnrt])*"/ & ~/{names}/', "KEY")
