"""Keywords about which keys an object has, as a formula over the keys.

`anyOf`, `oneOf`, `not`, `if` and dependencies are such keywords if their parts only have `required`
and the like.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import ANNOTATIONS, list_values
from grammars.schema.members import MAX_BITS, MAX_KEYS
from grammars.schema.presence import (
    FALSE,
    FREE,
    TRUE,
    All,
    Formula,
    Has,
    Not,
    Presence,
    any_of,
    find_keys,
)
from grammars.schema.subschemas import is_list, is_object

MAX_SPOKEN = 8
"""A formula over more optional keys is not enforced."""
MAX_FORMULA = 2_000  # the limit for parts of an enforced formula

_CASES = ("then", "else")
_FORMULAS = tuple(
    "allOf anyOf oneOf not if dependentRequired dependentSchemas dependencies".split()
)
_COUNTS = ("minProperties", "maxProperties")
KEYWORDS = frozenset((*_FORMULAS, *_CASES, *_COUNTS))
"""All keywords that may be about presence."""


class _OtherError(Exception):
    """A keyword is about more than which keys an object has."""


@dataclass(frozen=True)
class Claim:
    """The keys that a schema requires of objects; `others`: it allows other values, too."""

    formula: Formula
    others: bool = True


@dataclass(frozen=True)
class PresenceKeywords:
    """The keywords of a schema that are only about presence, and their conjunction; `others`: the
    value may be something other than an object."""

    keywords: frozenset[str] = frozenset()
    presence: Presence = FREE
    others: bool = True


def find_presence(flat: Mapping[str, Json]) -> PresenceKeywords:
    """Returns the presence of keys that a schema without `$ref` and `allOf` requires, as far as a
    rule of the grammar can enforce it: nothing for objects with too many keys, and no number of
    keys beside a formula."""
    if not KEYWORDS & flat.keys():
        return PresenceKeywords()
    claims: dict[str, Claim] = {}
    for keyword in _FORMULAS:
        if keyword not in flat:
            continue
        with suppress(_OtherError):
            claim = _read_keyword(keyword, flat)
            if _speaks_of_keys(claim.formula):
                claims[keyword] = claim
    if "allOf" in flat and "allOf" not in claims:  # its parts must be merged with the branches
        claims.pop("anyOf", None)
        claims.pop("oneOf", None)
    formula = _join([claim.formula for claim in claims.values()])
    spoken = set(find_keys(formula))
    required = set(flat.get("required", ()))
    declared = required.union(flat.get("properties", ()), spoken, list_names(flat) or ())
    if len(declared) > MAX_KEYS or len(spoken - required) > MAX_SPOKEN:
        return PresenceKeywords()
    keywords = set(claims)
    if "if" in claims:
        keywords.update(flat.keys() & set(_CASES))
    presence = Presence(formula)
    counts = [k for k in _COUNTS if k in flat and (k, flat[k]) != ("minProperties", 0)]
    if counts and not spoken:
        least, most = int(flat.get("minProperties", 0)), flat.get("maxProperties")
        if len(declared) + int(most or least) <= MAX_BITS:
            keywords.update(counts)
            presence = Presence(formula, least, None if most is None else int(most))
    others = all(claim.others for claim in claims.values())
    return PresenceKeywords(frozenset(keywords), presence, others)


def list_names(flat: Mapping[str, Json]) -> list[str] | None:
    """Returns the keys that `propertyNames` lists; None if it does not."""
    return _list_texts(flat.get("propertyNames"))


def _list_texts(schema: Json) -> list[str] | None:
    """Returns the texts that a schema and its alternatives list; None if they list none."""
    if not is_object(schema):
        return None
    if "enum" in schema or "const" in schema:
        return [value for value in list_values(schema) if isinstance(value, str)]
    listed: dict[str, None] = {}
    for part in schema.get("anyOf", ()):
        texts = _list_texts(part)
        if texts is None:
            return None
        listed.update(dict.fromkeys(texts))
    return list(listed) or None


def _speaks_of_keys(formula: Formula) -> bool:
    """Returns whether the formula has keys and is short enough for a rule. `oneOf` repeats each
    part for every other part, at every level."""
    with suppress(StepsError), limit_steps(MAX_FORMULA):
        return bool(find_keys(formula))
    return False


def _read_keyword(keyword: str, flat: Mapping[str, Json]) -> Claim:
    """Returns the claim of one keyword, if it is only about presence."""
    value: Json = flat[keyword]
    match keyword:
        case "required":
            return Claim(_join([Has(key) for key in value]))
        case "properties":
            return _join_claims([_read_member(k, v) for k, v in value.items()])
        case "allOf":
            return _join_claims(list(map(_read, value)))
        case "anyOf":
            claims = list(map(_read, value))
            formula = any_of([claim.formula for claim in claims])
            return Claim(formula, any(claim.others for claim in claims))
        case "oneOf":
            return _read_one_of(list(map(_read, value)))
        case "not":
            claim = _read(value)
            return Claim(_deny(claim.formula), not claim.others)
        case "if":
            return _read_cases(value, flat.get("then", True), flat.get("else", True))
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return _join_claims([_read_dependency(k, v) for k, v in value.items()])
        case _:
            raise _OtherError


def _read(schema: Json) -> Claim:
    spend()
    if schema is True:
        return Claim(TRUE)
    if schema is False:
        return Claim(FALSE, others=False)
    claims: list[Claim] = []
    for keyword in schema:  # in order, so that the grammar is always the same
        if keyword in ANNOTATIONS or keyword in _CASES:
            continue
        if keyword == "type" and schema["type"] == "object":
            claims.append(Claim(TRUE, others=False))
        else:
            claims.append(_read_keyword(keyword, schema))
    return _join_claims(claims)


def _read_member(key: str, schema: Json) -> Claim:
    """Returns the claim of a property whose schema is false; others claim more."""
    if schema is False or schema == {"not": {}}:
        return Claim(Not(Has(key)))
    raise _OtherError


def _read_dependency(key: str, value: Json) -> Claim:
    if is_list(value):
        return Claim(_imply(Has(key), _join([Has(needed) for needed in value])))
    return Claim(_imply(Has(key), _read(value).formula))


def _read_one_of(claims: Sequence[Claim]) -> Claim:
    spend(len(claims) ** 2)
    alone: list[Formula] = []
    for i, claim in enumerate(claims):
        others = [_deny(other.formula) for j, other in enumerate(claims) if j != i]
        alone.append(_join([claim.formula, *others]))
    admitting = [claim for claim in claims if claim.others]
    return Claim(any_of(alone), len(admitting) == 1)


def _read_cases(condition: Json, then: Json, otherwise: Json) -> Claim:
    case, yes, no = _read(condition), _read(then), _read(otherwise)
    formula = _join([_imply(case.formula, yes.formula), _imply(_deny(case.formula), no.formula)])
    return Claim(formula, yes.others if case.others else no.others)


def _join_claims(claims: Sequence[Claim]) -> Claim:
    formula = _join([claim.formula for claim in claims])
    return Claim(formula, all(claim.others for claim in claims))


def _join(parts: Sequence[Formula]) -> Formula:
    if len(parts) == 1:
        return parts[0]
    return All(tuple(parts))


def _deny(part: Formula) -> Formula:
    if isinstance(part, Not):
        return part.part
    return Not(part)


def _imply(a: Formula, b: Formula) -> Formula:
    return Not(All((a, _deny(b))))
