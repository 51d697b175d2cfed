"""Calls in Python in Lark: raw strings end only in front of what can follow them.

The lexer has to see what follows a string to know its end, be it an argument, another call, or
what closes the calls. So the text of each goes into the end of the string, and what stands behind
that follows from there: the calls of a turn are one chain.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from grammars.build.rules import choose, mark, match_any
from grammars.build.texts import OtherTexts, write_text
from grammars.build.values import Rules, quote
from grammars.errors import SchemaError
from grammars.regex.texts import Texts
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import Extra, Node, Object, Property, Schema, String, escape
from grammars.spelling.python import (
    Ends,
    find_around,
    find_ends,
    find_extra_keys,
    is_word,
    spell_fixed,
)
from grammars.spelling.python_values import ESCAPED, RAW, Value, Way, sort_kinds
from grammars.turn import Tool
from grammars.wire.format import Format, Name, PythonArguments
from grammars.wire.format import Node as FormatNode


class PythonRules:
    """Adds the rules of calls in Python to `rules`.

    Args:
        format: the wire format.
        tools: those that may be called.
        names: those of all tools, which end a string in a call.
        several: may another call follow?
        rules: the grammar under way.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        names: Sequence[str],
        rules: Rules,
        *,
        several: bool,
    ):
        assert isinstance(format.hole, PythonArguments)
        self.format, self.hole, self.rules = format, format.hole, rules
        self.tools, self.names = tools, names
        self.around = find_around(format)
        self._several = several
        self._arguments: dict[str, str] = {}
        self.escaped = OtherTexts(replace(self.hole.style, quotes=(ESCAPED,)), rules)

    def calls(self, first: Sequence[FormatNode]) -> str:
        """The calls of a turn, from these nodes to what closes them."""
        at = list(first).index(Name())
        heads = (spell_fixed(first[:at]) + tool.name + self.around.opener for tool in self.tools)
        options = (
            f"{self.rules.fixed(head)} {self._call(tool)}"
            for head, tool in zip(heads, self.tools, strict=True)
        )
        return self.rules.define(" | ".join(options), "calls")

    def _call(self, tool: Tool) -> str:
        """The rule for arguments of a tool and all that follows."""
        if tool.name not in self._arguments:
            self._arguments[tool.name] = name = self.rules.reserve("arguments")
            try:
                ends = find_ends(self.format, self.names, tool.schema)
                body = _Arguments(self, ends, tool.schema).write()
            except SchemaError as e:
                message = f"tool {tool.name!r}: {e.message}"
                raise SchemaError(message, where=e.where, hint=e.hint) from e
            self.rules.fill(name, body)
        return self._arguments[tool.name]

    def finish(self) -> list[Way]:
        """What may follow the last argument."""
        more = self.tools if self._several else ()
        ways = [Way(self.around.next(tool.name), self._call(tool)) for tool in more]
        return [Way(self.around.end), *ways]

    def finished(self) -> str:
        """A rule for all that may follow the last argument."""
        ways = (f"{self.rules.fixed(way.text)} {way.rest}" for way in self.finish())
        return self.rules.define(" | ".join(ways), "finished")


