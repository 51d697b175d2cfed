"""Raw text between tags -> a typed value, led by the schema.

A schema that admits only strings takes the text as it is. Otherwise the types that it admits are
tried in a fixed order, JSON spelling before the template's own words, strings last; the first
candidate that fits the schema is the value. Nothing is ever changed to make it fit.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from grammars.errors import CoerceError
from grammars.schema import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Json,
    Null,
    Number,
    Object,
    Schema,
    String,
    Unfit,
    escape,
    flatten,
)

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None, "none": None}
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS: tuple[tuple[str, Callable[[Json], bool]], ...] = (
    ("null", lambda v: v is None),
    ("boolean", lambda v: isinstance(v, bool)),
    ("integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    ("number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    ("array", lambda v: isinstance(v, list)),
    ("object", lambda v: isinstance(v, dict)),
)


class DeepJsonError(ValueError):
    """JSON that nests more deeply than Python's reader goes (about 1,000 levels)."""


def coerce(raw: str, schema: Schema) -> Json:
    """The typed value that `raw` spells.

    Raises:
        CoerceError: no type that the schema admits can hold the text; `where` is the pointer of
            the first thing that does not fit.
    """
    admitted = {kind for node in flatten(schema.node, schema.definitions) for kind in _kinds(node)}
    candidates: list[Json] = []
    if admitted != {"string"}:
        readings = list(_readings(raw))
        for kind, fits in _KINDS:
            if kind in admitted:
                candidates += [v for v in readings if fits(v)]
    if "string" in admitted:
        candidates.append(raw)
    for candidate in candidates:
        if schema.admits(candidate):
            return candidate
    raise _refusal(raw, candidates, schema, admitted)


def coerce_members(
    raws: Mapping[str, str], schema: Schema
) -> tuple[dict[str, Json], tuple[Unfit, ...]]:
    """The typed members of an object, and why they do not fit; a raw string where no type does.

    Of several objects that the schema admits, it is read as the first that all of it fits.
    """
    options = zip(*(schema.find_members(key) for key in raws), strict=True) if raws else [()]
    readings = [_read_members(raws, members, schema) for members in options]
    return next((reading for reading in readings if not reading[1]), readings[0])


def _read_members(
    raws: Mapping[str, str], members: Sequence[Schema | None], schema: Schema
) -> tuple[dict[str, Json], tuple[Unfit, ...]]:
    values: dict[str, Json] = {}
    errors: list[Unfit] = []
    for (key, raw), member in zip(raws.items(), members, strict=True):
        values[key] = raw
        if member is None:
            errors.append(Unfit(f"/{escape(key)}", f"{key!r} is not declared"))
            continue
        try:
            values[key] = coerce(raw, member)
        except CoerceError as e:
            errors.append(Unfit(f"/{escape(key)}{e.where or ''}", e.message))
    return values, tuple(errors) or schema.find_errors(values)


def _refusal(raw: str, candidates: list[Json], schema: Schema, admitted: set[str]) -> CoerceError:
    if candidates:
        unfit = schema.find_errors(candidates[0])[0]
        return CoerceError(unfit.message, where=unfit.pointer)
    kinds = " or ".join(sorted(admitted)) or "anything"
    shown = raw if len(raw) <= 60 else raw[:57] + "..."
    return CoerceError(f"{shown!r} is not {kinds}", where="")


def _kinds(node: Flat) -> Iterator[str]:
    """The names of the types that a node admits; a number admits integers too."""
    match node:
        case AnyValue():
            yield from ("null", "boolean", "integer", "number", "array", "object", "string")
        case Constant(values):
            for value in values:
                yield next((kind for kind, fits in _KINDS if fits(value)), "string")
        case Number(integer):
            yield from ("integer",) if integer else ("integer", "number")
        case String():
            yield "string"
        case Boolean():
            yield "boolean"
        case Null():
            yield "null"
        case Array():
            yield "array"
        case Object():
            yield "object"


def _readings(raw: str) -> Iterator[Json]:
    """The values other than strings that the text can be read as."""
    text = raw.strip()
    try:
        value = read_json(text)
    except ValueError:
        pass
    else:
        if not isinstance(value, str):
            yield value
    if text.lower() in _WORDS and text not in ("true", "false", "null"):
        yield _WORDS[text.lower()]


def read_json(text: str) -> Json:
    """Strict JSON (RFC 8259): no NaN, no infinity, no number beyond a double, no lone surrogate.

    Raises:
        ValueError: it is not.
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
        raise ValueError(f"{text} does not fit into a double")
    return value


def _has_lone_surrogate(value: Json) -> bool:
    queue: list[Json] = [value]
    while queue:
        match queue.pop():
            case str() as text:
                if _SURROGATE.search(text):
                    return True
            case list() as items:  # pyright: ignore[reportUnknownVariableType]
                queue += cast(list[Json], items)
            case dict() as members:  # pyright: ignore[reportUnknownVariableType]
                queue += [*cast(dict[str, Json], members).keys(), *members.values()]
            case _:
                pass
    return False
