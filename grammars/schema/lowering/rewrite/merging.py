"""Merges two schemas into one flat schema with the meaning of both, as far as possible."""

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import lcm

from grammars.limits.steps import WRITTEN, has_steps, spend
from grammars.regex.ecma import read_pattern, translate
from grammars.regex.texts import Texts
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import CASES, EXPRESSIBLE, as_list, is_asserting, read_bounds
from grammars.schema.nodes import are_same, identify
from grammars.schema.subschemas import is_object, omit

CONTENT = frozenset(["contentEncoding", "contentMediaType"])
"""Asserted in drafts 6 and 7, annotations later."""
_ALSO = r"^(?=[\s\S]*(?:"  # the beginning of a joined pattern
_REFERENCE = re.compile(r"\\[1-9k]|\(\?P=")
_MAX_PATTERN_STEPS = 3_000
_KEPT_STEPS = 30_000  # that are left for the rest of a schema
_MAX_PATTERN_LENGTH = 1_000
"""Characters of a joined pattern. Each pattern that is joined reads those before it again."""


def merge(a: Mapping[str, Json], b: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """Returns the conjunction of two flat schemas, and the keywords of `b` that could not be
    merged: if there are any, the merged schema allows more values than both do."""
    spend(len(a) + len(b))
    a, b = _state_bounds(a), _state_bounds(b)
    a, b = _declare(a, b), _declare(b, a)
    a, b = _lengthen(a, b), _lengthen(b, a)
    if "if" in a and "if" in b:
        cases = {keyword: b[keyword] for keyword in b if keyword in CASES}
        a = {**a, "allOf": [*a.get("allOf", []), cases]}
        b = omit(b, *CASES)
    merged = dict(a)
    left_out = _find_changed(a, b) + _find_changed(b, a)
    for keyword, value in b.items():
        if keyword not in merged:
            merged[keyword] = value
        elif not (is_asserting(keyword) or keyword in CONTENT):
            pass  # an annotation, or an unknown keyword: it excludes no value
        elif are_same(merged[keyword], value):
            pass
        elif keyword in ("anyOf", "oneOf"):
            merged["allOf"] = [*merged.get("allOf", []), {keyword: value}]
        elif keyword == "const":
            if identify(merged[keyword]) != identify(value):
                merged["enum"] = []
        elif keyword == "type":
            types = _intersect_types(as_list(merged[keyword]), as_list(value))
            if types:
                merged["type"] = types
            else:
                merged["enum"] = []
        elif keyword == "items" and (isinstance(value, list) or isinstance(a["items"], list)):
            left_out.append(keyword)
        elif keyword == "pattern":
            both = join_patterns(merged[keyword], value)
            if both is None:
                left_out.append(keyword)
            else:
                merged[keyword] = both
        elif keyword in RULES:
            merged[keyword] = RULES[keyword](merged[keyword], value)
        else:
            left_out.append(keyword)
    return merged, left_out


def conjoin(a: Json, b: Json) -> Json:
    """Returns a schema for the values that both allow: their `allOf`. Each part occurs once in it,
    so that recursive conjunctions end."""
    if a is False or b is False:
        return False
    parts: dict[str, Json] = {}
    for schema in (a, b):
        conjoined: list[Json] = [schema]
        if is_object(schema) and schema.keys() == {"allOf"}:
            conjoined = schema["allOf"]
        for part in conjoined:
            name = json.dumps(part, sort_keys=True)
            spend(1 + len(name) // WRITTEN)
            parts[name] = part
    if len(parts) == 1:
        return next(iter(parts.values()))
    return {"allOf": [*parts.values()]}


def _state_bounds(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns the schema with numbers for exclusive bounds, and no `then` without an `if`."""
    bounds = read_bounds(schema)
    stated: dict[str, Json] = {}
    for keyword, value in schema.items():
        is_case_of_none = keyword in CASES and "if" not in schema
        is_flag = keyword in EXPRESSIBLE["number"] and keyword not in bounds
        if not is_case_of_none and not is_flag:
            stated[keyword] = value
    return stated | bounds


def _declare(a: Mapping[str, Json], b: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns `a` with the properties that only `b` declares, which are additional in `a`."""
    rest = a.get("additionalProperties", True)
    own: dict[str, Json] = a.get("properties", {})
    patterns: dict[str, Json] = a.get("patternProperties", {})
    if rest is True:
        return a
    sets: list[tuple[Texts, Json]] = []
    for pattern, value in patterns.items():
        expression = translate(pattern)
        if expression is None or Texts((expression,)).automaton is None:
            return a
        sets.append((Texts((expression,)), value))
    others: dict[str, Json] = {}
    for key in b.get("properties", ()):
        if key not in own:
            matching = [value for texts, value in sets if texts.accepts(key)]
            others[key] = reduce(conjoin, matching or [rest])
    if not others:
        return a
    return {**a, "properties": own | others}


def _lengthen(a: Mapping[str, Json], b: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns `a` with a tuple as long as the longer one of both."""
    if isinstance(a.get("items"), list) or isinstance(b.get("items"), list):
        return a
    own: list[Json] = a.get("prefixItems", [])
    missing = len(b.get("prefixItems", [])) - len(own)
    if missing <= 0:
        return a
    return {**a, "prefixItems": own + [a.get("items", True)] * missing}


def _find_changed(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[str]:
    """Keywords of `a` whose meaning would change beside the keywords of `b`."""
    found: list[str] = []
    if a.get("additionalProperties", True) is not True:
        for keyword in ("properties", "patternProperties"):
            if set(b.get(keyword, ())) - set(a.get(keyword, ())):
                found.append("additionalProperties")
                break
    if "items" in a and isinstance(b.get("items"), list):
        found.append("items")
    return found


def _intersect_types(a: list[Json], b: list[Json]) -> list[Json]:
    both = [name for name in a if name in b]
    if "integer" not in both and "number" not in both:
        for some, others in ((a, b), (b, a)):
            if "integer" in some and "number" in others:
                both.append("integer")
    return both


def _intersect_values(a: list[Json], b: list[Json]) -> Json:
    spend(len(a) + len(b))
    kept = set(map(identify, b))
    return [value for value in a if identify(value) in kept]


def _join_schemas(a: dict[str, Json], b: dict[str, Json]) -> Json:
    """Returns the schemas by name; those with the same name are conjoined."""
    spend(len(a) + len(b))
    joined = dict(a)
    for name, schema in b.items():
        if name in a:
            schema = conjoin(a[name], schema)
        joined[name] = schema
    return joined


def _join_names(a: list[str], b: list[str]) -> Json:
    spend(len(a) + len(b))
    return list(dict.fromkeys([*a, *b]))


def _exclude_both(a: Json, b: Json) -> Json:
    if is_listing(a) and is_listing(b):
        return {"enum": [*as_list(a["enum"]), *as_list(b["enum"])]}
    return {"anyOf": [a, b]}


def is_listing(schema: Json) -> bool:
    """Returns whether the schema is only an `enum`."""
    return is_object(schema) and schema.keys() == {"enum"}


def join_patterns(a: str, b: str) -> str | None:
    """Returns a pattern for the texts that match both; None if there is none that is exact."""
    one, other = read_pattern(a), read_pattern(b)
    if one is None or other is None or one.is_unicode != other.is_unicode:
        return None
    if any(map(_REFERENCE.search, (a, b))):  # groups have other numbers in a joined pattern
        return None
    joined = rf"{_ALSO}{b}))[\s\S]*(?:{a})"
    if a.startswith(_ALSO):
        joined = f"{_ALSO}{b})){a[1:]}"
    return _accept(joined)


def negate_pattern(pattern: str) -> str | None:
    """Returns a pattern for the texts that do not match; None if there is none that is exact."""
    return _accept(rf"^(?![\s\S]*(?:{pattern}))")


def _accept(pattern: str) -> str | None:
    if len(pattern) > _MAX_PATTERN_LENGTH or not has_steps(_KEPT_STEPS):
        return None
    spend(1 + len(pattern) // WRITTEN)
    regex = translate(pattern)
    # llguidance has to look for a text, too, and its work for that is limited.
    if regex is None or Texts((regex,)).has_text(_MAX_PATTERN_STEPS) is None:
        return None
    return pattern


def _find_multiple(a: float, b: float) -> Json:
    """Returns the least common multiple of both numbers."""
    x, y = Fraction(repr(a)), Fraction(repr(b))
    scale = lcm(x.denominator, y.denominator)
    least = Fraction(lcm(int(x * scale), int(y * scale)), scale)
    if least.denominator == 1:
        return int(least)
    return float(least)


RULES: dict[str, Callable[[Json, Json], Json]] = {
    "enum": _intersect_values,
    "properties": _join_schemas,
    "required": _join_names,
    "items": conjoin,
    "prefixItems": lambda a, b: [conjoin(x, y) for x, y in zip(a, b, strict=True)],
    "additionalProperties": conjoin,
    "propertyNames": conjoin,
    "patternProperties": _join_schemas,
    "dependentSchemas": _join_schemas,
    "multipleOf": _find_multiple,
    "not": _exclude_both,
    "uniqueItems": lambda a, b: bool(a or b),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""For each keyword: how to combine its two values."""
