"""A schema as the grammar sees it: a small closed set of nodes, the report, and the validator.

`grammars.lowering` makes it from JSON Schema. Values are validated by jsonschema-rs against the
source, as nodes may admit more than it does.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias, cast

from grammars.regex.texts import FREE as ALL_KEYS
from grammars.regex.texts import Texts
from grammars.schema.presence import FREE, Presence
from grammars.schema.subschemas import Json as Json
from grammars.schema.subschemas import escape as escape
from grammars.schema.subschemas import is_list, is_object, point_to
from grammars.schema.validator import Validator

LARGEST_MULTIPLE = 10**15
"""Multiples (`multipleOf`) are no larger where the schema sets no bound."""
MAX_UNFIT = 8  # validation errors that are reported of one value


@dataclass(frozen=True)
class AnyValue:
    """Every JSON value."""


@dataclass(frozen=True)
class Constant:
    """One of finitely many values (`enum`, `const`)."""

    values: tuple[Json, ...]


@dataclass(frozen=True)
class String:
    """A string; lengths in code points, `pattern` a regex for all of it (Rust syntax)."""

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
    """The keywords `contains`, `minContains` and `maxContains` of an array.

    Args:
        matching: the items that match `contains`, at each index of the prefix and, last, behind it;
            None: no item there matches.
        others: likewise the items that do not match; without `most`, any item.
        least, most: how many items match.
    """

    matching: tuple["Node | None", ...]
    others: tuple["Node | None", ...]
    least: int = 1
    most: int | None = None


@dataclass(frozen=True)
class Array:
    """`prefix` first, then `items` (None: nothing more); lengths in elements.

    Args:
        distinct: no item, which are constants then, is there twice.
    """

    prefix: tuple["Node", ...] = ()
    items: "Node | None" = AnyValue()
    min_items: int = 0
    max_items: int | None = None
    contains: Contains | None = None
    distinct: bool = False

    def find(self, index: int) -> "Node | None":
        """The node of the item at that index; None if the list cannot be as long."""
        if index < len(self.prefix):
            return self.prefix[index]
        return self.items


@dataclass(frozen=True)
class Property:
    """A declared key of an object; `source` is the JSON Schema of its value."""

    key: str
    node: "Node"
    required: bool
    source: Json = True


@dataclass(frozen=True)
class Extra:
    """A set of undeclared keys of an object, and the node and JSON Schema of their values."""

    node: "Node"
    source: Json = True
    keys: Texts = ALL_KEYS


@dataclass(frozen=True)
class Object:
    """Declared properties, and undeclared keys.

    Args:
        additional: the value of any other key; None: only those of `patterned` may be there.
        additional_source: its JSON Schema.
        presence: which keys, and how many, there have to be beside the required ones.
        patterned: undeclared keys by a regex; no key is in two of these.
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
        """The declaration of a key, or the undeclared keys that it is one of; None if it cannot be
        there."""
        for declared in self.properties:
            if declared.key == key:
                return declared
        return self.find_extra(key)

    def find_extra(self, key: str) -> Extra | None:
        """The undeclared keys that a key is one of that is not declared; None if it cannot be
        there."""
        for extra in self.extras:
            if extra.keys.accepts(key):
                return extra
        return None


@dataclass(frozen=True)
class Union:
    """A value that any of the branches admits."""

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
    """The keywords of a schema, by what becomes of them.

    Args:
        enforced: the mask enforces them.
        checked: the validator checks them after generation.
        repaired: read as something else than what stands there, for it is plain what is meant.
        narrowed: the mask refuses some values that these keywords admit.
        ignored: no keywords of JSON Schema; they may be misspelled.
    """

    enforced: tuple[Finding, ...] = ()
    checked: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Unfit:
    """A validation error: JSON pointer into the value, and the validator's message."""

    pointer: str
    message: str


