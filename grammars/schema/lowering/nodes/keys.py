"""The keys that an object may have, and the schemas of their values: reads `properties`,
`patternProperties`, `additionalProperties` and `propertyNames` as declared keys and sets of other
keys."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.regex.ecma import translate
from grammars.regex.string_formats import ASSERTED, FORMATS
from grammars.regex.texts import FREE, Texts, match_words
from grammars.regex.time_bounds import LOWER, NOW, UPPER, express_bounds, is_bound
from grammars.schema.json_values import Json
from grammars.schema.lowering.keywords import as_list, drop_annotations
from grammars.schema.lowering.rewrite.merging import conjoin
from grammars.schema.lowering.rewrite.presence import PresenceKeywords, list_names
from grammars.schema.presence import find_keys, find_wanted
from grammars.schema.subschemas import find_keywords, is_object

MAX_NAMES = 200
"""The limit for names in `propertyNames` that become properties."""

MAX_SETS = 16
"""The limit for sets of undeclared keys."""

MAX_NAME_STEPS = 10_000
"""Steps of reading the `propertyNames` of one object, at most."""

MAX_DIVISION_STEPS = 20_000
"""Steps of dividing the undeclared keys of one object, at most."""

Validate = Callable[[Json], Callable[[Json], bool]]
"""Makes a function that tests whether a value fits a schema."""


@dataclass(frozen=True)
class KeySet:
    """Undeclared keys, the schema of their values, and the `patternProperties` that they match."""

    schema: Json
    keys: Texts
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObjectKeys:
    """The keys of an object, and the keywords that the mask cannot enforce, with the reasons."""

    declared: dict[str, Json]
    others: list[KeySet]
    checked: dict[str, str] = field(default_factory=dict[str, str])


def read_keys(
    flat: Mapping[str, Json], rest: Json, *, present: PresenceKeywords, validate: Validate
) -> ObjectKeys:
    """Finds the keys of a flat schema. `rest` is the schema for keys to which neither `properties`
    nor `patternProperties` apply, `present` its keywords that require keys."""
    patterns: Mapping[str, Json] = flat.get("patternProperties", {})
    names = flat.get("propertyNames", True)
    tests = {pattern: validate({"pattern": pattern}) for pattern in patterns}

    def find_matching(key: str) -> list[Json]:
        spend(1 + len(tests))
        return [patterns[pattern] for pattern, matches in tests.items() if matches(key)]

    declared: dict[str, Json] = {}
    for key, schema in flat.get("properties", {}).items():
        declared[key] = reduce(conjoin, find_matching(key), schema)
    listed = list_names(flat)
    if listed is not None and len(listed) > MAX_NAMES:
        listed = None
    named: list[str] = [*flat.get("required", [])]  # a required key counts as declared
    if rest is False and not patterns:  # what the formula requires counts as declared, too
        named += find_wanted(present.presence.formula)
    else:
        named += find_keys(present.presence.formula)
    says_rest = "additionalProperties" in flat or "patternProperties" in flat
    for key in (*named, *(listed or ())):
        if key in declared:
            continue
        others: Json = True
        if says_rest or key in (listed or ()):
            others = rest
        declared[key] = reduce(conjoin, find_matching(key) or [others])
    if names is not True:
        is_name = validate(names)
        for key in declared:
            if not is_name(key):
                declared[key] = False
    if listed is not None or (rest is False and not patterns):
        return ObjectKeys(declared, [])
    return _find_others(declared, rest, patterns=patterns, names=names)


def _find_others(
    declared: dict[str, Json], rest: Json, *, patterns: Mapping[str, Json], names: Json
) -> ObjectKeys:
    """Groups the undeclared keys by the patterns that they match."""
    checked: dict[str, str] = {}
    limits = None
    with suppress(StepsError, _UnreadNamesError), limit_steps(MAX_NAME_STEPS):
        limits = read_names(names)
    if limits is None:
        limits = FREE
        if patterns or rest is not False:
            checked["propertyNames"] = "not enforced by the mask"
    undeclared = limits.intersect(Texts((), match_words(list(declared))))
    sets = None
    with suppress(StepsError), limit_steps(MAX_DIVISION_STEPS):
        sets = _divide(patterns, KeySet(rest, limits), undeclared)
    if sets is not None:
        return ObjectKeys(declared, sets, checked)
    checked["patternProperties"] = "which keys match is not enforced by the mask"
    universal = [value for pattern, value in patterns.items() if is_universal(pattern)]
    if universal:
        rest = reduce(conjoin, universal)
    else:
        checked["additionalProperties"] = "next to patternProperties"
        rest = {"anyOf": [*patterns.values(), rest]}
    return ObjectKeys(declared, [KeySet(rest, limits)], checked)


def _divide(patterns: Mapping[str, Json], rest: KeySet, undeclared: Texts) -> list[KeySet] | None:
    """Returns the sets of keys that match the same patterns; None if they cannot be computed."""
    sets = [rest]
    for pattern, value in patterns.items():
        regex = translate(pattern)
        if regex is None or Texts((regex,)).automaton is None or len(sets) > MAX_SETS:
            return None
        matching = KeySet(value, Texts((regex,)), (pattern,))
        parts = [_cut(some, matching, undeclared) for some in sets]
        sets = list(chain.from_iterable(parts))
    for some in sets:
        if some.keys.intersect(undeclared).extend("") is None:
            return None
    return sets


def _cut(some: KeySet, matching: KeySet, undeclared: Texts) -> Iterator[KeySet]:
    """Splits a set into keys that match a pattern and keys that do not; empty sets are left out."""
    inside = some.keys.intersect(matching.keys)
    outside = some.keys.intersect(Texts((), matching.keys.parts))
    has_matches = not inside.intersect(undeclared).is_empty()
    has_others = not outside.intersect(undeclared).is_empty()
    if has_matches:
        schema = matching.schema
        if some.patterns:
            schema = conjoin(some.schema, schema)
        keys = inside if has_others else some.keys
        yield KeySet(schema, keys, some.patterns + matching.patterns)
    if has_others:
        yield replace(some, keys=outside) if has_matches else some


class _UnreadNamesError(Exception):
    """A schema of keys that no expression can say."""


def read_names(names: Json) -> Texts:
    """Returns the texts that `propertyNames` allows, without `$ref` and `allOf`."""
    if names is True:
        return FREE
    if not is_object(names):
        raise _UnreadNamesError
    texts = FREE
    for keyword, value in drop_annotations(names).items():
        texts = texts.intersect(_read_name_keyword(keyword, value, names.get("format")))
    if texts.automaton is None:
        raise _UnreadNamesError
    return texts


def _read_name_keyword(keyword: str, value: Json, name: Any) -> Texts:
    """Returns the texts that one keyword allows, beside the format of this name."""
    regex: str | None = None
    match keyword:
        case "type" if "string" in as_list(value):
            return FREE
        case "format" if value not in FORMATS and value not in ASSERTED:
            return FREE
        case "anyOf":
            return _unite_names(value)
        case "not":
            return _exclude_names(value)
        case "pattern":
            regex = translate(value)
        case "format":
            regex = FORMATS.get(value)
        case "minLength":
            regex = f"(?s:.{{{int(value)},}})"
        case "maxLength":
            regex = f"(?s:.{{0,{int(value)}}})"
        case "enum" | "const":
            words = [word for word in as_list(value) if isinstance(word, str)]
            regex = next(iter(match_words(words)), None)
        case _ if keyword in (*LOWER, *UPPER) and value != NOW:
            if not is_bound(name, value):
                return FREE
            regex = express_bounds(name, {keyword: value})
        case _:
            pass
    if regex is None:
        raise _UnreadNamesError
    return Texts((regex,))


def _unite_names(parts: list[Json]) -> Texts:
    regexes: list[str] = []
    for part in parts:
        texts = read_names(part)
        if texts.is_free:
            return texts
        if texts.without or len(texts.parts) > 1:
            raise _UnreadNamesError
        regexes += texts.parts
    if not regexes:
        raise _UnreadNamesError
    return Texts((f"({'|'.join(regexes)})",))


def _exclude_names(excluded: Json) -> Texts:
    texts = read_names(excluded)
    # The mask refuses some texts of a format, which would be let through here.
    if "format" in find_keywords(excluded) or len(texts.parts) + len(texts.without) != 1:
        raise _UnreadNamesError
    return Texts(texts.without, texts.parts)


@keep_results("regexes", MIB)
def is_universal(pattern: str) -> bool:
    """Returns whether the pattern matches every text."""
    regex = translate(pattern)
    return regex is not None and Texts((), (regex,)).is_empty()
