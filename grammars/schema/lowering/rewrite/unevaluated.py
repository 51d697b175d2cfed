"""Replaces `unevaluatedProperties` and `unevaluatedItems` (JSON Schema Core, section 11) with
`additionalProperties` and `items`.

Which members a schema evaluates depends on which of its alternatives apply. For each choice of
alternatives this is known, so the schema becomes one alternative per choice that says what the
other members are. A choice that evaluates less also allows less, so the alternatives need no
further conditions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

from grammars.errors import SchemaError
from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.rewrite.negation import Resolve
from grammars.schema.subschemas import DYNAMIC_REFERENCES, omit

MAX_ALTERNATIVES = 16
"""The limit for choices."""
_DEEPEST = 8


@dataclass(frozen=True)
class Evaluated:
    """The members and items that are evaluated under a choice."""

    given: tuple[Json, ...] = ()  # the schemas that apply
    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    everything: bool = False  # all members
    items: int = 0  # their number, from the first one on
    every_item: bool = False

    @property
    def is_nothing(self) -> bool:
        return replace(self, given=()) == Evaluated()

    def join(self, other: "Evaluated") -> "Evaluated":
        return Evaluated(
            given=self.given + other.given,
            keys=tuple(dict.fromkeys(self.keys + other.keys)),
            patterns=tuple(dict.fromkeys(self.patterns + other.patterns)),
            everything=self.everything or other.everything,
            items=max(self.items, other.items),
            every_item=self.every_item or other.every_item,
        )


class _UnknownError(Exception):
    """It is not known what is evaluated."""


def state_evaluated(flat: Mapping[str, Json], keyword: str, resolve: Resolve) -> Json | None:
    """Returns an equivalent schema without the keyword; None if there is none."""
    rest = omit(flat, keyword)
    try:
        choices = _list_choices(rest, resolve, 0)
    except (_UnknownError, SchemaError):
        return None
    any_of = next(_list_alternatives(flat, resolve, 1))
    if not _are_nothing(any_of):
        del rest["anyOf"]  # each choice says which branches apply
    options: list[Json] = []
    for choice in choices:
        others = _close(choice, keyword, flat[keyword])
        options.append({"allOf": [rest, *choice.given, others]})
    if len(options) == 1:
        return options[0]
    return {"anyOf": options}


def _are_nothing(alternatives: list[Evaluated]) -> bool:
    return all(alternative.is_nothing for alternative in alternatives)


def _close(choice: Evaluated, keyword: str, value: Json) -> Json:
    """Returns one choice, in which `value` applies to the members that are not evaluated."""
    closed: dict[str, Json] = {}
    if keyword == "unevaluatedItems":
        if choice.every_item:
            return True
        if choice.items:
            closed["prefixItems"] = [True] * choice.items
        closed["items"] = value
        return closed
    if choice.everything:
        return True
    closed["properties"] = dict.fromkeys(choice.keys, True)
    if choice.patterns:
        closed["patternProperties"] = dict.fromkeys(choice.patterns, True)
    closed["additionalProperties"] = value
    return closed


def _list_choices(schema: Json, resolve: Resolve, depth: int) -> list[Evaluated]:
    """Returns what is evaluated under each choice between the alternatives of a schema."""
    if isinstance(schema, bool):
        return [Evaluated()]
    flat: Mapping[str, Json] = schema
    spend(1 + len(flat))
    if depth > _DEEPEST or DYNAMIC_REFERENCES & flat.keys():
        raise _UnknownError
    choices = [_find_own(flat)]
    parts: list[Json] = list(flat.get("allOf", []))
    if "$ref" in flat:
        parts.append(resolve(flat["$ref"]))
    for part in parts:
        choices = _cross(choices, _list_choices(part, resolve, depth + 1))
    for alternatives in _list_alternatives(flat, resolve, depth + 1):
        if not _are_nothing(alternatives):
            choices = _cross(choices, alternatives)
    return choices


def _find_own(flat: Mapping[str, Json]) -> Evaluated:
    """Returns the members that a schema evaluates itself, without alternatives."""
    if "contains" in flat:  # `contains` evaluates the matching items
        raise _UnknownError
    prefix, rest = flat.get("prefixItems", []), "items"
    if isinstance(flat.get("items"), list):  # a tuple in drafts before 2020-12
        prefix, rest = flat["items"], "additionalItems"
    return Evaluated(
        keys=tuple(flat.get("properties", ())),
        patterns=tuple(flat.get("patternProperties", ())),
        everything="additionalProperties" in flat or "unevaluatedProperties" in flat,
        items=len(prefix),
        every_item=rest in flat or "unevaluatedItems" in flat,
    )


def _list_alternatives(
    flat: Mapping[str, Json], resolve: Resolve, depth: int
) -> Iterator[list[Evaluated]]:
    """Returns, for each keyword with alternatives, the choices between them; `anyOf` first."""

    def list_under(*parts: Json) -> list[Evaluated]:
        """Returns the choices if all of these schemas apply."""
        found = [Evaluated(parts)]
        for part in parts:
            found = _cross(found, _list_choices(part, resolve, depth))
        return found

    branches: list[Json] = flat.get("anyOf", [])
    if 1 << len(branches) > MAX_ALTERNATIVES:
        raise _UnknownError
    any_of: list[Evaluated] = []
    for number in range(1, len(branches) + 1):
        for chosen in combinations(branches, number):
            any_of += list_under(*chosen)
    yield any_of
    yield list(chain.from_iterable(map(list_under, flat.get("oneOf", []))))
    if "if" in flat:
        condition, otherwise = flat["if"], flat.get("else", True)
        cases = list_under(condition, flat.get("then", True))
        if _are_nothing(_list_choices(otherwise, resolve, depth)):
            yield [*cases, Evaluated()]
        else:
            yield cases + list_under({"not": condition}, otherwise)
    for key, schema in flat.get("dependentSchemas", {}).items():
        yield [*list_under({"required": [key], "type": "object"}, schema), Evaluated()]


def _cross(some: list[Evaluated], others: list[Evaluated]) -> list[Evaluated]:
    if len(some) * len(others) > MAX_ALTERNATIVES:
        raise _UnknownError
    return [a.join(b) for a, b in product(some, others)]
