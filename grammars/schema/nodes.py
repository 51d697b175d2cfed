"""The nodes of a lowered schema, its report, and its validator.

`grammars.schema.lowering` makes nodes from JSON Schema. Since nodes may allow more values than
their source, jsonschema-rs validates values against the source.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias, cast

from grammars.regex.texts import FREE as ALL_KEYS
from grammars.regex.texts import Texts
from grammars.schema.pointers import escape as escape
from grammars.schema.pointers import point_to
from grammars.schema.presence import FREE, Presence
from grammars.schema.subschemas import Json as Json
from grammars.schema.subschemas import is_list, is_object
from grammars.schema.validator import Validator

LARGEST_MULTIPLE = 10**15
"""The bound for multiples (`multipleOf`) if the schema sets none."""
MAX_UNFIT = 8  # reported validation errors of one value


@dataclass(frozen=True)
class AnyValue:
    """Every JSON value."""


@dataclass(frozen=True)
class Constant:
    """One of the listed values (`enum`, `const`)."""

    values: tuple[Json, ...]


@dataclass(frozen=True)
class String:
    """A string. Lengths are in code points; `pattern` is for the whole string (Rust syntax)."""

    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None

    @property
    def is_free(self) -> bool:
        return self == String()

    def accepts(self, text: str) -> bool:
        """Returns whether the text is one of these strings, or if the pattern cannot be parsed."""
        longest = len(text) if self.max_length is None else self.max_length
        texts = Texts(() if self.pattern is None else (self.pattern,))
        return self.min_length <= len(text) <= longest and texts.accepts(text)


@dataclass(frozen=True)
class Number:
    """A number within bounds: the JSON Schema keywords for its range, as written there; of integers
    also `multipleOf`, an integer, if the mask enforces it."""

    integer: bool = False
    bounds: Mapping[str, float] = field(default_factory=dict[str, float])
    places: int | None = None  # at most, behind the point (`multipleOf: 0.01`); None: any number
    # Only the mask has these, too: readers read numbers beyond them.
    mask_bounds: Mapping[str, float] = field(
        default_factory=dict[str, float], compare=False, repr=False
    )


@dataclass(frozen=True)
class Boolean:
    """true or false."""


@dataclass(frozen=True)
class Null:
    """null."""


@dataclass(frozen=True)
class Contains:
    """The keywords `contains`, `minContains` and `maxContains` of an array: for each index of the
    prefix and then for all later items, the items that match, and those that do not (without
    `most`, any item); None: there are none."""

    matching: tuple["Node | None", ...]
    others: tuple["Node | None", ...]
    least: int = 1
    most: int | None = None


@dataclass(frozen=True)
class Array:
    """The items of `prefix`, then any number of `items` (None: no more items); `distinct`: none may
    occur twice, and they are constants."""

    prefix: tuple["Node", ...] = ()
    items: "Node | None" = AnyValue()
    min_items: int = 0
    max_items: int | None = None
    contains: Contains | None = None
    distinct: bool = False

    def find(self, index: int) -> "Node | None":
        """Returns the node of the item at this index; None if the list cannot be that long."""
        if index < len(self.prefix):
            return self.prefix[index]
        return self.items


@dataclass(frozen=True)
class Property:
    """A declared key of an object; `source` and `pointer`: the JSON Schema of its value."""

    key: str
    node: "Node"
    required: bool
    source: Json = True
    pointer: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Extra:
    """A set of undeclared keys of an object, and the node and JSON Schema of their values."""

    node: "Node"
    source: Json = True
    keys: Texts = ALL_KEYS


@dataclass(frozen=True)
class Object:
    """Declared properties, undeclared keys that match a regular expression (no key matches two of
    them), and any other keys."""

    properties: tuple[Property, ...] = ()
    additional: "Node | None" = AnyValue()  # None: no other keys are allowed
    additional_source: Json = True
    presence: Presence = FREE  # beside the required keys
    patterned: tuple[Extra, ...] = ()

    @property
    def extras(self) -> tuple[Extra, ...]:
        """All undeclared keys; () if none are allowed."""
        if self.additional is None:
            return self.patterned
        return (*self.patterned, Extra(self.additional, self.additional_source))

    def find(self, key: str) -> Property | Extra | None:
        """Returns the declaration of a key, or the set of undeclared keys that contains it; None if
        the key is not allowed."""
        for declared in self.properties:
            if declared.key == key:
                return declared
        return self.find_extra(key)

    def find_extra(self, key: str) -> Extra | None:
        """Returns the set of undeclared keys that contains a key; None: it is not allowed."""
        for extra in self.extras:
            if extra.keys.accepts(key):
                return extra
        return None


@dataclass(frozen=True)
class Union:
    """A value of any of the branches."""

    branches: tuple["Node", ...]


@dataclass(frozen=True)
class Reference:
    """A reference to the definition with this name."""

    name: str


Flat: TypeAlias = AnyValue | Constant | String | Number | Boolean | Null | Array | Object
Node: TypeAlias = Flat | Union | Reference


@dataclass(frozen=True)
class Finding:
    """A remark about one keyword of a schema: its JSON pointer, the keyword, and the reason."""

    pointer: str
    keyword: str
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """The keywords of a schema, by how they are treated.

    Args:
        enforced: the mask enforces them.
        checked: the validator checks them after generation.
        repaired: read as something else than written, since the intention is clear.
        narrowed: the mask refuses some values that these keywords allow.
        ignored: not keywords of JSON Schema; they may be misspelled.
    """

    enforced: tuple[Finding, ...] = ()
    checked: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A validation error: a JSON pointer into the value, and the validator's message."""

    pointer: str
    message: str


