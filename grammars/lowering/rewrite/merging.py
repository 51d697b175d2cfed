"""Conjunction of two schemas: one flat schema that says what both say, where that can be said."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import lcm
from typing import cast

from grammars.lowering.keywords import HELD, read_bounds
from grammars.regex.ecma import translate
from grammars.regex.texts import Texts
from grammars.schema.nodes import Json, are_same, identify

ANNOTATIONS = frozenset(
    "$schema $id $comment $anchor $defs definitions title description default examples example "
    "deprecated readOnly writeOnly optional discriminator contentMediaType contentEncoding "
    "contentSchema x-order x-guidance".split()
)
"""Keywords that say nothing about which values are admitted."""
CASES = ("if", "then", "else")
"""Keywords that say something together."""


def merge(a: Mapping[str, Json], b: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """Both at once.

    Returns:
        the merged schema, and the keywords of `b` that it had to leave out: the result admits
        every value that both admit, and more if that list is not empty.
    """
    a, b = _state_bounds(a), _state_bounds(b)
    a, b = _declare(a, b), _declare(b, a)
    a, b = _lengthen(a, b), _lengthen(b, a)
    if "if" in a and "if" in b:
        cases = {k: v for k, v in b.items() if k in CASES}
        a = {**a, "allOf": [*cast(list[Json], a.get("allOf", [])), cases]}
        b = {k: v for k, v in b.items() if k not in CASES}
    merged = dict(a)
    left_out = _find_apart(a, b) + _find_apart(b, a)
    for keyword, value in b.items():
        if keyword not in merged or keyword in ANNOTATIONS or are_same(merged[keyword], value):
            merged.setdefault(keyword, value)
        elif keyword in ("anyOf", "oneOf"):
            merged["allOf"] = [*cast(list[Json], merged.get("allOf", [])), {keyword: value}]
        elif keyword == "const":
            merged |= {} if identify(merged[keyword]) == identify(value) else {"enum": []}
        elif keyword == "type":
            both = _intersect_types(merged[keyword], value)
            merged |= {"type": both} if both else {"enum": []}
        elif keyword == "items" and (isinstance(value, list) or isinstance(a["items"], list)):
            left_out.append(keyword)
        elif keyword in RULES:
            merged[keyword] = RULES[keyword](merged[keyword], value)
        else:
            left_out.append(keyword)
    return merged, left_out


def _state_bounds(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema with numbers for exclusive bounds, and without cases of no `if`."""
    kept = {k: v for k, v in schema.items() if "if" in schema or k not in CASES}
    bounds = read_bounds(kept)
    return {k: v for k, v in kept.items() if k not in HELD["number"] or k in bounds} | bounds


def _declare(a: Mapping[str, Json], b: Mapping[str, Json]) -> Mapping[str, Json]:
    """`a` with the properties that only `b` declares: for `a`, they are additional ones."""
    rest = a.get("additionalProperties", True)
    own = cast(dict[str, Json], a.get("properties", {}))
    patterns = cast(Mapping[str, Json], a.get("patternProperties", {}))
    texts = [(translate(pattern), value) for pattern, value in patterns.items()]
    if rest is True or any(t is None or Texts((t,)).automaton is None for t, _ in texts):
        return a

    def find(key: str) -> Json:
        found = [value for text, value in texts if text and Texts((text,)).accepts(key)]
        return reduce(conjoin, found) if found else rest

    others = {key: find(key) for key in b.get("properties", ()) if key not in own}
    return {**a, "properties": own | others} if others else a


def _lengthen(a: Mapping[str, Json], b: Mapping[str, Json]) -> Mapping[str, Json]:
    """`a` with a tuple as long as that of `b`, the longer of both."""
    if isinstance(a.get("items"), list) or isinstance(b.get("items"), list):
        return a
    own, other = (cast(list[Json], s.get("prefixItems", [])) for s in (a, b))
    more = len(other) - len(own)
    return {**a, "prefixItems": [*own, *[a.get("items", True)] * more]} if more > 0 else a


def _join_tuples(a: list[Json], b: list[Json]) -> Json:
    return [conjoin(x, y) for x, y in zip(a, b, strict=True)]


