"""Arguments as nested tags in Lark: members and items between tags of their own, text raw.

Text ends at its closing tag, as one lexeme: so the lexer tells it from the first tag of an object.
The closing tag of a key that is not declared may have any name: no grammar without context can
compare the two.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from grammars.build.items import write_items
from grammars.build.rules import choose, count_times, mark, match_any
from grammars.build.texts import write_text
from grammars.build.values import Rules, escape_regex, quote
from grammars.errors import SchemaError
from grammars.regex.texts import Texts
from grammars.schema.counted import find_items
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Node,
    Null,
    Number,
    Object,
    Property,
    Schema,
    String,
    escape,
    flatten,
)
from grammars.spelling.languages import speak_string
from grammars.spelling.nested import KEY, find_extras, is_key, is_writable, part, spell_words
from grammars.spelling.parts import take_apart
from grammars.wire.format import NestedArguments


class NestedRules:
    """Adds the rules of nested tags to `rules`.

    Args:
        hole: how the arguments are written.
        rules: the grammar under way.
        definitions: what references name.
    """

    def __init__(self, hole: NestedArguments, rules: Rules, definitions: Mapping[str, Node]):
        self._hole, self._rules = hole, rules
        self._definitions = definitions
        self._known: dict[tuple[int | None, str | None], tuple[Node, str]] = {}  # holds the node

    def arguments(self, schema: Schema) -> str:
        """An expression for all arguments of a tool; "" if there can be none.

        Raises:
            SchemaError: a key or value that cannot be written.
        """
        options = dict.fromkeys(self._members(node) for node in schema.objects)
        body = " | ".join(filter(None, options))
        if not body:
            return ""
        return self._rules.define(f"({body})?" if "" in options else body, "arguments")

    def _element(self, node: Node, tag: str | None) -> str:
        """A rule for a value and the tag that closes it; None: a tag of any name."""
        key = (None if isinstance(node, AnyValue) else id(node), tag)
        if key not in self._known:
            name = self._rules.reserve("value")
            self._known[key] = node, name
            self._rules.fill(name, self._value(node, tag))
        return self._known[key][1]

    def _value(self, node: Node, tag: str | None) -> str:
        branches = [self._writable(branch) for branch in part(flatten(node, self._definitions))]
        nodes = [branch for branch in branches if branch is not None]
        if not nodes:
            raise SchemaError("none of its values can be written between tags", where="")
        close, options, texts = self._close(tag), list[str](), list[str]()
        strings = [branch for branch in nodes if isinstance(branch, String)]
        is_free = any(string.is_free for string in strings)
        empty = any(_can_be_empty(branch) for branch in nodes)
        for branch in nodes:
            if strings and (regex := self._regex(branch)) is not None:
                texts.append("/(?s:.*)/" if is_free else regex)
                continue
            body = self._body(branch)
            options.append(f"({body}) {close}" if body else close)
        if texts:
            options.append(self._text(list(dict.fromkeys(texts)), tag, empty=empty))
        return " | ".join(dict.fromkeys(options))

    def _writable(self, node: Flat) -> Flat | None:
        if isinstance(node, Constant) and not is_writable(node.values[0], self._hole):
            return None
        return node

    def _close(self, tag: str | None) -> str:
        """An expression for a closing tag."""
        if tag is not None:
            return self._rules.fixed(self._hole.close(tag))
        return self._any_tag("</", Texts((KEY,)))

    def _any_tag(self, before: str, keys: Texts) -> str:
        """An expression for a tag with any of these keys."""
        mark = self._hole.mark
        fixed = "" if mark in self._rules.ids else mark
        terminal = self._rules.terminal(keys.wrap(fixed + before, ">").lark, "TAG")
        return terminal if fixed else f"{self._rules.fixed(mark)} {terminal}"

    def _body(self, node: Flat) -> str:
        """An expression for a value that is no text; "" for nothing."""
        match node:
            case Array():
                return self._items(node)
            case Object():
                return self._members(node)
            case Constant(values) if isinstance(values[0], str):
                return quote(values[0]) if values[0] else ""
            case Constant(values) if isinstance(values[0], list | dict):
                return self._body(cast(Flat, take_apart(values[0])))
            case _:
                return self._rules.value(node, self._definitions)

    def _items(self, node: Array) -> str:
        opener = self._rules.fixed(self._hole.open(self._hole.item))
        if node.contains is not None:  # what is text here may be read as something else
            message = "what a list has to contain cannot be written between tags"
            raise SchemaError(message, where="", hint="Leave it out, or use a JSON format")
        if (counted := find_items(node)) is not None:
            values = {
                id(item): f"{opener} {self._element(item, self._hole.item)}"
                for item in counted.nodes
            }
            body = write_items(counted, values, "", self._rules)
            return f"({body})?" if body and counted.may_end(counted.start) else body
        most, body = node.max_items, ""
        count = len(node.prefix) if most is None else min(len(node.prefix), most)
        if node.items is not None and (most is None or most > count):
            item = f"{opener} {self._element(node.items, self._hole.item)}"
            least = max(0, node.min_items - count)
            body = f"({item}){count_times(least, None if most is None else most - count)}"
        for i in reversed(range(count)):
            body = f"{opener} {self._element(node.prefix[i], self._hole.item)} {body}".strip()
            body = f"({body})?" if i >= node.min_items else body
        return body

    def _members(self, node: Object) -> str:
        """The members; "" if there can be none."""
        declared = [f"{self._open(p)} {self._declared(p)}" for p in node.properties]
        extras: list[str] = []
        for keys, value in find_extras(node, self._hole):
            extras.append(f"{self._any_tag('<', keys)} {self._element(value, None)}")
        extra = self._rules.define(" | ".join(extras), "extra") if extras else ""
        members = arrange(node.properties, bool(extra), node.presence, self._rules.order)
        if isinstance(members, Unordered):
            return self._unordered(members, declared, extra)
        pairs = zip(node.properties, declared, strict=True)
        parts = [member if p.required else f"({member})?" for p, member in pairs]
        parts += [f"({extra})*"] if extra else []
        return self._rules.define(" ".join(parts), "members") if parts else ""

    def _unordered(self, members: Unordered, declared: Sequence[str], extra: str) -> str:
        """The members in any order."""
        if not members.may_go_on(members.start):
            return ""
        options = [
            (f"{member} {mark('members')}::{members.behind(i)}", members.can_add[i])
            for i, member in enumerate(declared)
        ]
        options += [
            (f"{extra} {mark('members')}::{behind}", way)
            for way, behind in members.ways_to_add_extra
        ]
        names = self._rules.knot({"members": choose([('""', members.can_end), *options])})
        return self._rules.enter(f"{names['members']}::0")

    def _open(self, declared: Property) -> str:
        if not is_key(declared.key):
            hint = "Rename it, or use a model with a JSON format"
            message = f"the key {declared.key!r} cannot be written between tags"
            raise SchemaError(message, where=f"/properties/{escape(declared.key)}", hint=hint)
        return self._rules.fixed(self._hole.open(declared.key))

    def _declared(self, declared: Property) -> str:
        """A value and its closing tag."""
        try:
            return self._element(declared.node, declared.key)
        except SchemaError as e:
            where = f"/properties/{escape(declared.key)}{e.where or ''}"
            raise SchemaError(e.message, where=where, hint=e.hint) from None

    def _regex(self, node: Flat) -> str | None:
        """A terminal for the text of a node, if it is one: beside text, everything has to be."""
        match node:
            case String():
                return self._rules.terminal(write_text(node), "TEXT")
            case Number() if "multipleOf" not in node.bounds:
                return self._rules.value(node, {})
            case Boolean():
                return "/(true|false)/"
            case Null():
                return "/null/"
            case Constant(values) if not isinstance(values[0], list | dict):
                return match_any(spell_words(values[0]))
            case _:
                return None

    def _text(self, regexes: Sequence[str], tag: str | None, *, empty: bool) -> str:
        """Raw text and its closing tag. Where a token ends it, nothing has to be lazy."""
        mark, rules = self._hole.mark, self._rules
        without = f"~/(?s:.*){escape_regex(mark)}(?s:.*)/"
        raw = rules.terminal(f"({' | '.join(regexes)}) & {without}", "RAW")
        closing = mark + "</" if tag is None else self._hole.close(tag)
        if rules.cut(closing)[0] in rules.ids:
            some = rules.terminal(f"{raw} & /(?s:.+)/", "RAW") + ("?" if empty else "")
            return f"{some} {self._close(tag)}"
        if tag is None:
            return rules.define(f"{raw} {self._close(None)}", "text", lazy=True)
        return rules.end_raw(raw, closing)


def _can_be_empty(node: Flat) -> bool:
    match node:
        case String():
            return speak_string(node).accepts("")
        case Constant(values):
            return values[0] == ""
        case _:
            return False
