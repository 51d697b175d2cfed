"""Which keys an object may have, and what their values are: `properties`, `patternProperties`,
`additionalProperties` and `propertyNames` as declared keys and sets of others."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import cast

from grammars.lowering.rewrite.merging import ANNOTATIONS, as_list, conjoin
from grammars.lowering.rewrite.presence import Found
from grammars.regex.ecma import translate
from grammars.regex.string_formats import FORMATS
from grammars.regex.texts import FREE, Texts, match_words
from grammars.schema.nodes import Json

MOST_NAMES = 200
"""Of more names than these in `propertyNames` no properties are made."""

MOST_PARTS = 16
"""Into more sets than these undeclared keys are not told apart."""

Validate = Callable[[Json], Callable[[Json], bool]]
"""Gives a schema's test of whether a value fits."""


@dataclass(frozen=True)
class Part:
    """Undeclared keys, and the schema of their values.

    Args:
        where: the patterns that these keys match.
    """

    schema: Json
    keys: Texts
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Keys:
    """The members of an object.

    Args:
        declared: schemas by key.
        others: the other keys.
        loose: the keywords that are not held, each with the reason.
    """

    declared: dict[str, Json]
    others: list[Part]
    loose: dict[str, str]


def read_keys(flat: Mapping[str, Json], rest: Json, found: Found, validate: Validate) -> Keys:
    """The keys of a flat schema.

    Args:
        flat: the schema.
        rest: what holds for keys that neither `properties` nor `patternProperties` speak of.
        found: what its keywords say of the presence of keys.
        validate: the validator.
    """
    patterns = cast(Mapping[str, Json], flat.get("patternProperties", {}))
    names = flat.get("propertyNames", True)
    tests = {pattern: validate({"pattern": pattern}) for pattern in patterns}

    def match(key: str) -> list[Json]:
        return [patterns[pattern] for pattern, fits in tests.items() if fits(key)]

    declared = {
        key: reduce(conjoin, match(key), schema)
        for key, schema in cast(Mapping[str, Json], flat.get("properties", {})).items()
    }
    spoken = {"additionalProperties", "patternProperties"} & set(flat)
    listed = _list_names(names)
    is_closed = rest is False and not patterns
    asked = [*flat.get("required", []), *(found.wanted if is_closed else found.spoken)]
    # a key that is only asked for is declared, too
    for key in (*asked, *(listed or ())):
        if key not in declared:
            open_value = rest if spoken or key in (listed or ()) else True
            declared[key] = reduce(conjoin, match(key) or [open_value])
    if names is not True:
        is_name = validate(names)
        declared = {k: v if is_name(k) else False for k, v in declared.items()}
    if listed is not None:
        return Keys(declared, [], {})
    return _divide(declared, patterns, rest, names)


def _divide(
    declared: dict[str, Json], patterns: Mapping[str, Json], rest: Json, names: Json
) -> Keys:
    """Keys that are not declared, by the patterns that they match."""
    limits, loose = read_names(names), dict[str, str]()
    if limits is None and (patterns or rest is not False):
        loose["propertyNames"] = "not held by the mask"
    taken = (limits or FREE).both(Texts((), match_words(list(declared))))
    parts = _part(patterns, rest, limits or FREE, taken)
    if parts is not None:
        return Keys(declared, parts, loose)
    loose["patternProperties"] = "which keys match is not held by the mask"
    wide = [value for pattern, value in patterns.items() if is_universal(pattern)]
    if wide:
        rest = reduce(conjoin, wide)
    else:
        loose["additionalProperties"] = "beside patternProperties"
        rest = {"anyOf": [*patterns.values(), rest]}
    return Keys(declared, [Part(rest, limits or FREE)], loose)


def _part(
    patterns: Mapping[str, Json], rest: Json, limits: Texts, taken: Texts
) -> list[Part] | None:
    """The sets of keys that match the same patterns; None where they cannot be told apart.

    Args:
        taken: the limits, and no declared key.
    """
    parts = [Part(rest, limits)]
    for pattern, value in patterns.items():
        expression = translate(pattern)
        if expression is None or Texts((expression,)).automaton is None or len(parts) > MOST_PARTS:
            return None
        parts = [p for part in parts for p in _cut(part, pattern, expression, value, taken)]
    ends = (part.keys.both(taken).extend("") for part in parts)
    return None if None in ends else parts


def _cut(part: Part, pattern: str, expression: str, value: Json, taken: Texts) -> Iterator[Part]:
    """The keys that match a pattern, and those that do not, as far as there are any."""
    inside, outside = Texts((expression,)), Texts((), (expression,))
    matches, others = (not part.keys.both(t).both(taken).is_empty() for t in (inside, outside))
    if matches:
        schema = conjoin(part.schema, value) if part.where else value
        keys = part.keys.both(inside) if others else part.keys
        yield Part(schema, keys, (*part.where, pattern))
    if others:
        yield replace(part, keys=part.keys.both(outside)) if matches else part


def read_names(names: Json) -> Texts | None:
    """The texts that `propertyNames` admits; None where that cannot be said."""
    if isinstance(names, bool):
        return FREE if names else None
    said = {k: v for k, v in cast(dict[str, Json], names).items() if k not in ANNOTATIONS}
    texts = FREE
    for keyword, value in said.items():
        match keyword:
            case "pattern":
                expression = translate(value)
            case "format":
                expression = FORMATS.get(value)
            case "minLength":
                expression = f"(?s:.{{{int(value)},}})"
            case "maxLength":
                expression = f"(?s:.{{0,{int(value)}}})"
            case "type" if "string" in as_list(value):
                continue
            case _:
                expression = None
        if expression is None:
            return None
        texts = texts.both(Texts((expression,)))
    return None if texts.automaton is None else texts


def _list_names(names: Json) -> list[str] | None:
    """The keys that `propertyNames` lists; None if it does not."""
    if not isinstance(names, dict) or not {"enum", "const"} & set(cast(Json, names)):
        return None
    values = cast(list[Json], names["enum"] if "enum" in names else [names["const"]])
    listed = [v for v in values if isinstance(v, str)]
    return listed if len(listed) <= MOST_NAMES else None


@lru_cache(maxsize=512)
def is_universal(pattern: str) -> bool:
    """Does every text match?"""
    expression = translate(pattern)
    if expression is None:
        return False
    return Texts((), (expression,)).is_empty()
