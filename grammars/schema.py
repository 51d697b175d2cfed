"""A schema as the grammar sees it: a small closed set of nodes, and a report of what is held.

`lowering.lower` makes it from JSON Schema; `lark_values`, `coerce` and the validator read it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

import jsonschema_rs

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""


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
class Array:
    """`prefix` first, then `items` (None: nothing more); lengths in elements."""

    prefix: tuple["Node", ...] = ()
    items: "Node | None" = AnyValue()
    min_items: int = 0
    max_items: int | None = None


@dataclass(frozen=True)
class Property:
    """A declared key of an object."""

    key: str
    node: "Node"
    required: bool
    source: Json = True


@dataclass(frozen=True)
class Object:
    """Declared properties in schema order, then `additional` keys (None: no others)."""

    properties: tuple[Property, ...] = ()
    additional: "Node | None" = AnyValue()
    additional_source: Json = True


@dataclass(frozen=True)
class Union:
    """What any of the branches admits."""

    branches: tuple["Node", ...]


@dataclass(frozen=True)
class Reference:
    """The definition of that name."""

    name: str


Node: TypeAlias = (
    AnyValue | Constant | String | Number | Boolean | Null | Array | Object | Union | Reference
)


@dataclass(frozen=True)
class Finding:
    """One keyword of a schema: JSON pointer, keyword, and what there is to say about it."""

    pointer: str
    keyword: str
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """What becomes of a schema: held by the mask, or checked after generation."""

    enforced: tuple[Finding, ...] = ()
    checked: tuple[Finding, ...] = ()


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

    def property(self, key: str) -> "Schema | None":
        """The schema of a key of this object, declared or additional; None if there is none."""
        found: list[tuple[Node, Json]] = []
        for branch in flatten(self.node, self.definitions):
            if isinstance(branch, Object):
                declared = {p.key: (p.node, p.source) for p in branch.properties}
                if key in declared:
                    found.append(declared[key])
                elif branch.additional is not None:
                    found.append((branch.additional, branch.additional_source))
        if not found:
            return None
        node, source = found[0]
        if len(found) > 1:
            node, source = Union(tuple(n for n, _ in found)), {"anyOf": [s for _, s in found]}
        return Schema(source, node, self.definitions, self.report, self.root)

    def find_errors(self, value: Json) -> tuple[Unfit, ...]:
        """What keeps `value` from fitting; empty if it fits (jsonschema-rs, formats asserted)."""
        errors = [
            Unfit("".join(f"/{escape(str(step))}" for step in e.instance_path), e.message)
            for e in self._validator.iter_errors(value)
        ]
        return (*errors, *self._find_undeclared(self.node, value, ""))

    def admits(self, value: Json) -> bool:
        """Does the value fit?"""
        return not self.find_errors(value)

    def _find_undeclared(self, node: Node, value: Json, pointer: str) -> Iterator[Unfit]:
        """Keys of closed objects that nobody declared: the mask excludes them, so does this."""
        match resolve(node, self.definitions):
            case Object(properties, additional) if isinstance(value, dict):
                declared = {p.key: p.node for p in properties}
                for key, member in cast(dict[str, Json], value).items():
                    inner = declared.get(key, additional)
                    if inner is None:
                        yield Unfit(f"{pointer}/{escape(key)}", f"{key!r} is not declared")
                    else:
                        yield from self._find_undeclared(inner, member, f"{pointer}/{escape(key)}")
            case Array(prefix, items) if isinstance(value, list):
                for i, member in enumerate(cast(list[Json], value)):
                    inner = prefix[i] if i < len(prefix) else items
                    if inner is not None:
                        yield from self._find_undeclared(inner, member, f"{pointer}/{i}")
            case _:
                return

    @cached_property
    def _validator(self) -> Any:
        return make_validator(self.source, self.root)


def resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """The node itself, references followed."""
    while isinstance(node, Reference):
        node = definitions[node.name]
    return node


def flatten(node: Node, definitions: Mapping[str, Node]) -> Iterator[Node]:
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
    if source is root or isinstance(source, bool):
        return jsonschema_rs.validator_for(source, validate_formats=True)
    dialect = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    registry = jsonschema_rs.Registry([("urn:root", {"$schema": dialect, **root})])
    schema = {"$schema": dialect, **_absolute(source)}
    return jsonschema_rs.validator_for(schema, registry=registry, validate_formats=True)


def _absolute(schema: Json) -> Json:
    """The schema with its local references made absolute, so that it can stand alone."""
    if isinstance(schema, list):
        return [_absolute(s) for s in cast(list[Json], schema)]
    if not isinstance(schema, dict):
        return schema
    moved = {k: _absolute(v) for k, v in cast(dict[str, Json], schema).items()}
    if isinstance(reference := moved.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = "urn:root" + reference
    return moved


def escape(key: str) -> str:
    """A key as a reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