@dataclass(frozen=True)
class Schema:
    """A lowered schema.

    Args:
        root: the document that `$ref`s in `source` point into.
        least: a lower bound for the characters of any value, in any spelling; 0: not known.
        origins: by the pointer of each definition in `root` that is a copy, the pointer of the
            definition in the client's document, which `report` names.
    """

    source: Json
    node: Node
    definitions: Mapping[str, Node]
    report: Report
    root: Json
    least: int = 0
    origins: Mapping[str, str] = field(default_factory=dict[str, str])

    def find_members(self, key: str) -> "list[Schema | None]":
        """Returns, for each object that the schema allows, in order: the schema of this key; None
        if that object cannot have the key."""
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
        """The objects that the schema allows, in order."""
        branches = flatten(self.node, self.definitions)
        return [branch for branch in branches if isinstance(branch, Object)]

    def can_have(self, keys: Iterable[str]) -> bool:
        """Returns whether one of the objects that the schema allows may have all these keys."""
        wanted = set(keys)
        for branch in flatten(self.node, self.definitions):
            match branch:
                case AnyValue():
                    return True
                case Object() if None not in map(branch.find, wanted):
                    return True
                case Constant(values):
                    if any(is_object(value) and value.keys() >= wanted for value in values):
                        return True
                case _:
                    pass
        return False

    @property
    def can_be_list(self) -> bool:
        for branch in flatten(self.node, self.definitions):
            if isinstance(branch, AnyValue | Array):
                return True
            if isinstance(branch, Constant) and any(map(is_list, branch.values)):
                return True
        return False

    def find_errors(self, value: Json) -> tuple[Violation, ...]:
        """Returns the first validation errors, also those of `format`; empty if the value fits."""
        try:
            error = self._validator.find_error(value)
            if error is not None:
                path, message = error
                return (Violation(point_to(path), message),)
            return tuple(islice(self._find_undeclared(self.node, value, ""), MAX_UNFIT))
        except (RecursionError, ValueError):  # jsonschema-rs refuses values of 256 levels
            return (Violation("", "the value is nested too deeply to be checked"),)

    def admits(self, value: Json) -> bool:
        return not self.find_errors(value)

    def _find_undeclared(self, node: Node, value: Json, pointer: str) -> Iterator[Violation]:
        """Yields the undeclared keys in closed objects, as the mask excludes them. Lowering closes
        some objects that JSON Schema leaves open, so jsonschema-rs does not report such keys. If a
        value may match several branches, nothing is reported."""
        container = Object if isinstance(value, dict) else Array
        candidates: list[Flat] = []
        for branch in flatten(node, self.definitions):
            if isinstance(branch, container | Constant | AnyValue):
                candidates.append(branch)
        match candidates:
            case [Object() as found] if is_object(value):
                for key, member in value.items():
                    inner = f"{pointer}/{escape(key)}"
                    declared = found.find(key)
                    if declared is None:
                        yield Violation(inner, f"{key!r} is not declared")
                    else:
                        yield from self._find_undeclared(declared.node, member, inner)
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
    """Returns the union of these nodes; if there is only one, that node."""
    if len(branches) == 1:
        return branches[0]
    return Union(tuple(branches))


