"""Tagged arguments in Lark: every argument between tags of its own, strings as raw text.

Nothing is escaped in such a format, so a raw value ends only where its closing tag is followed by
the next opening tag or by the end of the arguments (a composite terminator).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from grammars.errors import SchemaError
from grammars.languages import speak_string
from grammars.lark_texts import write_text
from grammars.lark_values import Rules, escape_regex, quote
from grammars.schema import (
    AnyValue,
    Boolean,
    Constant,
    Flat,
    Json,
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
from grammars.tagging import express_key, is_key, is_writable, spell_words, tell_kinds
from grammars.wire import TaggedArguments, count_common

Definitions = Mapping[str, Node]


@dataclass(frozen=True)
class _Follow:
    """What may stand after a value: a rule for another argument (None: none), or the end."""

    more: str | None
    end: bool


class TaggedRules:
    """Adds the rules of tagged arguments to `rules`."""

    def __init__(self, tags: TaggedArguments, rules: Rules):
        self.tags = tags
        self.rules = rules

    def arguments(self, schema: Schema) -> str:
        """An expression for all arguments of a tool, from the first tag to the end tag.

        Raises:
            SchemaError: a key that these tags cannot write.
        """
        options: list[str] = []
        for branch in schema.objects:
            follow = self._follow(branch, schema.definitions)
            if follow.more:
                options.append(f"{self.rules.fixed(self.tags.open)} {follow.more}")
            if follow.end:
                empty = self.tags.end if self.tags.empty is None else self.tags.empty
                options.append(self.rules.fixed(empty))
        return self.rules.define(" | ".join(dict.fromkeys(options)), "arguments")

    def _follow(self, node: Object, definitions: Definitions) -> _Follow:
        """What may stand at the start of the arguments, in schema order."""
        after = _Follow(None, True)
        if node.additional is not None:
            after = self._extra(node, node.additional, definitions)
        reachable = [after.more] if after.more else []
        for declared in reversed(node.properties):
            value = self._told(declared.node, definitions, after)
            if not value and not declared.required:
                continue
            if not value:
                where = f"/properties/{escape(declared.key)}"
                raise SchemaError("none of its values can be written between tags", where=where)
            key = quote(self._key(declared))
            argument = self.rules.define(f"{key} ({value})", "argument")
            reachable = [argument] if declared.required else [argument, *reachable]
            more = self.rules.define(" | ".join(reachable), "more")
            after = _Follow(more, after.end and not declared.required)
        return after

    def _extra(self, node: Object, additional: Node, definitions: Definitions) -> _Follow:
        """Undeclared arguments, any number of them, behind the declared ones."""
        regex = f"/{express_key(self.tags)}/"
        if node.properties:
            regex += f" & ~{_one_of([p.key for p in node.properties])}"
        key = self.rules.terminal(regex, "EXTRA")
        name = self.rules.reserve("extra")
        follow = _Follow(name, True)
        value = self._told(additional, definitions, follow)
        if not value:
            return _Follow(None, True)
        self.rules.fill(name, f"{key} ({value})")
        return follow

    def _key(self, declared: Property) -> str:
        if not is_key(declared.key, self.tags):
            raise SchemaError(
                f"the key {declared.key!r} cannot be written between tags",
                where=f"/properties/{escape(declared.key)}",
                hint="Rename it, or use a model with a JSON format",
            )
        return declared.key

    def _told(self, node: Node, definitions: Definitions, follow: _Follow) -> str:
        """What follows a key: how the type is told, if it is, the value, and what follows that."""
        tags, options = self.tags, list[str]()
        for told, branches in tell_kinds(flatten(node, definitions), tags):
            after = tags.after_key + (told + tags.after_kind if tags.kinds else "")
            if value := self._value(branches, definitions, follow):
                options.append(f"{self.rules.fixed(after)} ({value})")
        return " | ".join(options)

    def _value(self, nodes: Sequence[Flat], definitions: Definitions, follow: _Follow) -> str:
        """A value and what follows it; "" if no value can be written."""
        branches = [branch for branch in map(self._writable, nodes) if branch is not None]
        free = [AnyValue()] if not self.tags.kinds else []
        if any(b in free or (isinstance(b, String) and b.is_free) for b in branches):
            return self._text("/(?s:.*)/", follow, empty=True)
        texts: list[str] = []
        empty = False
        options: list[str] = []
        has_text = any(isinstance(b, String) for b in branches)
        for branch in branches:
            regex = self._regex(branch) if has_text else None
            if regex is None:
                options.append(f"{self._spelled(branch, definitions)} {self._close(follow)}")
            else:
                texts.append(regex)
                empty = empty or self._can_be_empty(branch)
        if texts:
            options.append(self._text(" | ".join(dict.fromkeys(texts)), follow, empty=empty))
        return " | ".join(dict.fromkeys(options))

    def _regex(self, node: Node) -> str | None:
        """The text of a node as a terminal, if it is regular.

        Beside text, everything has to be text: the lexer would not give up a lexeme that can go on
        for one that is complete.
        """
        match node:
            case String():
                return self.rules.terminal(write_text(node), "TEXT")
            case Number() if "multipleOf" not in node.bounds:
                return self.rules.value(node, {})
            case Boolean():
                return _one_of(self.tags.true + self.tags.false)
            case Null():
                return _one_of(self.tags.null)
            case Constant(values):
                return _one_of([word for value in values for word in self._spell(value)])
            case _:
                return None

    def _close(self, follow: _Follow) -> str:
        tags, options = self.tags, list[str]()
        if follow.more:
            options.append(f"{self.rules.fixed(tags.close + tags.open)} {follow.more}")
        if follow.end:
            options.append(self.rules.fixed(tags.close + tags.end))
        return self.rules.define(" | ".join(options), "close")

    def _can_be_empty(self, node: Flat) -> bool:
        match node:
            case String():
                language = speak_string(node)
                return language.accepts("")
            case Constant(values):
                return "" in values
            case _:
                return False

    def _spelled(self, node: Node, definitions: Definitions) -> str:
        """Everything but text: JSON, and the template's own words for true, false and null."""
        tags = self.tags
        match node:
            case Boolean():
                return self.rules.define(" | ".join(map(quote, tags.true + tags.false)), "boolean")
            case Null():
                return self.rules.define(" | ".join(map(quote, tags.null)), "null")
            case Constant(values):
                options = dict.fromkeys(o for value in values for o in self._constant(value))
                return self.rules.define(" | ".join(options), "enum")
            case _:
                return self.rules.value(node, definitions)

    def _constant(self, value: Json) -> list[str]:
        if isinstance(value, list | dict):
            return [self.rules.value(Constant((cast(Json, value),)), {})]
        return [quote(word) for word in self._spell(value)]

    def _writable(self, node: Flat) -> Flat | None:
        """The node without those constants that contain a closing tag; None if none is left."""
        if not isinstance(node, Constant):
            return node
        values = tuple(value for value in node.values if is_writable(value, self.tags))
        return Constant(values) if values else None

    def _spell(self, value: Json) -> tuple[str, ...]:
        return spell_words(value, self.tags, self.rules.spell)

    def _text(self, regex: str, follow: _Follow, *, empty: bool) -> str:
        """Raw text up to its terminator; two lexemes, because what follows differs."""
        tags = self.tags
        apart = count_common(tags.open, tags.end) + 1
        stops = (
            tags.open if follow.more else tags.open[:apart],
            tags.end if follow.end else tags.end[:apart],
        )
        stop = "|".join(escape_regex(s) for s in stops)
        # The newline in front of a value counts too: `>\n</parameter>` is no value that starts so.
        line, tag = tags.close[:1], escape_regex(tags.close[1:])
        before = (
            f"((?s:.*){escape_regex(line)})?" if line == "\n" else f"(?s:.*){escape_regex(line)}"
        )
        without = f"~/{before}{tag}({stop})(?s:.*)/"
        raw = self.rules.terminal(f"({regex}) & {without}", "RAW")
        options: list[str] = []
        if follow.more:
            options.append(f"{self._ended(raw, tags.close + tags.open, empty=empty)} {follow.more}")
        if follow.end:
            options.append(self._ended(raw, tags.close + tags.end, empty=empty))
        return " | ".join(options)

    def _ended(self, raw: str, terminator: str, *, empty: bool) -> str:
        """A raw value and its terminator. Where a token ends the value, nothing has to be lazy."""
        first, *rest = self.rules.cut(terminator)
        if first in self.rules.ids:
            some = self.rules.terminal(f"{raw} & /(?s:.+)/", "RAW") + ("?" if empty else "")
            return self.rules.define(f"{some} {self.rules.fixed(terminator)}", "text")
        if rest:
            line = self.rules.terminal(f"{raw} /{escape_regex(first)}/", "RAW")
            return self.rules.define(f"{line} {self.rules.fixed(''.join(rest))}", "text")
        return self.rules.define(f"{raw} {quote(first)}", "text", lazy=True)


def _one_of(words: Sequence[str]) -> str:
    return f"/({'|'.join(map(escape_regex, words))})/"