class _Arguments:
    """The arguments of one tool, and what follows them."""

    def __init__(self, calls: PythonRules, ends: Ends, schema: Schema):
        self.calls, self.hole, self.rules = calls, calls.hole, calls.rules
        self.ends, self.schema = ends, schema

    def write(self) -> str:
        """An expression for all of them."""
        return " | ".join(dict.fromkeys(map(self._object, self.schema.objects)))

    def _object(self, node: Object) -> str:
        """What the arguments may begin with."""
        properties = [p for p in node.properties if self._can_write(p)]
        extras = self._find_extras(node)
        members = arrange(properties, bool(extras), node.presence, self.rules.order)
        if not members.may_go_on(members.start):
            return self.calls.finished()
        if isinstance(members, Unordered):
            return self._unordered(extras, properties, members)
        finish = self.calls.finish()
        ways, optional = list[Way](), True
        if extras:
            ways = self._extras(extras, finish)
        for declared in reversed(properties):
            value = self._value(self._read(declared.node), ways + finish * optional)
            way = Way(self.hole.item + declared.key + self.hole.after_key, value)
            ways = [way] if declared.required else [way, *ways]
            optional = optional and not declared.required
        starts = [replace(way, text=way.text.removeprefix(self.hole.item)) for way in ways]
        return self._follow(starts + finish * optional)

    def _unordered(
        self, extras: Sequence[Extra], properties: Sequence[Property], members: Unordered
    ) -> str:
        """Any argument that is not there yet; in the parameter are those that are."""
        names: dict[Value, str] = {}

        def name(value: Node) -> str:
            return mark(names.setdefault(self._read(value), f"value{len(names)}"))

        item, ways = self.hole.item, list[Way]()
        for i, declared in enumerate(properties):
            rest = f"{name(declared.node)}::{members.behind(i)}"
            text = item + declared.key + self.hole.after_key
            ways.append(Way(text, rest, condition=members.can_add[i]))
        for extra in extras:
            for condition, behind in members.ways_to_add_extra:
                ways.append(Way(item, f"{name(extra.node)}::{behind}", extra.keys, condition))
        starts = [replace(way, text=way.text.removeprefix(item)) for way in ways]
        end = self.calls.finished(), members.can_end
        bodies = {
            "start": choose([*((self._begin(w), w.condition) for w in starts), end]),
            "follow": choose([*((self._begin(w), w.condition) for w in ways), end]),
        }
        ways += [replace(way, condition=members.can_end) for way in self.calls.finish()]
        for value, hint in names.items():
            bodies |= self._write(value, hint, ways)
        return self.rules.enter(self.rules.knot(bodies)["start"] + "::0")

    def _write(self, value: Value, hint: str, ways: Sequence[Way]) -> dict[str, str]:
        """The rules of a knot for a value and what follows it."""
        whole = f"{value.whole} {mark('follow')}::_"
        if not value.raw:
            return {hint: whole}
        ended = ((f"{self._ended(value.raw, way)} {way.rest}", way.condition) for way in ways)
        raw = f"{quote(RAW)} {mark('raw_' + hint)}::_"
        return {hint: f"{whole} | {raw}", "raw_" + hint: choose(ended)}

    def _can_write(self, declared: Property) -> bool:
        """Can the argument be written? One that is required has to be."""
        where = f"/properties/{escape(declared.key)}"
        if not is_word(declared.key):
            hint = "Rename it, or use a model with a JSON format"
            message = f"the key {declared.key!r} cannot be written in such a call"
            raise SchemaError(message, where=where, hint=hint)
        if self._read(declared.node) != Value("", ""):
            return True
        if declared.required:
            raise SchemaError("none of its values can be written in such a call", where=where)
        return False

    def _find_extras(self, node: Object) -> list[Extra]:
        """The undeclared arguments that can be written."""
        declared = [p.key for p in node.properties]
        found = (replace(e, keys=find_extra_keys(declared, e.keys)) for e in node.extras)
        return [e for e in found if not e.keys.is_empty() and self._read(e.node) != Value("", "")]

    def _extras(self, extras: Sequence[Extra], finish: list[Way]) -> list[Way]:
        """Undeclared arguments, any number of them, behind the declared ones."""
        ways = [Way(self.hole.item, self.rules.reserve("extra"), e.keys) for e in extras]
        for extra, way in zip(extras, ways, strict=True):
            self.rules.fill(way.rest, self._value(self._read(extra.node), [*ways, *finish]))
        return ways

    def _read(self, node: Node) -> Value:
        """How a value is written."""
        kinds, rules = sort_kinds(node, self.schema.definitions), self.rules
        values = [rules.value(other, self.schema.definitions) for other in kinds.others]
        values += [self.calls.escaped.string(node) for node in kinds.strings]
        values += [self.calls.escaped.scalar(word) for word in kinds.words]
        words = [word for word in kinds.words if self.ends.holds(word, RAW)]
        values += [] if kinds.strings else [quote(RAW + word + RAW) for word in words]
        whole = rules.define(" | ".join(dict.fromkeys(values)), "plain") if values else ""
        return Value(whole, self._raw(kinds.strings, words) if kinds.strings else "")

    def _value(self, value: Value, ways: Sequence[Way]) -> str:
        """A rule for a value and what follows it."""
        options = [f"{value.whole} {self.rules.define(self._follow(ways), 'follow')}"]
        if value.raw:
            ended = " | ".join(f"{self._ended(value.raw, way)} {way.rest}" for way in ways)
            options.append(f"{quote(RAW)} ({ended})")
        return self.rules.define(" | ".join(options), "value")

    def _follow(self, ways: Sequence[Way]) -> str:
        """What may follow a value that tells its own end."""
        options = [self._begin(way) for way in ways]
        finish = [self._begin(way) for way in self.calls.finish()]
        if options[-len(finish) :] == finish:  # it is the same everywhere, and may be long
            options[-len(finish) :] = [self.calls.finished()]
        return " | ".join(options)

    def _begin(self, way: Way) -> str:
        if way.keys is None:
            return f"{self.rules.fixed(way.text)} {way.rest}"
        return f"{self._key(way.text, way.keys)} {way.rest}"

    def _key(self, before: str, keys: Texts) -> str:
        """A terminal for one of the keys, behind and in front of what stands around it."""
        return self.rules.terminal(keys.wrap(before, self.hole.after_key).lark, "EXTRA")

    def _raw(self, nodes: Sequence[String], words: Sequence[str]) -> str:
        """A terminal for raw strings."""
        texts = [write_text(node) for node in nodes]
        texts += [match_any(words)] if words else []
        named = [self.rules.terminal(text, "TEXT") for text in dict.fromkeys(texts)]
        return self.rules.terminal(f"({' | '.join(named)}) & {self._endless}", "RAW")

    @cached_property
    def _endless(self) -> str:
        """A terminal for what has no end of a string in it; as long as all keys together."""
        return f"~/(?s:.*){self.ends.write_regex(RAW)}(?s:.*)/"

    def _ended(self, raw: str, way: Way) -> str:
        """A raw string up to what follows it; that ends with a token, or at once."""
        if way.keys is not None:
            key = self._key(RAW + way.text, way.keys)
            return self.rules.define(f"{raw} {key}", "text", lazy=True)
        return self.rules.end_raw(raw, RAW + way.text)
