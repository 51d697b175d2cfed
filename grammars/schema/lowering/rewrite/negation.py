"""Negates schemas: rewrites `not` to what nodes can express."""

from collections.abc import Callable
from itertools import chain, product
from math import prod

from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import ANNOTATIONS, CASES, TYPES, as_list
from grammars.schema.lowering.rewrite.merging import is_listing, negate_pattern
from grammars.schema.subschemas import is_list, is_object, omit

MAX_ALTERNATIVES = 16
"""The limit for alternatives."""

_OPPOSITES = {  # keyword: its type, the opposite keyword, and the difference of the bounds
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
"""Returns the target of a `$ref`, or raises `SchemaError`."""


def negate(schema: Json, resolve: Resolve | None = None) -> list[Json]:
    """Returns the schemas that together allow exactly the values that this one does not. Everything
    that has no other form stays in a `not` with one keyword. References are followed one step;
    without `resolve`, a `$ref` stays in a `not`."""
    if schema is True:
        return []
    if schema is False:
        return [True]
    spend(1 + len(schema))
    options: list[Json] = []
    for keyword, value in schema.items():
        if keyword not in ANNOTATIONS and keyword not in CASES:
            options += _negate_keyword(keyword, value, resolve)
    cases = {k: schema[k] for k in CASES if k in schema}
    if "if" in cases and len(cases) > 1:
        options.append({"not": cases})
    return options


def is_expressible(schema: Json) -> bool:
    """Returns whether every `not` in the schema, or schemas, only has an enum."""
    spend()
    if is_list(schema):
        return all(map(is_expressible, schema))
    if not is_object(schema):
        return True
    if "not" in schema and not is_listing(schema["not"]):
        return False
    return all(map(is_expressible, omit(schema, "enum", "const").values()))


def _negate_keyword(keyword: str, value: Json, resolve: Resolve | None) -> list[Json]:
    match keyword:
        case "type":
            return _negate_types(as_list(value))
        case "const":
            return [{"not": {"enum": [value]}}]
        case "required":
            return [_require(key, False) for key in value]
        case "properties":
            options: list[Json] = []
            for key, schema in value.items():
                options += [_require(key, option) for option in negate(schema, resolve)]
            return options
        case "not":
            return [value]
        case "additionalProperties" if value is True:
            return []
        case "pattern" if (opposite := negate_pattern(value)) is not None:
            return [{"type": "string", "pattern": opposite}]
        case "allOf":
            return list(chain.from_iterable(negate(part, resolve) for part in value))
        case "anyOf":
            return _negate_any_of(value, resolve)
        case "$ref" if resolve is not None:
            return negate(resolve(value), None)
        case _ if keyword in _OPPOSITES and not isinstance(value, bool):
            return _negate_bound(keyword, value)
        case _:
            return [{"not": {keyword: value}}]


def _negate_types(types: list[Json]) -> list[Json]:
    if "integer" in types and "number" not in types:
        return [{"not": {"type": types}}]
    others = [kind for kind in TYPES if kind not in types]
    if not others:
        return []
    return [{"type": others}]


def _require(key: str, value: Json) -> Json:
    """Objects with this member; without it if its schema is false."""
    schema: dict[str, Json] = {"type": "object", "properties": {key: value}}
    if value is not False:
        schema["required"] = [key]
    return schema


def _negate_any_of(parts: list[Json], resolve: Resolve | None) -> list[Json]:
    """Returns the conjunction of the negated parts: one for each combination of alternatives."""
    negated = [negate(part, resolve) for part in parts]
    if prod(map(len, negated)) > MAX_ALTERNATIVES:
        return [{"not": {"anyOf": parts}}]
    if all(map(_is_negation, negated)):
        return [{"not": {"anyOf": [option["not"] for (option,) in negated]}}]
    return [{"allOf": list(chosen)} for chosen in product(*negated)]


def _is_negation(options: list[Json]) -> bool:
    """Returns whether the only option is a `not` that could not be rewritten."""
    return len(options) == 1 and is_object(options[0]) and options[0].keys() == {"not"}


def _negate_bound(keyword: str, value: float) -> list[Json]:
    kind, opposite, step = _OPPOSITES[keyword]
    bound = value + step
    if bound < 0 and kind != "number":  # lengths are not negative
        return []
    return [{"type": kind, opposite: bound}]
