"""Finds the style in which a template spells values, by spelling them in every style."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import cast

from grammars.errors import DetectError
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_object
from grammars.spelling.styles import spell
from grammars.wire.format import PYTHON, JsonStyle


@cache
def styles() -> tuple[JsonStyle, ...]:
    """Returns the possible styles, the usual ones first."""
    return tuple(_styles())


def _styles() -> Iterator[JsonStyle]:
    for is_sorted in (False, True):
        for ascii in (False, True):
            for key in (": ", ":"):
                for item in (", ", ","):
                    yield JsonStyle(item=item, key=key, ascii=ascii, sorted_keys=is_sorted)
        yield replace(PYTHON, sorted_keys=is_sorted)
        for ascii in (False, True):  # words as in Python, which a macro writes, and strings of JSON
            quotes = JsonStyle().quotes
            yield replace(PYTHON, quotes=quotes, ascii=ascii, sorted_keys=is_sorted)
        for ascii in (False, True):  # JavaScript writes keys without quotes
            yield JsonStyle(ascii=ascii, bare_keys=True, sorted_keys=is_sorted)
    # Command R+ writes every member of a call on a line of its own.
    for ascii in (False, True):
        for indent in (4, 2, 1, 3, 8):
            for level in range(4):
                yield JsonStyle(ascii=ascii, indent=indent, level=level)


def _raw_styles(quote: str) -> Iterator[JsonStyle]:
    """Yields styles whose strings are raw text between special marks. Gemma 4 writes `<|"|>`."""
    raw = JsonStyle(quotes=(quote,), escapes=False)
    raw_in_python = replace(raw, true=PYTHON.true, false=PYTHON.false)
    for words, null in product((raw, raw_in_python), (raw.null, PYTHON.null)):
        for key, item in product((": ", ":"), (", ", ",")):
            for is_bare, is_sorted in product((True, False), (False, True)):
                own = replace(words, null=null, key=key, item=item)
                yield replace(own, bare_keys=is_bare, sorted_keys=is_sorted)


def find_style(*pairs: tuple[Json, str], quote: str = "") -> JsonStyle | None:
    """Returns the first known style in which every value is spelled as given; None if there is
    none.

    Args:
        pairs: values, each with its spelling.
        quote: the text around a string; "": what JSON or Python write.
    """
    known: Iterable[JsonStyle] = styles()
    if quote not in ("", '"', "'"):
        known = _raw_styles(quote)
    for style in known:
        if all(spell(value, style) == text for value, text in pairs):
            return style
    return None


def find_member(text: str, key: str, value: str, *, start: int) -> re.Match[str] | None:
    """Finds an object with one text in it, in any style, from `start` on. The group `quote` is the
    text around the string."""
    name = rf"(?P<mark>[\"']?){re.escape(key)}(?P=mark)"
    written = rf"(?P<quote>\S{{1,16}}?){re.escape(value)}(?P=quote)"
    return re.compile(rf"\{{{name}\s*:\s*{written}\}}").search(text, start)


def find_encoded(text: str, start: int) -> Iterator[tuple[dict[str, Json], int, int]]:
    """Yields the JSON strings in a text from `start` on that contain a JSON object, with their
    bounds."""
    decoder = json.JSONDecoder()
    for quote in re.compile(r'"\s*\{').finditer(text, start):
        try:
            string, end = decoder.raw_decode(text, quote.start())
            value = json.loads(string)
        except (ValueError, RecursionError):
            continue
        if is_object(value):
            yield value, quote.start(), end


def decode_string(string: str) -> str:
    """Returns the text of a JSON string that is spelled as most encoders do.

    Raises:
        DetectError: it is not a string, or is spelled in another way.
    """
    try:
        text = json.loads(string)
    except ValueError:
        text = None
    if not isinstance(text, str) or json.dumps(text, ensure_ascii=False) != string:
        raise DetectError(f"arguments are no JSON in a JSON string: {string!r}")
    return text


def find_objects(text: str, start: int) -> Iterator[tuple[dict[str, Json], int, int]]:
    """Yields the JSON objects in a text from `start` on, outer ones first, with their bounds."""
    decoder = json.JSONDecoder()
    for brace in re.compile(r"\{").finditer(text, start):
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        yield cast(dict[str, Json], value), brace.start(), end
