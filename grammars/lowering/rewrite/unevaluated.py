"""`unevaluatedProperties` and `unevaluatedItems` as what stands beside keywords that are known.

Which members a schema evaluates depends on which of its alternatives hold. For each such choice it
is known, so the schema becomes alternatives that say what the other members are. One under which
less is evaluated admits less, so it needs no condition that says where it is meant.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import cast

from grammars.errors import SchemaError
from grammars.lowering.rewrite.negation import Resolve
from grammars.schema.nodes import Json

MOST = 16
"""More choices than these are not written out."""
_DEEPEST = 8
_DYNAMIC = frozenset(["$dynamicRef", "$recursiveRef"])


@dataclass(frozen=True)
class Seen:
    """What is evaluated under a choice.

    Args:
        given: what holds then, as schemas.
        keys, patterns: these members; `everything`: all of them.
        items: so many items; `every_item`: all of them.
    """

    given: tuple[Json, ...] = ()
    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    everything: bool = False
    items: int = 0
    every_item: bool = False

    @property
    def is_nothing(self) -> bool:
        """Is nothing evaluated?"""
        return not (self.keys or self.patterns or self.everything or self.items or self.every_item)

    def join(self, other: "Seen") -> "Seen":
        """Both at once."""
        return Seen(
            self.given + other.given,
            tuple(dict.fromkeys(self.keys + other.keys)),
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            self.everything or other.everything,
            max(self.items, other.items),
            self.every_item or other.every_item,
        )


class _UnknownError(Exception):
    """What is evaluated cannot be said."""


def settle(flat: Mapping[str, Json], keyword: str, resolve: Resolve) -> Json | None:
    """The schema without that keyword, as one that says the same; None where it cannot be said."""
    rest = {k: v for k, v in flat.items() if k != keyword}
    try:
        choices = _see(rest, resolve, 0)
    except (_UnknownError, SchemaError):
        return None
    branches = next(_list_choices(flat, resolve, 1))
    if not all(branch.is_nothing for branch in branches):
        del rest["anyOf"]  # each choice says which branches hold
    parts = [_close(seen, keyword, flat[keyword]) for seen in choices]
    options = [{"allOf": [rest, *seen.given, p]} for seen, p in zip(choices, parts, strict=True)]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _close(seen: Seen, keyword: str, value: Json) -> Json:
    """What the members have to be that are not evaluated."""
    if keyword == "unevaluatedItems":
        if seen.every_item:
            return True
        prefix = {"prefixItems": [True] * seen.items} if seen.items else {}
        return {**prefix, "items": value}
    if seen.everything:
        return True
    patterns: Json = dict.fromkeys(seen.patterns, True)
    return {
        "properties": dict.fromkeys(seen.keys, True),
        **({"patternProperties": patterns} if patterns else {}),
        "additionalProperties": value,
    }


def _see(schema: Json, resolve: Resolve, depth: int) -> list[Seen]:
    """What is evaluated, under each choice that there is."""
    if isinstance(schema, bool):
        return [Seen()]
    flat = cast(Mapping[str, Json], schema)
    if depth > _DEEPEST or _DYNAMIC & flat.keys():
        raise _UnknownError
    seen = [_see_own(flat)]
    parts = list(cast(list[Json], flat.get("allOf", [])))
    parts += [resolve(flat["$ref"])] if "$ref" in flat else []
    for part in parts:
        seen = _cross(seen, _see(part, resolve, depth + 1))
    for options in _list_choices(flat, resolve, depth + 1):
        if not all(option.is_nothing for option in options):
            seen = _cross(seen, options)
    return seen


def _see_own(flat: Mapping[str, Json]) -> Seen:
    is_old = isinstance(flat.get("items"), list)  # a tuple, as drafts before 2020-12 write it
    prefix = cast(list[Json], flat["items"] if is_old else flat.get("prefixItems", []))
    rest = "additionalItems" if is_old else "items"
    if "contains" in flat:  # it evaluates what matches
        raise _UnknownError
    return Seen(
        (),
        tuple(flat.get("properties", ())),
        tuple(flat.get("patternProperties", ())),
        bool({"additionalProperties", "unevaluatedProperties"} & flat.keys()),
        len(prefix),
        bool({rest, "unevaluatedItems"} & flat.keys()),
    )


def _list_choices(flat: Mapping[str, Json], resolve: Resolve, depth: int) -> Iterator[list[Seen]]:
    """For each keyword that has alternatives, what is evaluated under each."""

    def see(*parts: Json) -> list[Seen]:
        """What is evaluated where all of these hold."""
        found = [Seen(parts)]
        for part in parts:
            found = _cross(found, _see(part, resolve, depth))
        return found

    branches = cast(list[Json], flat.get("anyOf", []))
    if 1 << len(branches) > MOST:
        raise _UnknownError
    some = (chosen for n in range(1, len(branches) + 1) for chosen in combinations(branches, n))
    yield [seen for chosen in some for seen in see(*chosen)]
    yield [seen for branch in cast(list[Json], flat.get("oneOf", [])) for seen in see(branch)]
    if "if" in flat:
        held = see(flat["if"], flat.get("then", True))
        otherwise = _see(flat.get("else", True), resolve, depth)
        if all(seen.is_nothing for seen in otherwise):
            yield [*held, Seen()]
        else:
            yield [*held, *see({"not": flat["if"]}, flat.get("else", True))]
    for key, schema in cast(Mapping[str, Json], flat.get("dependentSchemas", {})).items():
        yield [*see({"required": [key], "type": "object"}, schema), Seen()]


def _cross(some: list[Seen], others: list[Seen]) -> list[Seen]:
    if len(some) * len(others) > MOST:
        raise _UnknownError
    return [a.join(b) for a in some for b in others]
