"""Conjunction of two schemas: one flat schema that says what both say, where that can be said."""

from collections.abc import Callable, Mapping
from typing import cast

from grammars.schema import Json

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
    merged = dict(a)
    left_out: list[str] = []
    for keyword, value in b.items():
        if keyword not in merged or keyword in ANNOTATIONS or merged[keyword] == value:
            merged.setdefault(keyword, value)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            rest = [{keyword: value}, *cast(list[Json], merged.get("allOf", []))]
            merged["allOf"] = rest if keyword != "allOf" else [*value, *merged["allOf"]]
        elif keyword in RULES:
            merged[keyword] = RULES[keyword](merged[keyword], value)
        else:
            left_out.append(keyword)
    if _is_closed_elsewhere(a, b) or _is_closed_elsewhere(b, a):
        left_out.append("additionalProperties")
    return merged, left_out


def _is_closed_elsewhere(a: Mapping[str, Json], b: Mapping[str, Json]) -> bool:
    """Does `a` speak of additional properties, while `b` declares some that `a` does not?"""
    undeclared = set(b.get("properties", ())) - set(a.get("properties", ()))
    return bool(undeclared) and a.get("additionalProperties", True) is not True


def _intersect(a: Json, b: Json) -> Json:
    left, right = as_list(a), as_list(b)
    both = [x for x in left if x in right]
    if ("integer" in left) != ("integer" in right) and "integer" in left + right:
        both += ["integer"] if "number" in left + right and "integer" not in both else []
    return both


def _join(a: dict[str, Json], b: dict[str, Json]) -> Json:
    both = {k: {"allOf": [a[k], b[k]]} if k in b and a[k] != b[k] else a[k] for k in a}
    return both | {k: v for k, v in b.items() if k not in a}


def _unite(a: list[str], b: list[str]) -> Json:
    return [*a, *(k for k in b if k not in a)]


def _both(a: Json, b: Json) -> Json:
    if a is False or b is False:
        return False
    return {"allOf": [a, b]}


def as_list(value: Json) -> list[Json]:
    """The value itself if it is a list, else a list of it."""
    return cast(list[Json], value) if isinstance(value, list) else [value]


RULES: dict[str, Callable[[Json, Json], Json]] = {
    "type": _intersect,
    "enum": _intersect,
    "properties": _join,
    "required": _unite,
    "items": _both,
    "additionalProperties": _both,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
