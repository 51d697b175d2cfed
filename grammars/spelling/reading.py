"""Reads whole values in any style: writes them as JSON, then reads the JSON. So the limits of JSON
apply to all styles: no infinity, no number beyond a double, no lone surrogate."""

import json
import re
from typing import cast

from grammars.schema.json_values import Json
from grammars.spelling.styles import speaks_json
from grammars.spelling.value_reader import translate
from grammars.wire.format import JsonStyle

_SURROGATE = re.compile("[\ud800-\udfff]")


class DeepJsonError(ValueError):
    """JSON that is nested more deeply than Python's reader supports (about 1,000 levels)."""


def read_value(text: str, style: JsonStyle) -> Json:
    """Reads a value; white space may stand between its parts. Raises ValueError if the text is not
    a value in this style."""
    return read_json(text if speaks_json(style) else translate(text, style))


def read_json(text: str) -> Json:
    """Reads strict JSON (RFC 8259); raises ValueError for NaN, infinity, a number beyond a double,
    and a lone surrogate."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise DeepJsonError("the JSON is nested too deeply to be read") from None
    if ("\\u" in text or not text.isascii()) and _has_lone_surrogate(value):
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
