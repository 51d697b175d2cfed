"""Reads values of any style as they arrive: finds where they end, and writes them as JSON.

A style is a table here (`_Literals`): what its strings may contain and how JSON writes that, its
words, and what may stand outside of strings. `ValueReader` interprets it.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from grammars.schema.json_values import Json
from grammars.spelling.styles import list_texts, speaks_json
from grammars.wire.nodes import JsonStyle

REFUSED = "\x00"
"""Stands in the JSON text for what the style does not have. JSON has no such character, so it is
refused where it is read."""

_SIGNS = {"{": "{", "}": "}", "[": "[", "]": "]", ",": ", ", ":": ": "}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DIGIT = "[0-9a-fA-F]"
_KEPT = r"(?:[^{quote}\\]++|\\.)*+"
_ESCAPED = (
    r"(?:[^{quote}\\]++|\\(?:[^xU]|x(?:{digit}{{2}}|(?!{digit}?\Z))"
    r"|U(?:{digit}{{8}}|(?!{digit}{{0,7}}\Z))))*+"
)
_ESCAPE = re.compile(rf'\\(?:x({_DIGIT}{{2}})|U({_DIGIT}{{8}})|(.))|"', re.DOTALL)
_LETTERS = {letter: f"\\{letter}" for letter in '\\"bfnrtu'} | {"'": "'"}
"""What JSON writes for a letter after a backslash; the digits after `u` are the same."""


class FaultError(ValueError):
    """A character that the style does not allow here, or that follows what is no value."""

    def __init__(self, text: str, offset: int):
        self.offset = offset
        super().__init__(f"{text[offset]!r} in JSON")


@dataclass(frozen=True)
class Sign:
    """A bracket, comma or colon outside of strings, with its offset in the JSON text."""

    text: str
    offset: int


@dataclass(frozen=True)
class _Literals:
    """How a style writes values.

    Args:
        strings: for each quote, what matches the text in a string as far as it is certain: without
            half an escape or half a quote at the end of what has arrived.
        to_json: for each quote, what writes such a text as in a JSON string.
        until_sign: matches up to the next sign, quote or fault, which is the group.
        until_bracket: the same without commas, colons and strings, of which long lists are full.
        keeps: the text stays as it is.
    """

    strings: Mapping[str, re.Pattern[str]]
    to_json: Mapping[str, Callable[[str], str]]
    words: Mapping[str, str]
    signs: Mapping[str, str]
    until_sign: re.Pattern[str]
    until_bracket: re.Pattern[str]
    bare_keys: bool
    keeps: bool

    def write(self, text: str, sign: str) -> str:
        """Returns a key, number or word as JSON; `sign` is the sign after it."""
        if self.keeps:
            return text
        token = text.strip(" \t\r\n")
        if sign == ":" and self.bare_keys and token and token == token.strip():
            return f'"{escape_text(token)}"'
        if not token or _NUMBER.fullmatch(token):
            return token
        return self.words.get(token, REFUSED)


class ValueReader:
    """Reads one list, object or string. Whether its text is valid is known when the JSON is read.

    Args:
        told_level: the level of the objects or arrays whose signs are told; the outermost one has
            level 1.
        keeps: the text stays as it is, instead of JSON.

    Attributes:
        json: the JSON text of the last piece. What more text decides comes with a later piece.
        signs: the signs of that level in it.
    """

    def __init__(self, style: JsonStyle, told_level: int = 0, *, keeps: bool = False):
        self._literals = _compile(style, keeps or speaks_json(style))
        self._seen = 1 - max(map(len, style.quotes))  # in the text that is held back
        self._told_level = told_level
        self._level = 0
        self._quote = ""  # of the open string
        self._held = ""  # the text that is not written yet
        self.json = ""
        self.signs: list[Sign] = []

    def feed(self, piece: str) -> int | None:
        """Reads the next piece; returns how much of it belongs to the value, or None if it
        continues. Raises FaultError if the style does not allow a character, or the word before
        it."""
        literals, held = self._literals, len(self._held)
        text = self._held + piece
        written, position, is_over = "", 0, False
        self.signs = []
        while position < len(text) and not is_over:
            if self._quote:
                position, part = self._read_string(text, position)
                written += part
                if self._quote:
                    break
                is_over = self._level == 0
                continue
            # What is held back must not be the end of a string: a quote may begin as it ends.
            has_signs = self._level <= self._told_level or not literals.keeps or self._seen < 0
            pattern = literals.until_sign if has_signs else literals.until_bracket
            # Outside of strings, there is no sign in text that was held back.
            match = pattern.match(text, max(position, held + self._seen))
            assert match is not None  # it may be empty
            sign, start = match[1], position
            if sign is None:
                break
            position = match.end()
            token = literals.write(text[start : position - len(sign)], sign)
            is_refused = token == REFUSED and not literals.keeps
            written += "" if is_refused else token
            if is_refused or sign not in literals.signs:
                self.json = written
                raise FaultError(piece, position - 1 - held)
            if sign in literals.strings:
                self._quote = sign
            else:
                is_over = self._count(sign, len(written))
            written += literals.signs[sign]
        if literals.keeps and not self._quote and not is_over:
            start, position = position, max(position, len(text) + self._seen)
            written += text[start:position]
        self._held = text[position:]
        self.json = written
        return position - held if is_over else None

    def _read_string(self, text: str, start: int) -> tuple[int, str]:
        """Reads on in a string; returns where the rest begins, and the JSON text."""
        literals, quote = self._literals, self._quote
        match = literals.strings[quote].match(text, start)
        assert match is not None  # it may be empty
        position = match.end()
        written = literals.to_json[quote](match.group())
        if text.startswith(quote, position):
            position += len(quote)
            written += literals.signs[quote]
            self._quote = ""
        return position, written

    def _count(self, sign: str, offset: int) -> bool:
        """Notes a sign; returns True if it ends the value."""
        if sign in "{[":
            self._level += 1
        if self._level == self._told_level:
            self.signs.append(Sign(sign, offset))
        if sign in "}]":
            self._level -= 1
            return self._level == 0
        return False

    def close(self) -> str:
        """Ends the text; returns the rest of the JSON text."""
        return REFUSED if self._quote else self._literals.write(self._held, "")


def translate(text: str, style: JsonStyle) -> str:
    """Returns a value of this style as JSON, valid if the text is. Raises FaultError as `feed`
    does."""
    reader = ValueReader(style)
    end = reader.feed(text)
    return reader.json + (reader.close() if end is None else text[end:])


@lru_cache(maxsize=64)
def _compile(style: JsonStyle, keeps: bool) -> _Literals:
    named = (("true", style.true), ("false", style.false), ("null", style.null))
    signs = {**_SIGNS, **dict.fromkeys(style.quotes, '"')}
    bodies: dict[str, str] = {}
    for quote in style.quotes:
        spelled = _KEPT if keeps else _ESCAPED
        bodies[quote] = spelled.format(quote=quote, digit=_DIGIT)
        if not style.escapes:
            bodies[quote] = _match_raw(quote)
    between = rf"[^{{}}\[\],:{''.join(re.escape(quote[0]) for quote in style.quotes)}]"
    if style.escapes and not style.bare_keys:
        between = r"[\s\w+\-.]"
    halves = [f"|{re.escape(q[0])}(?!{re.escape(q[1:])})" for q in style.quotes if q[1:]]
    whole = [f"|{re.escape(quote)}{bodies[quote]}{re.escape(quote)}" for quote in style.quotes]
    skipped = f"{between}++{''.join(halves)}"
    ends = "|".join(map(re.escape, style.quotes))
    return _Literals(
        strings={quote: re.compile(body, re.DOTALL) for quote, body in bodies.items()},
        to_json={quote: _find_writer(style, quote, keeps) for quote in style.quotes},
        words={word: name for name, words in named for word in words},
        signs={sign: sign for sign in signs} if keeps else signs,
        until_sign=re.compile(f"(?:{skipped})*+({ends}|.)?", re.DOTALL),
        until_bracket=re.compile(f"(?:[,:]|{skipped}{''.join(whole)})*+({ends}|.)?", re.DOTALL),
        bare_keys=style.bare_keys,
        keeps=keeps,
    )


def _match_raw(quote: str) -> str:
    """Returns a regular expression for the text in a string that ends with the first quote."""
    begun = ""
    for character in reversed(quote[1:-1]):
        begun = f"(?:{re.escape(character)}{begun})?"
    first, rest = re.escape(quote[0]), re.escape(quote[1:])
    return rf"(?:[^{first}]++|{first}(?!{rest}|{begun}\Z))*+"


def _find_writer(style: JsonStyle, quote: str, keeps: bool) -> Callable[[str], str]:
    if keeps:
        return str
    if not style.escapes:
        return escape_text
    letters = {**_LETTERS, "/": "/"} if quote == '"' else _LETTERS  # Python escapes no slashes
    return partial(_ESCAPE.sub, partial(_write_escape, letters=letters))


def _write_escape(match: re.Match[str], letters: Mapping[str, str]) -> str:
    if match[0] == '"':
        return '\\"'
    if match[3]:
        return letters.get(match[3], REFUSED)
    code = int(match[1] or match[2], 16)
    if code > 0xFFFF:
        return json.dumps(chr(code))[1:-1] if code <= sys.maxunicode else REFUSED
    return f"\\u{code:04x}"


def escape_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_SURROGATE = re.compile("[\ud800-\udfff]")


class DeepJsonError(ValueError):
    """JSON that is nested more deeply than Python's reader supports (about 1,000 levels)."""


def read_value(text: str, style: JsonStyle) -> Json:
    """Reads a whole value: writes it as JSON, then reads that. So the limits of JSON apply to all
    styles. White space may stand between its parts. Raises ValueError if it is no such value."""
    return read_json(text if speaks_json(style) else translate(text, style))


def read_json(text: str) -> Json:
    """Reads strict JSON (RFC 8259); raises ValueError for NaN, infinity, a number beyond a double,
    and a lone surrogate."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise DeepJsonError("the JSON is nested too deeply to be read") from None
    if "\\u" in text or not text.isascii():
        for part, _ in list_texts(value):
            if _SURROGATE.search(part):
                raise ValueError("a lone surrogate")
    return value


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a double")
    return value
