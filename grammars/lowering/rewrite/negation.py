"""What a schema excludes, as schemas: `not` taken apart down to what nodes can express."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import cast

from grammars.lowering.keywords import TYPES
from grammars.lowering.rewrite.merging import ANNOTATIONS, CASES, as_list
from grammars.schema.nodes import Json

MOST = 16
"""More alternatives than these are not written out."""
_STEPS = {  # keyword: the type it speaks of, the keyword for the others, the step between both
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
    "minimum": ("number", "exclusiveMaximum", 0),
    "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMinimum": ("number", "maximum", 0),
    "exclusiveMaximum": ("number", "minimum", 0),
}

Resolve = Callable[[Json], Json]
"""Gives what a `$ref` leads to, or raises `SchemaError`."""


def negate(schema: Json, resolve: Resolve | None = None) -> list[Json]:
    """Schemas that together admit exactly what this one does not.

    What cannot be said without it stays in a `not` with one keyword inside.
    """
    if isinstance(schema, bool):
        return [] if schema else [True]
    flat = cast(Mapping[str, Json], schema)
    conditions = [k for k in CASES if k in flat]
    options: list[Json] = []
    for keyword, value in flat.items():
        if keyword in ANNOTATIONS or keyword in conditions:
            continue
        options += _negate_keyword(keyword, value, resolve)
    if "if" in flat and len(conditions) > 1:
        options.append({"not": {k: flat[k] for k in conditions}})
    return options


def _negate_keyword(keyword: str, value: Json, resolve: Resolve | None) -> list[Json]:
    match keyword:
        case "type":
            return _negate_types(as_list(value))
        case "const":
            return [{"not": {"enum": [value]}}]
        case "required":
            return [_with_member(key, False) for key in value]
        case "properties":
            members = cast(dict[str, Json], value).items()
            return [_with_member(k, n) for k, v in members for n in negate(v, resolve)]
        case "not":
            return [value]
        case "allOf":
            return [n for part in value for n in negate(part, resolve)]
        case "anyOf":
            return _negate_all(value, resolve)
        case "$ref" if resolve is not None:
            return negate(resolve(value), None)
        case _ if keyword in _STEPS and not isinstance(value, bool):
            return _negate_bound(keyword, value)
        case _:
            return [{"not": {keyword: value}}]


def _negate_types(types: list[Json]) -> list[Json]:
    if "integer" in types and "number" not in types:
        return [{"not": {"type": types}}]
    others = [kind for kind in TYPES if kind not in types]
    return [{"type": others}] if others else []


def _with_member(key: str, value: Json) -> Json:
    """Objects with that member; without it if it is false."""
    inner: dict[str, Json] = {"type": "object", "properties": {key: value}}
    return inner if value is False else inner | {"required": [key]}


def _negate_all(parts: list[Json], resolve: Resolve | None) -> list[Json]:
    each = [negate(part, resolve) for part in parts]
    count = 1
    for options in each:
        count *= len(options)
    if count > MOST:
        return [{"not": {"anyOf": parts}}]
    if all(len(options) == 1 and _is_rest(options[0]) for options in each):
        return [{"not": {"anyOf": [options[0]["not"] for options in each]}}]
    return [{"allOf": list(chosen)} for chosen in product(*each)]


def _is_rest(schema: Json) -> bool:
    """Is it a `not` that could not be taken apart?"""
    return isinstance(schema, dict) and cast(Json, schema).keys() == {"not"}


def _negate_bound(keyword: str, value: float) -> list[Json]:
    kind, other, step = _STEPS[keyword]
    bound = value + step
    return [] if bound < 0 and kind != "number" else [{"type": kind, other: bound}]


def is_expressible(schema: Json) -> bool:
    """Does no `not` stand in there but of an enum?"""
    if isinstance(schema, list):
        return all(map(is_expressible, cast(list[Json], schema)))
    if not isinstance(schema, dict):
        return True
    flat = cast(Mapping[str, Json], schema)
    excluded = flat.get("not", {"enum": []})
    if not (isinstance(excluded, dict) and excluded.keys() == {"enum"}):
        return False
    return all(map(is_expressible, (v for k, v in flat.items() if k not in ("enum", "const"))))
