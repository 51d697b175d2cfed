"""A schema as the grammar sees it: a small closed set of nodes, and a report of what is held.

`lowering.lower` makes it from JSON Schema; `lark_values`, `coerce` and the validator read it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias, cast

import jsonschema_rs

from grammars.regex.texts import FREE as ALL_KEYS
from grammars.regex.texts import Texts
from grammars.schema.pointers import Json as Json
from grammars.schema.pointers import escape as escape
from grammars.schema.presence import FREE, Presence
from grammars.schema.subschemas import map_parts


@dataclass(frozen=True)
class AnyValue:
    """Every JSON value."""


@dataclass(frozen=True)
class Constant:
    """One of finitely many values (`enum`, `const`)."""

    values: tuple[Json, ...]


@dataclass(frozen=True)
class String:
    """A string; lengths in code points, `pattern` an expression for all of it (Rust syntax)."""

    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None

    @property
    def is_free(self) -> bool:
        return self == String()


@dataclass(frozen=True)
class Number:
    """A number; `bounds` are the JSON Schema keywords for its range, as they stand there."""

    integer: bool = False
    bounds: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Boolean:
    """true or false."""


@dataclass(frozen=True)
class Null:
    """null."""


@dataclass(frozen=True)
class Contains:
    """How many items of a list are of a kind.

    Args:
        matching: those that are, at each place of the prefix and behind it; None: there are none.
        others: those that are not; without `most`, any.
    """

    matching: tuple["Node | None", ...]
    others: tuple["Node | None", ...]
    least: int = 1
    most: int | None = None


@dataclass(frozen=True)
class Array:
    """`prefix` first, then `items` (None: nothing more); lengths in elements.

    Args:
        distinct: none of the items, which are constants, is there twice.
    """

    prefix: tuple["Node", ...] = ()
    items: "Node | None" = AnyValue()
    min_items: int = 0
    max_items: int | None = None
    contains: Contains | None = None
    distinct: bool = False

    def find(self, index: int) -> "Node | None":
        """What the item at that index is, if the list is as long; None if it can have none."""
        return self.prefix[index] if index < len(self.prefix) else self.items


@dataclass(frozen=True)
class Property:
    """A declared key of an object."""

    key: str
    node: "Node"
    required: bool
    source: Json = True


@dataclass(frozen=True)
class Extra:
    """Undeclared keys of an object, and what their values are."""

    node: "Node"
    source: Json = True
    keys: Texts = ALL_KEYS


@dataclass(frozen=True)
class Object:
    """Declared properties, and undeclared keys.

    Args:
        additional: what any other key has; None: only those of `patterned` may be there.
        patterned: keys by what they look like; no key is in two of these.
    """

    properties: tuple[Property, ...] = ()
    additional: "Node | None" = AnyValue()
    additional_source: Json = True
    presence: Presence = FREE
    patterned: tuple[Extra, ...] = ()

    @property
    def extras(self) -> tuple[Extra, ...]:
        """All undeclared keys; () if there can be none."""
        if self.additional is None:
            return self.patterned
        return (*self.patterned, Extra(self.additional, self.additional_source))

    def find(self, key: str) -> Property | Extra | None:
        """What a key has, declared or not; None if it cannot be there."""
        declared = next((p for p in self.properties if p.key == key), None)
        return declared or next((e for e in self.extras if e.keys.accepts(key)), None)


@dataclass(frozen=True)
class Union:
    """What any of the branches admits."""

    branches: tuple["Node", ...]


@dataclass(frozen=True)
class Reference:
    """The definition of that name."""

    name: str


Flat: TypeAlias = AnyValue | Constant | String | Number | Boolean | Null | Array | Object
Node: TypeAlias = Flat | Union | Reference


@dataclass(frozen=True)
class Finding:
    """One keyword of a schema: JSON pointer, keyword, and what there is to say about it."""

    pointer: str
    keyword: str
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """What becomes of a schema.

    Args:
        enforced: held by the mask.
        checked: checked after generation.
        repaired: read as something else than what stands there, for it is plain what is meant.
        ignored: no keywords of JSON Schema; they may be misspelled.
    """

    enforced: tuple[Finding, ...] = ()
    checked: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Unfit:
    """Why a value does not fit: JSON pointer into the value, and the validator's words."""

    pointer: str
    message: str


