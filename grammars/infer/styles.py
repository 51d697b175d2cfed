"""How a template spells values: found by spelling them in every style."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import cast

from grammars.schema.nodes import Json
from grammars.spelling.styles import spell
from grammars.wire.format import PYTHON, JsonStyle


@cache
def styles() -> tuple[JsonStyle, ...]:
    """The styles that are looked for, the usual ones first."""
    return tuple(_styles())


def _styles() -> Iterator[JsonStyle]:
    for is_sorted in (False, True):
        for ascii in (False, True):
            for key in (": ", ":"):
                for item in (", ", ","):
                    yield JsonStyle(item, key, ascii, sorted_keys=is_sorted)
        yield replace(PYTHON, sorted_keys=is_sorted)
    for ascii in (False, True):
        for indent in (4, 2, 1, 3, 8):
            for level in range(4):
                yield JsonStyle(", ", ": ", ascii, indent, level)


def _raw_styles(quote: str) -> Iterator[JsonStyle]:
    """Styles whose strings are raw text between marks of their own."""
    raw = JsonStyle(quotes=(quote,), escapes=False)
    yes = ((("true",), ("false",)), (("True", "true"), ("False", "false")))
    for (true, false), null in product(yes, (("null",), ("None", "null"))):
        for key, item in product((": ", ":"), (", ", ",")):
            for bare, ordered in product((True, False), (False, True)):
                own = replace(raw, key=key, item=item, bare_keys=bare, sorted_keys=ordered)
                yield replace(own, true=true, false=false, null=null)


def find_style(*pairs: tuple[Json, str], quote: str = "") -> JsonStyle | None:
    """The style in which every value is spelled like that; None if no known style is.

    Args:
        pairs: values, and how they are spelled.
        quote: what stands around a string; "": what JSON or Python write.
    """
    known = _raw_styles(quote) if quote not in ("", '"', "'") else styles()
    return next((s for s in known if all(spell(v, s) == text for v, text in pairs)), None)


def find_member(text: str, key: str, value: str, start: int) -> re.Match[str] | None:
    """An object with one text in it, in whatever style; the group `quote` is what stands around
    the text."""
    name = rf"(?P<mark>[\"']?){re.escape(key)}(?P=mark)"
    written = rf"(?P<quote>\S{{1,16}}?){re.escape(value)}(?P=quote)"
    return re.compile(rf"\{{{name}\s*:\s*{written}\}}").search(text, start)


def find_objects(text: str, start: int) -> Iterator[tuple[dict[str, Json], int, int]]:
    """The JSON objects in a text from `start` on, outer ones first, with their bounds."""
    decoder = json.JSONDecoder()
    at = text.find("{", start)
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            yield cast(dict[str, Json], value), at, end
        at = text.find("{", at + 1)