def flatten(node: Node, definitions: Mapping[str, Node]) -> Iterator[Flat]:
    """Yields the branches of a node in order, without unions and references (followed once)."""
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


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns the node with each node directly inside of it changed."""

    def change_item(item: Node | None) -> Node | None:
        return None if item is None else change(item)

    match node:
        case Union(branches):
            return Union(tuple(map(change, branches)))
        case Array(prefix, items, contains=contains):
            if contains is not None:
                contains = replace(
                    contains,
                    matching=tuple(map(change_item, contains.matching)),
                    others=tuple(map(change_item, contains.others)),
                )
            prefix = tuple(map(change, prefix))
            return replace(node, prefix=prefix, items=change_item(items), contains=contains)
        case Object(properties, additional, patterned=patterned):
            return replace(
                node,
                properties=tuple(replace(one, node=change(one.node)) for one in properties),
                additional=change_item(additional),
                patterned=tuple(replace(one, node=change(one.node)) for one in patterned),
            )
        case _:
            return node


def list_children(node: Node) -> Iterable[Node]:
    """Returns the nodes directly inside of a node; the target of a reference is none."""
    match node:
        case Union(branches):
            return branches
        case Array(prefix, items, contains=contains):
            counted = () if contains is None else (*contains.matching, *contains.others)
            return [item for item in (*prefix, items, *counted) if item is not None]
        case Object(properties):
            return [member.node for member in (*properties, *node.extras)]
        case _:
            return ()


def find_references(node: Node) -> Set[str]:
    """Returns the definitions that a node refers to."""
    found = set[str]()
    queue = [node]
    while queue:
        part = queue.pop()
        if isinstance(part, Reference):
            found.add(part.name)
        queue += list_children(part)
    return found


def find_reached(node: Node, definitions: Mapping[str, Node]) -> Set[str]:
    """Returns the definitions that a node refers to, directly or through others."""
    reached = set[str]()
    queue = [*find_references(node)]
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += find_references(definitions[name])
    return reached


def improve_definitions(
    definitions: Mapping[str, Node], improve: Callable[[str, Node], bool]
) -> None:
    """Finds a fixed point: calls `improve` with each definition, and again with those that refer to
    one for which it has returned True."""
    named_by: dict[str, list[str]] = {name: [] for name in definitions}
    for name, node in definitions.items():
        for reference in find_references(node):
            named_by[reference].append(name)
    queue = list(definitions)
    while queue:
        name = queue.pop()
        if improve(name, definitions[name]):
            queue += named_by[name]


def are_same(a: Json, b: Json) -> bool:
    """Returns whether the values have the same JSON text: in Python, 1, 1.0 and True are equal."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def identify(value: Json) -> str:
    """Returns the same text for all spellings of a value: for 1 and 1.0, but not for 1 and true."""
    return json.dumps(_as_integers(value), sort_keys=True)


def _as_integers(value: Json) -> Json:
    """Returns the value, with each whole number as an integer."""
    match value:
        case list():
            return [_as_integers(v) for v in cast(list[Json], value)]
        case dict():
            return {k: _as_integers(v) for k, v in cast(dict[str, Json], value).items()}
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