def _find_apart(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[str]:
    """Keywords of `a` that mean something else once the keywords of `b` stand beside them."""
    found: list[str] = []
    undeclared = set(b.get("properties", ())) - set(a.get("properties", ()))
    unmatched = set(b.get("patternProperties", ())) - set(a.get("patternProperties", ()))
    if (undeclared or unmatched) and a.get("additionalProperties", True) is not True:
        found.append("additionalProperties")
    if "items" in a and isinstance(b.get("items"), list):
        found.append("items")
    return found


def _intersect_types(a: Json, b: Json) -> list[Json]:
    left, right = as_list(a), as_list(b)
    both = [x for x in left if x in right]
    for some, others in ((left, right), (right, left)):
        if "integer" in some and "number" in others and not {"integer", "number"} & {*both}:
            both.append("integer")
    return both


def _intersect_values(a: list[Json], b: list[Json]) -> Json:
    kept = set(map(identify, b))
    return [x for x in a if identify(x) in kept]


def _join(a: dict[str, Json], b: dict[str, Json]) -> Json:
    return {k: conjoin(a[k], b[k]) if k in b else a[k] for k in a} | {
        k: v for k, v in b.items() if k not in a
    }


def _unite(a: list[str], b: list[str]) -> Json:
    return [*a, *(k for k in b if k not in a)]


def conjoin(a: Json, b: Json) -> Json:
    """Both at once. Each part once, so that recursion through conjunctions comes back to where it
    was."""
    if a is False or b is False:
        return False
    parts: dict[str, Json] = {}
    for schema in (a, b):
        whole = isinstance(schema, dict) and cast(Json, schema).keys() == {"allOf"}
        for part in cast(list[Json], schema["allOf"] if whole else [schema]):
            parts[json.dumps(part, sort_keys=True)] = part
    return next(iter(parts.values())) if len(parts) == 1 else {"allOf": [*parts.values()]}


def _neither(a: Json, b: Json) -> Json:
    """What a `not` has to hold to exclude both."""
    lists = [as_list(s.get("enum", s.get("const"))) for s in (a, b) if _is_listed(s)]
    if len(lists) == 2:
        return {"enum": [*lists[0], *lists[1]]}
    return {"anyOf": [a, b]}


def _is_listed(schema: Json) -> bool:
    return isinstance(schema, dict) and len(cast(Json, schema)) == 1 and "enum" in schema


def _find_multiple(a: float, b: float) -> Json:
    """The least number that is a multiple of both."""
    x, y = Fraction(repr(a)), Fraction(repr(b))
    scale = lcm(x.denominator, y.denominator)
    least = Fraction(lcm(int(x * scale), int(y * scale)), scale)
    return int(least) if least.denominator == 1 else float(least)


def is_contradiction(schema: Json, depth: int = 3) -> bool:
    """Does plainly no value fit? References are not followed."""
    if isinstance(schema, bool) or depth == 0:
        return schema is False
    flat = _merge_parts(cast(Mapping[str, Json], schema), depth)
    if flat is None or flat.get("enum") == []:
        return True
    options = cast(list[Json], flat["enum"] if "enum" in flat else [flat.get("const")])
    excluded = flat.get("not", False)
    if excluded in ({}, True):
        return True
    if ("enum" in flat or "const" in flat) and _is_listed(excluded):
        return set(map(identify, options)) <= set(map(identify, excluded["enum"]))
    if isinstance(excluded, dict) and cast(Json, excluded).keys() == {"type"} and "type" in flat:
        return set(as_list(flat["type"])) <= set(as_list(excluded["type"]))
    if flat.get("type") != "object" or not isinstance(flat.get("properties"), dict):
        return False
    properties = cast(dict[str, Json], flat["properties"])
    needed = [k for k in flat.get("required", ()) if k in properties]
    return any(is_contradiction(properties[key], depth - 1) for key in needed)


def _merge_parts(schema: Mapping[str, Json], depth: int) -> dict[str, Json] | None:
    """The schema and its `allOf` as one; None if a part is false."""
    flat = {k: v for k, v in schema.items() if k != "allOf"}
    for part in cast(list[Json], schema.get("allOf", [])):
        if isinstance(part, bool):
            if not part:
                return None
            continue
        inner = _merge_parts(cast(Mapping[str, Json], part), depth)
        if inner is None:
            return None
        flat, _ = merge({k: v for k, v in flat.items() if k != "allOf"}, inner)
    return flat


def as_list(value: Json) -> list[Json]:
    """The value itself if it is a list, else a list of it."""
    return cast(list[Json], value) if isinstance(value, list) else [value]


RULES: dict[str, Callable[[Json, Json], Json]] = {
    "enum": _intersect_values,
    "properties": _join,
    "required": _unite,
    "items": conjoin,
    "prefixItems": _join_tuples,
    "additionalProperties": conjoin,
    "propertyNames": conjoin,
    "patternProperties": _join,
    "dependentSchemas": _join,
    "multipleOf": _find_multiple,
    "not": _neither,
    "uniqueItems": lambda a, b: bool(a or b),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
