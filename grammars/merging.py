"""Conjunction of two schemas: one flat schema that says what both say, where that can be said."""

import json
from collections.abc import Callable, Mapping
from typing import cast

from grammars.schema import Json, are_same

ANNOTATIONS = frozenset(
    "$schema $id $comment $anchor $defs definitions title description default examples example "
    "deprecated readOnly writeOnly optional discriminator contentMediaType contentEncoding "
    "contentSchema x-order x-guidance".split()
)
"""Keywords that say nothing about which values are admitted."""


def merge(a: Mapping[str, Json], b: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """Both at once.

    Returns:
        the merged schema, and the keywords of `b` that it had to leave out: the result admits
        every value that both admit, and more if that list is not empty.
    """
    a, b = _declare(a, b), _declare(b, a)
    merged = dict(a)
    left_out = _find_apart(a, b) + _find_apart(b, a)
    for keyword, value in b.items():
        if keyword not in merged or keyword in ANNOTATIONS or are_same(merged[keyword], value):
            merged.setdefault(keyword, value)
        elif keyword in ("anyOf", "oneOf"):
            merged["allOf"] = [*cast(list[Json], merged.get("allOf", [])), {keyword: value}]
        elif keyword == "const":
            merged["enum"] = []
        elif keyword == "type":
            both = _intersect_types(merged[keyword], value)
            merged |= {"type": both} if both else {"enum": []}
        elif keyword == "items" and _has_tuple(a, b):
            left_out.append(keyword)
        elif keyword in RULES:
            merged[keyword] = RULES[keyword](merged[keyword], value)
        else:
            left_out.append(keyword)
    return merged, left_out


def _declare(a: Mapping[str, Json], b: Mapping[str, Json]) -> Mapping[str, Json]:
    """`a` with the properties that only `b` declares: for `a`, they are additional ones."""
    rest = a.get("additionalProperties", True)
    own = cast(dict[str, Json], a.get("properties", {}))
    if rest is True or "patternProperties" in a:
        return a
    others = {key: rest for key in b.get("properties", ()) if key not in own}
    return {**a, "properties": own | others} if others else a


def _find_apart(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[str]:
    """Keywords of `a` that mean something else once the keywords of `b` stand beside them."""
    found: list[str] = []
    undeclared = set(b.get("properties", ())) - set(a.get("properties", ()))
    if undeclared and a.get("additionalProperties", True) is not True:
        found.append("additionalProperties")
    if "items" in a and _has_tuple(b):
        found.append("items")
    return found


def _has_tuple(*schemas: Mapping[str, Json]) -> bool:
    return any("prefixItems" in s or isinstance(s.get("items"), list) for s in schemas)


def _intersect_types(a: Json, b: Json) -> list[Json]:
    left, right = as_list(a), as_list(b)
    both = [x for x in left if x in right]
    for some, others in ((left, right), (right, left)):
        if "integer" in some and "number" in others and not {"integer", "number"} & {*both}:
            both.append("integer")
    return both


def _intersect_values(a: list[Json], b: list[Json]) -> Json:
    return [x for x in a if any(are_same(x, y) for y in b)]


def _join(a: dict[str, Json], b: dict[str, Json]) -> Json:
    return {k: _both(a[k], b[k]) if k in b else a[k] for k in a} | {
        k: v for k, v in b.items() if k not in a
    }


def _unite(a: list[str], b: list[str]) -> Json:
    return [*a, *(k for k in b if k not in a)]


def _both(a: Json, b: Json) -> Json:
    """Each part once, so that recursion through conjunctions comes back to where it was."""
    if a is False or b is False:
        return False
    parts: dict[str, Json] = {}
    for schema in (a, b):
        whole = isinstance(schema, dict) and cast(Json, schema).keys() == {"allOf"}
        for part in cast(list[Json], schema["allOf"] if whole else [schema]):
            parts[json.dumps(part, sort_keys=True)] = part
    return next(iter(parts.values())) if len(parts) == 1 else {"allOf": [*parts.values()]}


def as_list(value: Json) -> list[Json]:
    """The value itself if it is a list, else a list of it."""
    return cast(list[Json], value) if isinstance(value, list) else [value]


RULES: dict[str, Callable[[Json, Json], Json]] = {
    "enum": _intersect_values,
    "properties": _join,
    "required": _unite,
    "items": _both,
    "additionalProperties": _both,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
