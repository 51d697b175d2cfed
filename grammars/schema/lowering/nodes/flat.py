"""Turns a flat schema (no references, conjunctions or alternatives) into nodes, type by type."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain

from grammars.errors import SchemaError
from grammars.limits.steps import StepsError
from grammars.schema.counted import MAX_STATES, Counted
from grammars.schema.json_values import Json
from grammars.schema.lowering.findings import Findings
from grammars.schema.lowering.keywords import (
    ANNOTATIONS,
    EXPRESSIBLE,
    TYPES,
    as_list,
    is_asserting,
    is_idle,
    list_values,
)
from grammars.schema.lowering.nodes.inhabitation import NEVER
from grammars.schema.lowering.nodes.keys import read_keys
from grammars.schema.lowering.nodes.listed import exclude, list_choices
from grammars.schema.lowering.nodes.numbers import NumberLowering
from grammars.schema.lowering.nodes.strings import lower_string, read_length
from grammars.schema.lowering.rewrite.merging import conjoin
from grammars.schema.lowering.rewrite.negation import is_expressible, negate
from grammars.schema.lowering.rewrite.presence import find_presence
from grammars.schema.members import MAX_BITS, can_be_unordered
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Contains,
    Extra,
    Node,
    Null,
    Object,
    Property,
    Reference,
    escape,
    unite,
)
from grammars.schema.presence import simplify
from grammars.schema.subschemas import omit
from grammars.schema.validator import LATEST, RootDocument, Validator, count_parts

_COUNTING = frozenset(["contains", "minContains", "maxContains"])
_REPORTED_LATER = frozenset(["patternProperties", "propertyNames", "uniqueItems"]) | _COUNTING
"""Keywords that are reported when they are lowered."""
MAX_VALUES = 10_000  # of an enum that the mask enforces

Lower = Callable[[Json, str], Node]
"""Lowers a subschema, given its JSON pointer."""


class FlatLowering:
    """Lowers the flat schemas of one document; `close`: see `grammars.schema.lowering.lower`,
    `definitions`: what `lower` has made of them so far."""

    def __init__(
        self,
        root: Json,
        *,
        close: bool,
        findings: Findings,
        lower: Lower,
        definitions: Mapping[str, Node],
    ):
        self._document = RootDocument(root)
        self._close = close
        self._findings = findings
        self._lower = lower
        self._definitions = definitions
        self._numbers = NumberLowering(findings)

    def lower_constants(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns the values of `enum` or `const` that all other keywords allow."""
        values = list_values(flat)
        keyword = "enum" if "enum" in flat else "const"
        rest = omit(flat, keyword)
        if len(values) > MAX_VALUES or count_parts(values) > 2 * MAX_VALUES:
            self._findings.check(pointer, keyword, f"it has more than {MAX_VALUES:,} values")
            return self._lower({"type": find_types(values), **rest}, pointer)
        admits = self._make_test(rest, pointer)
        self._findings.enforce(pointer, keyword)
        admitted = filter(admits, values)
        distinct = {json.dumps(value, sort_keys=True): value for value in admitted}
        if not distinct:
            return NEVER
        return Constant(tuple(distinct.values()))

    def lower_exclusion(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns a schema with a `not` of an enum; enforced if nodes can express it."""
        excluded = flat["not"]
        values = as_list(excluded.get("enum", [excluded.get("const")]))
        node = self.lower_typed(omit(flat, "not"), pointer)
        rest = exclude(node, values)
        self._findings.note(pointer, ["not"], enforced=rest is not None)
        return node if rest is None else rest

    def lower_typed(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns the union of the types that a schema allows, each with its keywords."""
        types: list[str] = as_list(flat.get("type", [*TYPES]))
        present = find_presence(flat)
        if not present.others:
            types = [name for name in types if name == "object"]
        if "type" in flat:
            self._findings.enforce(pointer, "type")
        spoken = set(present.keywords)
        for name in types:
            spoken.update(EXPRESSIBLE.get(name, ()))
        self._report(flat, pointer, spoken)
        if "type" not in flat and not flat.keys() & (spoken | _REPORTED_LATER):
            return AnyValue()
        return unite([self._lower_type(name, flat, pointer) for name in types])

    def _report(self, flat: Mapping[str, Json], pointer: str, spoken: set[str]) -> None:
        """Reports keywords that apply to these types but that lowering does not read."""
        of_other_types = set(chain.from_iterable(EXPRESSIBLE.values())) - spoken
        silent = ANNOTATIONS | _REPORTED_LATER | {"type"} | of_other_types
        for keyword in flat:
            if keyword in silent or is_idle(keyword, flat):
                continue
            if keyword in spoken:
                self._findings.enforce(pointer, keyword)
            elif is_asserting(keyword):
                self._findings.check(pointer, keyword, "not enforced by the mask")
            else:
                self._findings.ignore(pointer, keyword)

    def _make_test(self, schema: Json, pointer: str) -> Callable[[Json], bool]:
        """Makes the validator's test for values. A schema that was merged or negated may be invalid
        in an old draft; then it is read as the latest draft."""
        if isinstance(schema, bool):
            return lambda _: schema
        problem: ValueError | None = None
        for stated in (schema, {"$schema": LATEST, **schema}):
            try:
                return Validator(stated, self._document).admits
            except StepsError:
                raise
            except ValueError as error:  # or a reference that `find_problem` has reported
                problem = error
        raise SchemaError(f"not a JSON Schema: {problem}", where=pointer) from problem

    def _lower_type(self, name: str, flat: Mapping[str, Json], pointer: str) -> Node:
        match name:
            case "object":
                return self._lower_object(flat, pointer)
            case "array":
                return self._lower_array(flat, pointer)
            case "string":
                return lower_string(flat, pointer, self._findings)
            case "number" | "integer":
                return self._numbers.lower(flat, pointer, integer=name == "integer")
            case "boolean":
                return Boolean()
            case _:
                return Null()

    def _lower_object(self, flat: Mapping[str, Json], pointer: str) -> Node:
        required: list[str] = flat.get("required", [])
        rest = flat.get("additionalProperties")
        if rest is None:
            rest = not (self._close and "properties" in flat)
        present = find_presence(flat)
        keys = read_keys(
            flat, rest, present=present, validate=partial(self._make_test, pointer=pointer)
        )
        for keyword in ("patternProperties", "propertyNames"):
            if keyword in flat and not is_idle(keyword, flat):
                self._findings.enforce(pointer, keyword)
        for keyword, reason in keys.checked.items():
            self._findings.check(pointer, keyword, reason)
        properties: list[Property] = []
        for key, schema in keys.declared.items():
            inner = f"{pointer}/properties/{escape(key)}"
            node = self._lower(schema, inner)
            properties.append(Property(key, node, key in required, source=schema, pointer=inner))
        extras: list[Extra] = []
        for others in keys.others:
            keyword = "additionalProperties"
            if others.patterns:
                keyword = f"patternProperties/{escape(others.patterns[0])}"
            node = self._lower(others.schema, f"{pointer}/{keyword}")
            if node != NEVER:
                extras.append(Extra(node, others.schema, others.keys))
        if extras and present.presence.least > 1:
            self._findings.check(pointer, "minProperties", "an undeclared key may be written twice")
        number = None if extras else len(properties)
        presence = simplify(present.presence, required, number)
        if not can_be_unordered(properties):
            reason = "so all keys come in the order of the schema, then undeclared ones"
            self._findings.narrow(
                pointer, "required", f"more than {MAX_BITS} required keys, {reason}"
            )
        return Object(tuple(properties), None, presence=presence, patterned=tuple(extras))

    def _lower_array(self, flat: Mapping[str, Json], pointer: str) -> Node:
        items: Json = flat.get("items", True)
        prefix: list[Json] = flat.get("prefixItems", [])
        if isinstance(items, list):  # a tuple in drafts before 2020-12
            prefix, items = flat["items"], flat.get("additionalItems", True)
        nodes = [
            self._lower(schema, f"{pointer}/prefixItems/{i}") for i, schema in enumerate(prefix)
        ]
        rest = self._lower(items, f"{pointer}/items")
        array = Array(
            prefix=tuple(nodes),
            items=None if rest == NEVER else rest,
            min_items=read_length(flat, "minItems", pointer, self._findings) or 0,
            max_items=read_length(flat, "maxItems", pointer, self._findings),
        )
        if flat.get("uniqueItems") is True and not is_idle("uniqueItems", flat):
            distinct = self._lower_distinct(array, flat, pointer)
            if distinct is not None:
                return distinct
        if not _counts(flat):
            return array
        contains = self._lower_contains(flat, [*prefix, items], pointer)
        counted = replace(array, contains=contains)
        is_enforced = contains is not None and Counted(counted).size <= MAX_STATES
        self._findings.note(pointer, _COUNTING & flat.keys(), enforced=is_enforced)
        return counted if is_enforced else array

    def _lower_distinct(self, array: Array, flat: Mapping[str, Json], pointer: str) -> Node | None:
        """Returns the lists without repeated items; None if the mask cannot enforce it."""
        items = array.items
        if isinstance(items, Reference):
            items = self._definitions[items.name]
            if isinstance(items, Constant):
                array = replace(array, items=items)
        distinct = list_choices(array)
        self._findings.note(pointer, ["uniqueItems"], enforced=distinct is not None)
        if distinct is None or not _counts(flat):
            return distinct
        # Lists that are written out can be tested. An automaton cannot count and compare at once.
        is_enforced = isinstance(distinct, Constant)
        self._findings.note(pointer, _COUNTING & flat.keys(), enforced=is_enforced)
        if is_enforced:
            return Constant(tuple(filter(self._make_test(flat, pointer), distinct.values)))
        return distinct

    def _lower_contains(
        self, flat: Mapping[str, Json], items: list[Json], pointer: str
    ) -> Contains | None:
        """Returns the limits for matching items, for the items of the prefix and, last, those after
        it; None if nodes cannot express it."""
        kind, most = flat["contains"], flat.get("maxContains")
        excluded: list[Json] = []  # any item may count as not matching
        if most is not None:  # unless the number of matches is limited
            most = int(most)
            others = negate(kind)
            excluded.append({"anyOf": others} if others else False)
        if not is_expressible(excluded):
            return None
        checked, enforced = dict(self._findings.checked), dict(self._findings.enforced)
        matching = [self._lower(conjoin(item, kind), f"{pointer}/contains") for item in items]
        unmatching = [
            self._lower(reduce(conjoin, excluded, item), f"{pointer}/items") for item in items
        ]
        is_loose = len(self._findings.checked) > len(checked)
        if is_loose and most is not None:
            self._findings.checked, self._findings.enforced = checked, enforced
            return None
        least = int(flat.get("minContains", 1))
        return Contains(tuple(matching), tuple(unmatching), least=least, most=most)


def _counts(flat: Mapping[str, Json]) -> bool:
    """Returns whether `contains` excludes any list."""
    return "contains" in flat and (flat.get("minContains", 1) > 0 or "maxContains" in flat)


def find_types(values: Sequence[Json]) -> list[str]:
    """Returns the JSON Schema types of these values; that of all numbers is `number`."""
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return list(dict.fromkeys(names[type(value)] for value in values))
