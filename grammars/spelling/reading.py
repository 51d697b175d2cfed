"""Reads values in any style: converts the text to JSON piece by piece, then reads the JSON.

So the limits of JSON apply to all styles: no infinity, no number beyond a double, no lone
surrogate.
"""

import json
import re
import sys
from functools import lru_cache
from typing import cast

from grammars.schema.json_values import Json
from grammars.spelling.styles import speaks_json
from grammars.wire.format import JsonStyle

_SURROGATE = re.compile("[\ud800-\udfff]")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _compile_escapes(letters: str) -> re.Pattern[str]:
    """Returns a pattern for an escape sequence, or a character that may not stand in a string."""
    digit = "[0-9a-fA-F]"
    codes = rf"x(?P<x>{digit}{{2}})|u(?P<u>{digit}{{4}})|U(?P<U>{digit}{{8}})"
    return re.compile(rf"\\(?:(?P<letter>[{letters}])|{codes})|(?P<bad>[\\\x00-\x1f])")


_ESCAPE = _compile_escapes(r"\\'\"bfnrt")
_ESCAPE_OF_JSON = _compile_escapes(r"\\'\"/bfnrt")  # Python does not escape slashes


class DeepJsonError(ValueError):
    """JSON that is nested more deeply than Python's reader supports (about 1,000 levels)."""


def read_value(text: str, style: JsonStyle) -> Json:
    """Reads a value; white space may stand between its parts.

    Raises:
        ValueError: the text is not a value in this style.
    """
    return read_json(text if speaks_json(style) else translate(text, style))


def translate(text: str, style: JsonStyle) -> str:
    """Converts a value in this style to JSON text.

    Raises:
        ValueError: the text is not a value in this style.
    """
    pattern, words = _compile(style), find_words(style)
    parts, offset = list[str](), 0
    while offset < len(text):
        match = pattern.match(text, offset)
        if match is None:
            raise ValueError(f"{text[offset]!r} at {offset}")
        found, offset = match.group(), match.end()
        match match.lastgroup:
            case "string":
                parts.append(_read_string(found, style))
            case "key":
                parts.append(json.dumps(found))
            case "word":
                parts.append(_read_word(found, words))
            case _:
                parts.append(found)
    return "".join(parts)


@lru_cache(maxsize=16)
def _compile(style: JsonStyle) -> re.Pattern[str]:
    """Returns a pattern for one piece of a text; the name of its group is the kind of the piece."""
    quotes = list(map(re.escape, style.quotes))
    if style.escapes:
        strings = [rf"{quote}(?:[^{quote}\\]|\\.)*{quote}" for quote in quotes]
    else:
        strings = [rf"{quote}.*?{quote}" for quote in quotes]
    kinds = {"string": "|".join(strings)}
    if style.bare_keys:
        # A key begins and ends without white space, and a colon follows it.
        character = rf"(?!{quotes[0]})[^:,{{}}\[\]]"
        kinds["key"] = rf"(?!\s)(?:{character})+(?<!\s)(?=\s*:)"
    kinds["number"] = r"-?[0-9][-+.0-9eE]*"
    kinds["word"] = r"[A-Za-z]+"
    kinds["sign"] = r"[ \t\r\n,:{}\[\]]"
    groups = [f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items()]
    return re.compile("|".join(groups), re.DOTALL)


@lru_cache(maxsize=16)
def find_words(style: JsonStyle) -> dict[str, str]:
    """Returns the JSON words for the words of the style."""
    named = (("true", style.true), ("false", style.false), ("null", style.null))
    return {word: name for name, words in named for word in words}


def _read_word(word: str, words: dict[str, str]) -> str:
    if word not in words:
        raise ValueError(f"{word!r} is not a value")
    return words[word]


def _read_string(spelled: str, style: JsonStyle) -> str:
    """Returns a string in JSON, with all characters escaped, so that both halves of a surrogate
    pair combine."""
    if not style.escapes:
        quote = style.quotes[0]
        return json.dumps(spelled[len(quote) : -len(quote)])
    escape = _ESCAPE_OF_JSON if spelled[0] == '"' else _ESCAPE
    return json.dumps(escape.sub(_unescape, spelled[1:-1]))


def _unescape(match: re.Match[str]) -> str:
    if match["bad"]:
        raise ValueError(f"{match['bad']!r} in a string")
    if letter := match["letter"]:
        return _LETTERS.get(letter, letter)
    code = int(match["x"] or match["u"] or match["U"], 16)
    if code > sys.maxunicode:
        raise ValueError(f"{match.group()} is not a character")
    return chr(code)


def read_json(text: str) -> Json:
    """Reads strict JSON (RFC 8259): no NaN, no infinity, no number beyond a double, no lone
    surrogate.

    Raises:
        ValueError: the text is not strict JSON.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise DeepJsonError("the JSON is nested too deeply to be read") from None
    if "\\u" in text and _has_lone_surrogate(value):
        raise ValueError("a lone surrogate")
    return value


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a double")
    return value


def _has_lone_surrogate(value: Json) -> bool:
    queue: list[Json] = [value]
    while queue:
        match queue.pop():
            case str() as text:
                if _SURROGATE.search(text):
                    return True
            # pyright does not know the type of the items in such patterns.
            case list() as items:  # pyright: ignore[reportUnknownVariableType]
                queue += cast(list[Json], items)
            case dict() as members:  # pyright: ignore[reportUnknownVariableType]
                queue += [*cast(dict[str, Json], members).keys(), *members.values()]
            case _:
                pass
    return False