@dataclass(frozen=True)
class Schema:
    """A lowered schema.

    Args:
        source: this schema as JSON Schema.
        node: the same, lowered.
        definitions: the nodes that `Reference` nodes name.
        report: which keywords the mask enforces and which it does not.
        root: the document that `$ref`s in `source` point into.
        least: the characters that every value has at least, however it is spelled; 0: not known.
    """

    source: Json
    node: Node
    definitions: Mapping[str, Node]
    report: Report
    root: Json
    least: int = 0

    def find_members(self, key: str) -> "list[Schema | None]":
        """For each object that the schema admits, in order: the schema of this key, declared or
        additional; None if that object cannot have it."""
        members: list[Schema | None] = []
        for branch in self.objects:
            found = branch.find(key)
            if found is None:
                members.append(None)
            else:
                members.append(replace(self, source=found.source, node=found.node, least=0))
        return members

    @property
    def objects(self) -> list[Object]:
        """The objects that the schema admits, in order."""
        branches = flatten(self.node, self.definitions)
        return [branch for branch in branches if isinstance(branch, Object)]

    def can_have(self, keys: Iterable[str]) -> bool:
        """True if the schema admits an object that may have all these keys."""
        wanted = set(keys)
        for branch in flatten(self.node, self.definitions):
            match branch:
                case AnyValue():
                    return True
                case Constant(values):
                    for value in values:
                        if isinstance(value, dict) and value.keys() >= wanted:
                            return True
                case Object():
                    if None not in map(branch.find, wanted):
                        return True
                case _:
                    pass
        return False

    @property
    def can_be_list(self) -> bool:
        """True if the schema admits a list."""
        for branch in flatten(self.node, self.definitions):
            match branch:
                case AnyValue() | Array():
                    return True
                case Constant(values):
                    if any(isinstance(value, list) for value in values):
                        return True
                case _:
                    pass
        return False

    def find_errors(self, value: Json) -> tuple[Unfit, ...]:
        """The first validation errors of `value`, formats asserted; empty if it fits."""
        try:
            error = self._validator.find_error(value)
            if error is not None:
                path, message = error
                return (Unfit(point_to(path), message),)
            return tuple(islice(self._find_undeclared(self.node, value, ""), MAX_UNFIT))
        except (RecursionError, ValueError):  # jsonschema-rs reports no value of 256 levels
            return (Unfit("", "the value is nested too deeply to be checked"),)

    def admits(self, value: Json) -> bool:
        """True if the value fits."""
        try:
            if not self._validator.admits(value):
                return False
            return next(self._find_undeclared(self.node, value, ""), None) is None
        except (RecursionError, ValueError):
            return False

    def _find_undeclared(self, node: Node, value: Json, pointer: str) -> Iterator[Unfit]:
        """Keys of closed objects that nobody declared: the mask excludes them, so does this.

        Lowering closes objects that JSON Schema leaves open, so jsonschema-rs does not know. Where
        several branches may be meant, nothing is said.
        """
        container = Object if isinstance(value, dict) else Array
        candidates: list[Flat] = []
        for branch in flatten(node, self.definitions):
            if isinstance(branch, container | Constant | AnyValue):
                candidates.append(branch)
        match candidates:
            case [Object() as found] if is_object(value):
                for key, member in value.items():
                    at = f"{pointer}/{escape(key)}"
                    declared = found.find(key)
                    if declared is None:
                        yield Unfit(at, f"{key!r} is not declared")
                    else:
                        yield from self._find_undeclared(declared.node, member, at)
            case [Array() as found] if is_list(value):
                for i, member in enumerate(value):
                    inner = found.find(i)
                    if inner is not None:
                        yield from self._find_undeclared(inner, member, f"{pointer}/{i}")
            case _:
                return

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.source, self.root)


def unite(branches: Sequence[Node]) -> Node:
    """The union of these nodes; the node itself if it is the only one."""
    if len(branches) == 1:
        return branches[0]
    return Union(tuple(branches))


def flatten(node: Node, definitions: Mapping[str, Node]) -> Iterator[Flat]:
    """The branches of a node in order, unions and references followed, each reference once."""
    seen: set[str] = set()
    stack = [node]
    while stack:
        match stack.pop():
            case Reference(name):
                if name not in seen:
                    seen.add(name)
                    stack.append(definitions[name])
            case Union(branches):
                stack.extend(reversed(branches))
            case other:
                yield other


def find_references(node: Node) -> Set[str]:
    """The definitions that a node names."""
    found = set[str]()
    queue: list[Node | None] = [node]
    while queue:
        match part := queue.pop():
            case Reference(name):
                found.add(name)
            case Union(branches):
                queue += branches
            case Array(prefix, items, contains=contains):
                queue += [*prefix, items]
                if contains is not None:
                    queue += [*contains.matching, *contains.others]
            case Object(properties):
                queue += [member.node for member in (*properties, *part.extras)]
            case _:
                pass
    return found


def are_same(a: Json, b: Json) -> bool:
    """True if they are spelled alike. (To Python, 1, 1.0 and True are equal.)"""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def identify(value: Json) -> str:
    """A text that is the same for all spellings of one value: 1 and 1.0 are one, 1 and true are
    not."""
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
