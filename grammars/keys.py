"""Which keys an object may have, and what their values are: `properties`, `patternProperties`,
`additionalProperties` and `propertyNames` as declared keys and one schema for all others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import cast

from grammars.automaton import compile_regexes
from grammars.merging import conjoin
from grammars.patterns import translate
from grammars.presence_keywords import Found
from grammars.schema import Json

MOST_NAMES = 200
"""Of more names than these in `propertyNames` no properties are made."""

Validate = Callable[[Json], Callable[[Json], bool]]
"""Gives a schema's test of whether a value fits."""


@dataclass(frozen=True)
class Keys:
    """The members of an object.

    Args:
        declared: schemas by key.
        rest: the schema of any other key.
        loose: the keywords that are not held, each with the reason.
    """

    declared: dict[str, Json]
    rest: Json
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
        return Keys(declared, False, {})
    return _find_rest(declared, patterns, rest, names)


def _find_rest(
    declared: dict[str, Json], patterns: Mapping[str, Json], rest: Json, names: Json
) -> Keys:
    """What holds for keys that are not declared."""
    loose: dict[str, str] = {}
    wide = [value for pattern, value in patterns.items() if is_universal(pattern)]
    if wide:
        rest = reduce(conjoin, wide)
    elif patterns:
        loose["additionalProperties"] = "beside patternProperties"
        rest = {"anyOf": [*patterns.values(), rest]}
    if len(wide) < len(patterns):
        loose["patternProperties"] = "which keys match is not held by the mask"
    if rest is not False and names not in (True, {}, {"type": "string"}):
        loose["propertyNames"] = "not held by the mask"
    return Keys(declared, rest, loose)


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
    others = compile_regexes((_TEXTS,), (expression,))
    return others is not None and others.is_empty()


_TEXTS = "(?s:.*)"
