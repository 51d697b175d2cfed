"""The values of tagged arguments in Lark: strings as raw text, everything else as JSON.

Nothing is escaped in such a format, so a raw value ends only where its closing tag is followed by
the next opening tag or by the end of the arguments (a composite terminator).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from grammars.build.rules import match_any
from grammars.build.texts import write_text
from grammars.build.values import Rules, escape_regex, quote
from grammars.schema.nodes import (
    AnyValue,
    Boolean,
    Constant,
    Flat,
    Json,
    Node,
    Null,
    Number,
    String,
    flatten,
)
from grammars.spelling.languages import speak_string
from grammars.spelling.tagged import (
    CONTAINER,
    excludes_containers,
    is_writable,
    spell_words,
    tell_kinds,
)
from grammars.wire.format import TaggedArguments, count_common

Definitions: TypeAlias = Mapping[str, Node]


@dataclass(frozen=True)
class Follow:
    """What may stand after a value: an expression for another argument (None: none), or the end."""

    more: str | None
    end: bool


class TaggedValues:
    """Adds the rules of values between tags to `rules`."""

    def __init__(self, tags: TaggedArguments, rules: Rules):
        self.tags = tags
        self.rules = rules

    def has_value(self, node: Node, definitions: Definitions) -> bool:
        """Can one of its values be written?"""
        return any(self._find_writable(branch) is not None for branch in flatten(node, definitions))

    def tell(self, node: Node, definitions: Definitions, follow: Follow) -> str:
        """What follows a key: how the type is told, if it is, the value, and what follows that."""
        tags, options = self.tags, list[str]()
        for told, branches in tell_kinds(flatten(node, definitions), tags):
            after = tags.after_key + (told + tags.after_kind if tags.kinds else "")
            if value := self._value(branches, definitions, follow):
                options.append(f"{self.rules.fixed(after)} ({value})")
        return " | ".join(options)

    def _value(self, nodes: Sequence[Flat], definitions: Definitions, follow: Follow) -> str:
        """A value and what follows it; "" if no value can be written."""
        branches = [branch for branch in map(self._find_writable, nodes) if branch is not None]
        free = [AnyValue()] if not self.tags.kinds else []
        if any(b in free or (isinstance(b, String) and b.is_free) for b in branches):
            return self._text("/(?s:.*)/", follow, empty=True)
        texts: list[str] = []
        empty = False
        options: list[str] = []
        has_text = any(isinstance(b, String) for b in branches)
        without = f" & ~/{CONTAINER}/" if excludes_containers(branches) else ""
        for branch in branches:
            regex = self._regex(branch) if has_text else None
            if regex is not None and isinstance(branch, String):
                regex = f"({regex}{without})" if without else regex
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
                return match_any(self.tags.true + self.tags.false)
            case Null():
                return match_any(self.tags.null)
            case Constant(values):
                return match_any([word for value in values for word in self._spell(value)])
            case _:
                return None

    def _close(self, follow: Follow) -> str:
        tags, options = self.tags, list[str]()
        if follow.more:
            options.append(f"{self.rules.fixed(tags.close + tags.open)} {follow.more}")
        if follow.end:
            options.append(self.rules.fixed(tags.close + tags.end))
        body = " | ".join(options)
        is_parametric = follow.more is not None and follow.more.endswith("::_")
        return f"({body})" if is_parametric else self.rules.define(body, "close")

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

    def _find_writable(self, node: Flat) -> Flat | None:
        """The node without those constants that contain a closing tag; None if none is left."""
        if not isinstance(node, Constant):
            return node
        values = tuple(value for value in node.values if is_writable(value, self.tags))
        return Constant(values) if values else None

    def _spell(self, value: Json) -> tuple[str, ...]:
        return spell_words(value, self.tags, self.rules.spell)

    def _text(self, regex: str, follow: Follow, *, empty: bool) -> str:
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
        if self.rules.cut(terminator)[0] in self.rules.ids:
            some = self.rules.terminal(f"{raw} & /(?s:.+)/", "RAW") + ("?" if empty else "")
            return self.rules.define(f"{some} {self.rules.fixed(terminator)}", "text")
        return self.rules.end_raw(raw, terminator)
