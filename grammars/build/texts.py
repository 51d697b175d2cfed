"""Strings and keys in Lark."""

import json
from collections.abc import Sequence
from dataclasses import replace

from grammars.build.rules import TIGHT, RuleBook, dump, escape_regex, quote
from grammars.errors import SchemaError
from grammars.regex.spelled import spell_extra_keys, spell_pattern
from grammars.regex.texts import FREE, Texts
from grammars.schema.nodes import Json, Property, String, escape
from grammars.spelling.quoted import express_key_character, find_extra_keys, find_raw, find_strings
from grammars.spelling.styles import is_bare, is_writable, spell_keys, spell_scalar
from grammars.wire.format import JsonStyle

_CHARACTER = (
    r'([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))"
)
"""One code point in a JSON string; a surrogate only as half of a pair (RFC 8259, 7 and 8.2)."""


def choose_word(words: Sequence[str]) -> str:
    """Any of these words."""
    options = " | ".join(map(quote, words))
    return f"({options})" if len(words) > 1 else options


class JsonTexts:
    """Those of JSON."""

    def __init__(self, style: JsonStyle, rules: RuleBook):
        self.style = style
        self.rules = rules

    def string(self, node: String) -> str:
        """The strings of a node."""
        if node.pattern is not None:
            return _hold_pattern(node, self.rules)
        if node.is_free:
            return self.rules.terminal(f'/"{_CHARACTER}*"/', "STRING")
        bounds = f"{{{node.min_length},{'' if node.max_length is None else node.max_length}}}"
        return self.rules.terminal(f'/"{_CHARACTER}{bounds}"/', "STRING")

    def scalar(self, value: Json) -> str:
        """Anything but a list or object."""
        return " | ".join(map(quote, spell_scalar(value, self.style)))

    def key(self, key: str) -> str:
        """A declared key."""
        return choose_word(spell_keys(key, self.style))

    def extra_key(self, declared: Sequence[Property], keys: Texts = FREE) -> str:
        """Any of these keys but the declared ones; no escape that could spell another one."""
        if not keys.is_free:
            return self.rules.terminal(
                spell_extra_keys(keys, [p.key for p in declared]).lark, "KEY"
            )
        if not declared:
            return self.string(String())
        spelled = (json.dumps(p.key, ensure_ascii=False) for p in declared)
        names = "|".join(map(escape_regex, spelled))
        character = express_key_character([p.key for p in declared])
        return self.rules.terminal(rf'/"({character})*"/ & ~/{names}/', "KEY")


def _hold_pattern(node: String, rules: RuleBook) -> str:
    """JSON's strings that match a pattern."""
    if (spelled := spell_pattern(node.pattern or "")) is not None:
        longest = "" if node.max_length is None else node.max_length
        length = f'"{_CHARACTER}{{{node.min_length},{longest}}}"'
        parts = [spelled, length] if replace(node, pattern=None) != String() else [spelled]
        return rules.terminal(" & ".join(f"/{part}/" for part in parts), "STRING")
    schema: dict[str, Json] = {"type": "string", "pattern": f"^({node.pattern})$", **TIGHT}
    schema |= {"minLength": node.min_length} if node.min_length else {}
    schema |= {"maxLength": node.max_length} if node.max_length is not None else {}
    return rules.define(f"%json {dump(schema)}", "string")


def write_text(node: String) -> str:
    """The characters of the strings of a node, as a terminal."""
    longest = "" if node.max_length is None else str(node.max_length)
    length = f"/(?s:.{{{node.min_length},{longest}}})/"
    pattern = (node.pattern or "").replace("\\/", "/").replace("/", "\\/")
    return length + (f" & /{pattern}/" if pattern else "")


class OtherTexts:
    """Those of other styles.

    Where the quote is a special token, a string is that token, a terminal, that token again; its
    text cannot spell the quote in ordinary tokens either.
    """

    def __init__(self, style: JsonStyle, rules: RuleBook):
        self.style = style
        self.rules = rules
        self._quote = rules.fixed(style.quotes[0])
        self._tokens = not style.escapes and self._quote.startswith("<[")

    def string(self, node: String) -> str:
        """The strings of a node. A pattern that cannot be taken apart is held in JSON's strings."""
        if not self.style.escapes:
            return self._raw(node)
        texts = find_strings(node, self.style)
        if texts is not None:
            return self.rules.terminal(texts.lark, "STRING")
        return _hold_pattern(node, self.rules)

    def _raw(self, node: String) -> str:
        texts = find_raw(node, self.style)
        body = self.rules.terminal(texts.lark, "TEXT")
        if not self._tokens:
            return self.rules.terminal(f"{self._quote} {body} {self._quote}", "STRING")
        once = "?" if texts.accepts("") else ""  # the lexer gives no empty lexeme
        return self.rules.define(f"{self._quote} {body}{once} {self._quote}", "string")

    def scalar(self, value: Json) -> str:
        """Anything but a list or object, in all its spellings; "" where it cannot be written."""
        if not isinstance(value, str):
            return " | ".join(map(quote, spell_scalar(value, self.style)))
        if not is_writable(value, self.style):
            return ""
        if self._tokens:
            return " ".join(filter(None, [self._quote, quote(value) * bool(value), self._quote]))
        return " | ".join(map(quote, spell_scalar(value, self.style)))

    def key(self, key: str) -> str:
        """A declared key.

        Raises:
            SchemaError: it cannot be written.
        """
        fits = is_bare if self.style.bare_keys else is_writable
        if not fits(key, self.style):
            raise SchemaError(
                f"the key {key!r} cannot be written in this format",
                where=f"/properties/{escape(key)}",
                hint="Rename it, or use a model with a JSON format",
            )
        if self._tokens and not self.style.bare_keys:
            return self.scalar(key)
        return choose_word(spell_keys(key, self.style))

    def extra_key(self, declared: Sequence[Property], keys: Texts = FREE) -> str:
        """Any of these keys but the declared ones."""
        texts = find_extra_keys([p.key for p in declared], self.style, keys)
        return self.rules.terminal(texts.lark, "KEY")
