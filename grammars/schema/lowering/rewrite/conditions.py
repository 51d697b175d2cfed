"""Writes keywords that distinguish cases as alternatives: `not`, `if`, schemas that depend on a
key, and `oneOf`."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import product

from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import CASES, as_list, drop_annotations, list_values
from grammars.schema.lowering.rewrite.merging import is_listing, merge
from grammars.schema.lowering.rewrite.negation import (
    MAX_ALTERNATIVES,
    Resolve,
    is_expressible,
    negate,
)
from grammars.schema.nodes import identify
from grammars.schema.subschemas import is_object, omit


@dataclass(frozen=True)
class Split:
    """A schema as alternatives, each to be combined with the base: the schema without the keywords
    that were replaced; `exact`: the parts are equivalent to these."""

    keywords: tuple[str, ...]
    base: Mapping[str, Json]
    parts: list[Json]
    exact: bool


def find_split(
    flat: Mapping[str, Json], untouched: Container[str], resolve: Resolve
) -> Split | None:
    """Replaces the first keyword, except untouched ones, that has alternatives; None: no such."""
    if "not" in flat and "not" not in untouched and not is_exclusion(flat):
        parts = negate(flat["not"], resolve)
        if len(parts) <= MAX_ALTERNATIVES and parts != [{"not": flat["not"]}]:
            return _split(flat, ("not",), parts)
    if "if" in flat and "if" not in untouched:
        cases = tuple(k for k in CASES if k in flat)
        otherwise = negate(flat["if"], resolve)
        if len(cases) > 1 and len(otherwise) < MAX_ALTERNATIVES:
            parts: list[Json] = [{"allOf": [flat["if"], flat.get("then", True)]}]
            parts += [{"allOf": [option, flat.get("else", True)]} for option in otherwise]
            return _split(flat, cases, parts)
    for keyword in ("dependentSchemas", "dependencies"):
        if keyword in flat and keyword not in untouched:
            for key, schema in flat[keyword].items():
                if isinstance(schema, dict | bool):  # `presence` reads lists of keys
                    return _split_dependency(flat, keyword, key)
    return None


def is_exclusion(flat: Mapping[str, Json]) -> bool:
    """Returns whether its `not` only has an enum."""
    excluded = flat["not"]
    return is_object(excluded) and drop_annotations(excluded).keys() in ({"enum"}, {"const"})


def divide(
    parts: list[Json], overlaps: list[list[int]], resolve: Resolve
) -> tuple[list[Json], bool] | None:
    """Writes the branches of `oneOf` as alternatives that exclude each other; None if that cannot
    be expressed. `overlaps`: for each branch, the indexes of those that may share a value with it.
    Returns also whether the alternatives have all values. If not, a branch has fewer keys: none
    that another one requires with a value of which the opposite cannot be expressed."""
    alternatives: list[Json] = []
    is_whole = True
    for part, others in zip(parts, overlaps, strict=True):
        combined: list[Json] = [part]
        for other in others:
            pairs: list[Json] = []
            missing, dropped = set[str](), set[str]()
            for pair in product(combined, negate(parts[other], resolve)):
                both: dict[str, Json] = {"allOf": [*pair]}
                if is_contradiction(both):
                    continue
                if is_expressible(pair[1]):
                    pairs.append(both)
                    missing |= _list_excluded(pair[1])
                elif required := pair[1].get("required"):
                    dropped.update(required)
                else:
                    return None
            if len(pairs) > MAX_ALTERNATIVES or dropped - missing:
                return None
            is_whole = is_whole and not dropped
            combined = pairs
        alternatives += combined
    if not 0 < len(alternatives) <= MAX_ALTERNATIVES:
        return None
    return alternatives, is_whole


def _list_excluded(schema: Json) -> set[str]:
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(properties):
        return set()
    return {key for key, value in properties.items() if value is False}


def _split(flat: Mapping[str, Json], keywords: tuple[str, ...], parts: list[Json]) -> Split:
    base = omit(flat, *keywords)
    kept = [part for part in parts if not is_contradiction({"allOf": [base, part]})]
    return Split(keywords, base, kept, exact=is_expressible(kept))


def _split_dependency(flat: Mapping[str, Json], keyword: str, key: str) -> Split:
    """Returns two alternatives: without the key, or with it and everything that depends on it."""
    base = omit(flat, keyword)
    others = omit(flat[keyword], key)
    if others:
        base[keyword] = others
    absent: Json = {"properties": {key: False}}
    present: Json = {"type": "object", "required": [key], "allOf": [flat[keyword][key]]}
    return Split((keyword,), base, [absent, present], exact=True)


def is_contradiction(schema: Json, depth: int = 3) -> bool:
    """Returns whether clearly no value fits. References are not followed."""
    spend()
    if isinstance(schema, bool) or depth == 0:
        return schema is False
    flat = _merge_parts(schema)
    if flat is None or flat.get("enum") == []:
        return True
    excluded = flat.get("not", False)
    if excluded in ({}, True):
        return True
    if is_listing(excluded) and ("enum" in flat or "const" in flat):
        return set(map(identify, list_values(flat))) <= set(map(identify, excluded["enum"]))
    if is_object(excluded) and excluded.keys() == {"type"} and "type" in flat:
        return set(as_list(flat["type"])) <= set(as_list(excluded["type"]))
    properties = flat.get("properties")
    if flat.get("type") != "object" or not is_object(properties):
        return False
    for key in flat.get("required", ()):
        if key in properties and is_contradiction(properties[key], depth - 1):
            return True
    return False


def _merge_parts(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """Merges the schema and its `allOf`; None if a part is false."""
    flat = omit(schema, "allOf")
    for part in schema.get("allOf", []):
        if isinstance(part, bool):
            if not part:
                return None
            continue
        inner = _merge_parts(part)
        if inner is None:
            return None
        flat, _ = merge(omit(flat, "allOf"), inner)
    return flat
