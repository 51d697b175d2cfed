"""Keywords that tell cases apart, as alternatives: `not`, `if`, schemas that depend on a key."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import cast

from grammars.lowering.rewrite.merging import ANNOTATIONS, CASES, is_contradiction
from grammars.lowering.rewrite.negation import MOST, Resolve, is_expressible, negate
from grammars.schema.nodes import Json

_DEPENDENT = ("dependentSchemas", "dependencies")


@dataclass(frozen=True)
class Split:
    """A schema as alternatives.

    Args:
        keywords: what was taken apart.
        base: the schema without it.
        parts: what one of has to hold beside the base.
        exact: the parts say all that the keywords say.
    """

    keywords: tuple[str, ...]
    base: Mapping[str, Json]
    parts: list[Json]
    exact: bool


def find_split(flat: Mapping[str, Json], held: Container[str], resolve: Resolve) -> Split | None:
    """The first keyword that can be taken apart, as alternatives; None if there is none.

    Args:
        flat: the schema.
        held: its keywords that stay as they are.
        resolve: follows references.
    """
    if "not" in flat and "not" not in held and not is_exclusion(flat):
        parts = negate(flat["not"], resolve)
        if len(parts) <= MOST and parts != [{"not": flat["not"]}]:
            return _split(flat, ("not",), parts)
    if "if" in flat and "if" not in held:
        found = tuple(k for k in CASES if k in flat)
        others = negate(flat["if"], resolve)
        if len(found) > 1 and len(others) < MOST:
            parts = [{"allOf": [flat["if"], flat.get("then", True)]}]
            parts += [{"allOf": [n, flat.get("else", True)]} for n in others]
            return _split(flat, found, parts)
    for keyword in _DEPENDENT:
        depending: dict[str, Json] = {} if keyword in held else flat.get(keyword, {})
        for key, schema in depending.items():
            if isinstance(schema, dict | bool):
                return _depend(flat, keyword, key, cast(Json, schema))
    return None


def is_exclusion(flat: Mapping[str, Json]) -> bool:
    """Is its `not` one of an enum?"""
    excluded = flat["not"]
    if not isinstance(excluded, dict):
        return False
    says = cast(dict[str, Json], excluded).keys() - ANNOTATIONS
    return says in ({"enum"}, {"const"})


def _split(flat: Mapping[str, Json], keywords: tuple[str, ...], parts: list[Json]) -> Split:
    base = {k: v for k, v in flat.items() if k not in keywords}
    kept = [part for part in parts if not is_contradiction({"allOf": [base, part]})]
    return Split(keywords, base, kept, is_expressible(kept))


def _depend(flat: Mapping[str, Json], keyword: str, key: str, schema: Json) -> Split:
    """Without the key, or with it and all that depends on it."""
    rest = {k: v for k, v in flat[keyword].items() if k != key}
    base = {k: v for k, v in flat.items() if k != keyword} | ({keyword: rest} if rest else {})
    present = {"type": "object", "required": [key], "allOf": [schema]}
    parts: list[Json] = [{"properties": {key: False}}, present]
    return Split((keyword,), base, parts, exact=True)


def divide(parts: list[Json], overlaps: list[list[int]], resolve: Resolve) -> list[Json] | None:
    """`oneOf` as alternatives that exclude each other; None where that cannot be said.

    Args:
        parts: its branches.
        overlaps: for each branch the indices of those that it may overlap with.
    """
    options: list[Json] = []
    for part, others in zip(parts, overlaps, strict=True):
        combined: list[Json] = [part]
        for other in others:
            pairs = [(c, n) for c in combined for n in negate(parts[other], resolve)]
            pairs = [(c, n) for c, n in pairs if not is_contradiction({"allOf": [c, n]})]
            combined = [{"allOf": [c, n]} for c, n in pairs]
            if len(combined) > MOST or not is_expressible([n for _, n in pairs]):
                return None
        options += combined
    return options if 0 < len(options) <= MOST else None