@dataclass(frozen=True)
class Schema:
    """A lowered schema.

    Args:
        source: this schema as JSON Schema.
        node: the same, lowered.
        definitions: what `Reference` nodes name.
        report: what the mask holds and what it does not.
        root: the document that `$ref`s in `source` point into.
    """

    source: Json
    node: Node
    definitions: Mapping[str, Node]
    report: Report
    root: Json

    def find_members(self, key: str) -> "list[Schema | None]":
        """For each object that the schema admits, in order: the schema of this key, declared or
        additional; None if that object cannot have it."""
        return [self._find_member(branch, key) for branch in self.objects]

    @property
    def objects(self) -> list[Object]:
        """The objects that the schema admits, in order."""
        return [b for b in flatten(self.node, self.definitions) if isinstance(b, Object)]

    def _find_member(self, node: Object, key: str) -> "Schema | None":
        found = node.find(key)
        return None if found is None else replace(self, source=found.source, node=found.node)

    def can_have(self, keys: Iterable[str]) -> bool:
        """Does the schema admit an object that may have all these keys?"""
        branches = list(flatten(self.node, self.definitions))
        constants = [v for b in branches if isinstance(b, Constant) for v in b.values]
        if any(isinstance(b, AnyValue) for b in branches):
            return True
        if any(isinstance(v, dict) and set(keys) <= set(cast(Any, v)) for v in constants):
            return True
        return any(None not in map(partial(self._find_member, b), keys) for b in self.objects)

    def find_errors(self, value: Json) -> tuple[Unfit, ...]:
        """What keeps `value` from fitting; empty if it fits (jsonschema-rs, formats asserted)."""
        validator = self._validator
        try:
            errors = [
                Unfit("".join(f"/{escape(str(step))}" for step in e.instance_path), e.message)
                for e in validator.iter_errors(value)
            ]
            return (*errors, *self._find_undeclared(self.node, value, ""))
        except (RecursionError, ValueError):  # jsonschema-rs reports no value of 256 levels
            return (Unfit("", "the value is nested too deeply to be checked"),)

    def admits(self, value: Json) -> bool:
        """Does the value fit?"""
        return not self.find_errors(value)

    def _find_undeclared(self, node: Node, value: Json, pointer: str) -> Iterator[Unfit]:
        """Keys of closed objects that nobody declared: the mask excludes them, so does this."""
        kinds = (Object if isinstance(value, dict) else Array, Constant, AnyValue)
        branches = [b for b in flatten(node, self.definitions) if isinstance(b, kinds)]
        match branches:
            case [Object() as found] if isinstance(value, dict):
                for key, member in cast(dict[str, Json], value).items():
                    at, inner = f"{pointer}/{escape(key)}", found.find(key)
                    if inner is None:
                        yield Unfit(at, f"{key!r} is not declared")
                    else:
                        yield from self._find_undeclared(inner.node, member, at)
            case [Array() as found] if isinstance(value, list):
                for i, member in enumerate(cast(list[Json], value)):
                    if (inner := found.find(i)) is not None:
                        yield from self._find_undeclared(inner, member, f"{pointer}/{i}")
            case _:
                return

    @cached_property
    def _validator(self) -> Any:
        return make_validator(self.source, self.root)


def flatten(node: Node, definitions: Mapping[str, Node]) -> Iterator[Flat]:
    """The branches of a node, unions and references followed, each reference once."""
    seen: set[str] = set()
    queue = [node]
    while queue:
        match queue.pop(0):
            case Reference(name):
                if name not in seen:
                    seen.add(name)
                    queue.insert(0, definitions[name])
            case Union(branches):
                queue = [*branches, *queue]
            case other:
                yield other


def make_validator(source: Json, root: Json) -> Any:
    """A jsonschema-rs validator; the draft is that of `$schema`, 2020-12 if there is none."""
    check: Any = partial(jsonschema_rs.validator_for, validate_formats=True, retriever=_refuse)
    if source is root or isinstance(source, bool):
        return check(source)
    root = cast(dict[str, Json], root if isinstance(root, dict) else {})
    dialect = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    moved = {"$schema": dialect, **_absolute(source)}
    if '"$ref"' not in json.dumps(moved):
        return check(moved)
    registry = jsonschema_rs.Registry(
        [("urn:root", {"$schema": dialect, **root})], retriever=_refuse
    )
    return check(moved, registry=registry)


def _refuse(uri: str) -> Json:
    """What jsonschema-rs calls for other documents; by itself it would fetch them."""
    raise ValueError(f"{uri} is another document")


def _absolute(schema: Json) -> Json:
    """The schema with its local references made absolute, so that it can stand alone; listed values
    stay as they are."""
    if not isinstance(schema, dict):
        return schema
    moved = map_parts(cast(dict[str, Json], schema), lambda part, _: _absolute(part))
    if isinstance(reference := moved.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = "urn:root" + reference
    return moved


def are_same(a: Json, b: Json) -> bool:
    """Are they spelled alike? (To Python, 1, 1.0 and True are equal.)"""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def identify(value: Json) -> str:
    """What all spellings of one value have in common: 1 and 1.0 are one, 1 and true are not."""
    return json.dumps(_as_integers(value), sort_keys=True)


def _as_integers(value: Json) -> Json:
    """The value with each number that is whole as an integer."""
    match value:
        case list():
            return [_as_integers(v) for v in cast(list[Json], value)]
        case dict():
            return {k: _as_integers(v) for k, v in cast(dict[str, Json], value).items()}
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
