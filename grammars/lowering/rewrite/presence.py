"""Keywords that speak only of which keys an object has, as a formula over them.

`anyOf`, `oneOf`, `not`, `if` and those for dependencies are such keywords where nothing but
`required` and the like stands in their parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from grammars.lowering.rewrite.merging import ANNOTATIONS
from grammars.schema.members import MOST_BITS, MOST_KEYS
from grammars.schema.nodes import Json
from grammars.schema.presence import (
    FALSE,
    TRUE,
    All,
    Formula,
    Has,
    Not,
    Presence,
    any_of,
    find_keys,
    find_wanted,
)

MOST_SPOKEN = 8
"""A formula over more optional keys is not held."""

_CASES = ("then", "else")
_FORMULAS = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
)
_COUNTS = ("minProperties", "maxProperties")
KEYWORDS = frozenset((*_FORMULAS, *_CASES, *_COUNTS))
"""All that may speak of presence."""


@dataclass(frozen=True)
class Claim:
    """What a schema says of the keys of objects, and whether it admits anything else."""

    formula: Formula
    others: bool = True


@dataclass(frozen=True)
class Found:
    """What the keywords of a schema say together.

    Args:
        keywords: those that speak of presence only.
        wanted: keys that are declared by being asked for.
        spoken: all keys that they speak of.
        others: may it be anything else than an object?
    """

    keywords: frozenset[str]
    presence: Presence
    wanted: tuple[str, ...]
    spoken: tuple[str, ...]
    others: bool


def find_presence(flat: Mapping[str, Json]) -> Found:
    """What a schema without `$ref` and `allOf` says of the presence of keys, as far as a rule can
    hold it: nothing of objects of many keys, and no number of keys beside a formula."""
    nothing = Found(frozenset(), Presence(), (), (), True)
    if not KEYWORDS & flat.keys():
        return nothing
    required = cast(list[str], flat.get("required", []))
    read = ((k, _read_keyword(k, flat)) for k in _FORMULAS)
    claims = {k: claim for k, claim in read if claim is not None and find_keys(claim.formula)}
    if "allOf" in flat and "allOf" not in claims:  # what stands there has to meet the branches
        claims = {k: claim for k, claim in claims.items() if k not in ("anyOf", "oneOf")}
    formula = _join([claim.formula for claim in claims.values()])
    spoken = find_keys(formula)
    declared = {*cast(Mapping[str, Json], flat.get("properties", {})), *required, *spoken}
    if len(declared) > MOST_KEYS or len({*spoken} - {*required}) > MOST_SPOKEN:
        return nothing
    keywords = {*claims, *(k for k in _CASES if "if" in claims and k in flat)}
    least, most = int(flat.get("minProperties", 0)), flat.get("maxProperties")
    counts = [k for k in _COUNTS if k in flat and (k, flat[k]) != ("minProperties", 0)]
    if counts and not spoken and len(declared) + int(most or least) <= MOST_BITS:
        keywords |= {*counts}
        presence = Presence(formula, least, None if most is None else int(most))
    else:
        presence = Presence(formula)
    others = all(claim.others for claim in claims.values())
    return Found(frozenset(keywords), presence, find_wanted(formula), spoken, others)


def _read_keyword(keyword: str, flat: Mapping[str, Json]) -> Claim | None:
    """What one keyword says; None if it is not there, or says more than what is present."""
    if keyword not in flat:
        return None
    value: Json = flat[keyword]
    match keyword:
        case "required":
            return Claim(_join([Has(key) for key in value]))
        case "properties":
            return _join_claims([_read_member(k, v) for k, v in value.items()])
        case "allOf":
            return _join_claims(list(map(_read, value)))
        case "anyOf":
            return _read_some(value, exactly=False)
        case "oneOf":
            return _read_some(value, exactly=True)
        case "not":
            claim = _read(value)
            return claim and Claim(_deny(claim.formula), not claim.others)
        case "if":
            return _read_cases(value, flat.get("then", True), flat.get("else", True))
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return _join_claims([_depend(k, v) for k, v in value.items()])
        case _:
            return None


def _read(schema: Json) -> Claim | None:
    """What a schema says; None if it says more than what is present."""
    if isinstance(schema, bool):
        return Claim(TRUE if schema else FALSE, schema)
    flat = cast(Mapping[str, Json], schema)
    claims: list[Claim | None] = []
    for keyword in flat.keys() - ANNOTATIONS - {*_CASES}:
        if keyword == "type" and flat["type"] == "object":
            claims.append(Claim(TRUE, others=False))
        else:
            claims.append(_read_keyword(keyword, flat))
    return _join_claims(claims)


def _read_member(key: str, schema: Json) -> Claim | None:
    """A property that may not be there; another one would be declared by this."""
    return Claim(Not(Has(key))) if schema is False or schema == {"not": {}} else None


def _depend(key: str, value: Json) -> Claim | None:
    """What has to be so where that key is present."""
    if isinstance(value, list):
        return Claim(_imply(Has(key), _join([Has(k) for k in cast(list[str], value)])))
    claim = _read(value)
    return claim and Claim(_imply(Has(key), claim.formula))


def _read_some(parts: list[Json], *, exactly: bool) -> Claim | None:
    """One of these at least, or exactly one."""
    claims = [claim for claim in map(_read, parts) if claim is not None]
    if len(claims) < len(parts):
        return None
    formulas, count = [claim.formula for claim in claims], sum(c.others for c in claims)
    if not exactly:
        return Claim(any_of(formulas), count > 0)
    alone = [
        _join([one, *(_deny(other) for j, other in enumerate(formulas) if j != i)])
        for i, one in enumerate(formulas)
    ]
    return Claim(any_of(alone), count == 1)


def _read_cases(condition: Json, then: Json, otherwise: Json) -> Claim | None:
    told, yes, no = _read(condition), _read(then), _read(otherwise)
    if told is None or yes is None or no is None:
        return None
    formula = _join([_imply(told.formula, yes.formula), _imply(_deny(told.formula), no.formula)])
    return Claim(formula, yes.others if told.others else no.others)


def _join_claims(claims: Sequence[Claim | None]) -> Claim | None:
    known = [claim for claim in claims if claim is not None]
    if len(known) < len(claims):
        return None
    return Claim(_join([c.formula for c in known]), all(c.others for c in known))


def _join(parts: Sequence[Formula]) -> Formula:
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _deny(part: Formula) -> Formula:
    return part.part if isinstance(part, Not) else Not(part)


def _imply(a: Formula, b: Formula) -> Formula:
    return Not(All((a, _deny(b))))
