"""Reads the beginning of a string or key in one style, and ends it in the shortest way."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from string import ascii_lowercase
from typing import Protocol

from grammars.complete.scalar import BODY, Fit, encode, end_escape, end_number, fit_string, join
from grammars.regex.automaton import Automaton
from grammars.regex.spelled import spell_extra_keys
from grammars.regex.texts import FREE, Texts
from grammars.schema.nodes import String
from grammars.spelling.languages import Language, pick_shortest, speak_string
from grammars.spelling.quoted import express_key_character, find_extra_keys, find_raw, find_strings
from grammars.spelling.styles import has_json_strings, spell_keys
from grammars.wire.format import JsonStyle


class Strings(Protocol):
    """The strings of a style."""

    def shortest(self, node: String) -> str | None:
        """The shortest string of the node; None if none is known."""
        ...

    def begins(self, text: str, at: int) -> bool:
        """Does a string begin there?"""
        ...

    def find_end(self, text: str, at: int) -> int | None:
        """The index behind the string that begins there; None if the text ends before."""
        ...

    def fit(self, text: str, at: int, node: String) -> Fit:
        """Reads a string."""
        ...


class Keys(Protocol):
    """The keys of an object of which some are declared."""

    @property
    def spelled(self) -> Mapping[str, int]:
        """The indices of the declared ones by all their spellings."""
        ...

    def find_end(self, text: str, at: int) -> int | None:
        """The index behind the key that begins there; None if the text ends before."""
        ...

    def is_extra(self, spelled: str) -> bool:
        """Is it an undeclared key?"""
        ...

    def extend(self, written: str) -> str | None:
        """The shortest end of an undeclared key of which that much is written."""
        ...


def read_strings(style: JsonStyle) -> Strings:
    """The strings of a style."""
    if has_json_strings(style):
        return JsonStrings()
    return PythonStrings(style) if style.escapes else RawStrings(style)


def read_keys(declared: list[str], style: JsonStyle, keys: Texts = FREE) -> Keys:
    """The keys of an object in this style; of the undeclared ones, these."""
    if not has_json_strings(style) or style.bare_keys:
        return SpelledKeys(declared, style, find_extra_keys(declared, style, keys))
    if keys.is_free:
        return JsonKeys(declared, style)
    return SpelledKeys(declared, style, spell_extra_keys(keys, declared))


class JsonStrings:
    """Those of JSON."""

    def __init__(self) -> None:
        self._languages: dict[int, tuple[String, Language]] = {}  # holds the node, so its id stays

    def _language(self, node: String) -> Language:
        """The characters of the strings of a node."""
        if id(node) not in self._languages:
            self._languages[id(node)] = node, speak_string(node)
        return self._languages[id(node)][1]

    def shortest(self, node: String) -> str | None:
        text = self._language(node).extend("")
        return None if text is None else f'"{encode(text)}"'

    def begins(self, text: str, at: int) -> bool:
        return text[at] == '"'

    def find_end(self, text: str, at: int) -> int | None:
        body = BODY.match(text, at + 1)
        return body.end() + 1 if body and text.startswith('"', body.end()) else None

    def fit(self, text: str, at: int, node: String) -> Fit:
        language = None if node.is_free else self._language(node)
        return fit_string(text, at, language, plain=node.pattern is not None)


@dataclass(frozen=True)
class PythonStrings:
    """Those of Python and JSON, by the expressions of the grammar over their spelling."""

    style: JsonStyle

    def _automaton(self, node: String) -> Automaton | None:
        texts = find_strings(node, self.style)
        return texts.automaton if texts else None

    def shortest(self, node: String) -> str | None:
        automaton = self._automaton(node)
        return automaton.extend("") if automaton else None

    def begins(self, text: str, at: int) -> bool:
        return text[at] in self.style.quotes

    def find_end(self, text: str, at: int) -> int | None:
        found = re.compile(rf"(?s:(?:[^{text[at]}\\]|\\.)*{text[at]})").match(text, at + 1)
        return found.end() if found else None

    def fit(self, text: str, at: int, node: String) -> Fit:
        if not self.begins(text, at):
            return None
        automaton, end = self._automaton(node), self.find_end(text, at)
        if end is None:
            return automaton.extend(text[at:]) if automaton else None
        return end if automaton is None or automaton.accepts(text[at:end]) else None


@dataclass(frozen=True)
class RawStrings:
    """Raw text between quotes that it cannot contain."""

    style: JsonStyle

    @property
    def _quote(self) -> str:
        return self.style.quotes[0]

    def shortest(self, node: String) -> str | None:
        automaton = find_raw(node, self.style).automaton
        return join(self._quote, automaton.extend("") if automaton else None, self._quote)

    def begins(self, text: str, at: int) -> bool:
        return text.startswith(self._quote, at) or self._quote.startswith(text[at:])

    def find_end(self, text: str, at: int) -> int | None:
        found = text.find(self._quote, at + len(self._quote))
        return None if found < 0 else found + len(self._quote)

    def fit(self, text: str, at: int, node: String) -> Fit:
        if not self.begins(text, at):
            return None
        automaton, end = find_raw(node, self.style).automaton, self.find_end(text, at)
        body = text[at + len(self._quote) : end and end - len(self._quote)]
        if end is not None:
            return end if automaton is None or automaton.accepts(body) else None
        if not text.startswith(self._quote, at):
            return join(
                self._quote[len(text) - at :], automaton and automaton.extend(""), self._quote
            )
        return self._end(body, automaton) if automaton else None

    def _end(self, body: str, automaton: Automaton) -> str | None:
        """The end of a string. Half a quote is followed by a whole one, which is right also where
        the quote is one token; if it cannot be text, by its other half."""
        quote, more = self._quote, automaton.extend(body)
        if more is not None and (body + more + quote).find(quote) == len(body + more):
            return more + quote
        halves = [quote[:n] for n in range(1, len(quote)) if body.endswith(quote[:n])]
        whole = (h for h in halves if automaton.accepts(body.removesuffix(h)))
        return pick_shortest(quote[len(half) :] for half in whole)


class JsonKeys:
    """Keys as JSON's strings."""

    def __init__(self, declared: list[str], style: JsonStyle):
        self.spelled = {k: i for i, key in enumerate(declared) for k in spell_keys(key, style)}
        self._reserved = frozenset(json.dumps(key, ensure_ascii=False) for key in declared)
        self._character = express_key_character(declared) if declared else ""

    def find_end(self, text: str, at: int) -> int | None:
        return JsonStrings().find_end(text, at)

    def is_extra(self, spelled: str) -> bool:
        return spelled not in self._reserved

    def extend(self, written: str) -> str | None:
        body = BODY.match(written, 1)
        half = written[body.end() :] if body else ""
        end = self._end_escape(half) if written else '"'
        written += end
        if self._character and not re.fullmatch(f'"({self._character})*', written):
            return None
        ends = chain(("", *ascii_lowercase), ("a" * n for n in count(2)))
        return end + next(e + '"' for e in ends if written + e + '"' not in self._reserved)

    def _end_escape(self, half: str) -> str:
        """The end of half an escape; only of a character beyond ASCII where some are declared."""
        if len(half) > 1 and self._reserved:
            return end_number(half, "f")
        return next(end_escape(half, plain=bool(self._reserved)), "")


class SpelledKeys:
    """Keys of another kind, by the expressions of the grammar over their spelling."""

    def __init__(self, declared: list[str], style: JsonStyle, extra: Texts):
        self.spelled = {k: i for i, key in enumerate(declared) for k in spell_keys(key, style)}
        self._bare = style.bare_keys
        self._strings = PythonStrings(style)
        self._automaton = extra.automaton

    def find_end(self, text: str, at: int) -> int | None:
        if self._bare:
            found = re.compile(r"[^:,{}\[\]]*").match(text, at)
            return found.end() if found and found.end() < len(text) else None
        return self._strings.find_end(text, at) if self._strings.begins(text, at) else None

    def is_extra(self, spelled: str) -> bool:
        return self._automaton is not None and self._automaton.accepts(spelled)

    def extend(self, written: str) -> str | None:
        return self._automaton.extend(written) if self._automaton else None
