"""One flat schema (no references, conjunctions or alternatives) -> nodes, type by type."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import cast

from grammars.errors import SchemaError
from grammars.lowering.keywords import (
    HELD,
    TYPES,
    find_types,
    is_asserting,
    is_idle,
    is_light,
    read_bounds,
)
from grammars.lowering.nodes.choices import list_choices
from grammars.lowering.nodes.exclusion import exclude
from grammars.lowering.nodes.inhabitation import NEVER
from grammars.lowering.nodes.keys import Part, read_keys
from grammars.lowering.rewrite.merging import ANNOTATIONS, as_list, conjoin
from grammars.lowering.rewrite.negation import is_expressible, negate
from grammars.lowering.rewrite.presence import find_presence
from grammars.regex.ecma import translate
from grammars.regex.string_formats import ASSERTED, FORMATS
from grammars.schema.counted import MOST_STATES, Counted
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Contains,
    Extra,
    Finding,
    Json,
    Node,
    Null,
    Number,
    Object,
    Property,
    Report,
    String,
    Union,
    escape,
    make_validator,
)
from grammars.schema.presence import simplify
from grammars.schema.subschemas import find_keywords

_LONG = 50  # characters
_LONGEST_PATTERN = 10_000  # characters
_MOST_COUNTED = 2**31 - 1
_REPEATED = re.compile(r"\)[*+{]")
_COUNTING = frozenset(["contains", "minContains", "maxContains"])
_SETTLED = frozenset(["patternProperties", "propertyNames", "uniqueItems"]) | _COUNTING
"""Keywords that are reported where they are lowered."""
MOST_VALUES = 10_000  # of an enum that the mask holds
LATEST = "https://json-schema.org/draft/2020-12/schema"


class FlatLowering(ABC):
    """Lowers flat schemas of one document; collects findings.

    Args:
        root: the document.
        close: objects that declare properties and are silent about others admit no others.
    """

    def __init__(self, root: Json, close: bool):
        self.root = root
        self.close = close
        self.keywords = find_keywords(root)
        self.enforced: dict[tuple[str, str], Finding] = {}
        self.checked: dict[tuple[str, str], Finding] = {}
        self.ignored: dict[tuple[str, str], Finding] = {}

    @abstractmethod
    def lower(self, schema: Json, at: str) -> Node:
        """The node of a subschema; `at` is its JSON pointer in the document."""

    def report(self) -> Report:
        """What is held, what is not."""
        enforced = [f for key, f in self.enforced.items() if key not in self.checked]
        return Report(
            tuple(enforced), tuple(self.checked.values()), ignored=tuple(self.ignored.values())
        )

    def _constant(self, flat: Mapping[str, Json], at: str) -> Node:
        """Of the values that are listed, those that all other keywords admit."""
        values = cast(list[Json], flat["enum"]) if "enum" in flat else [flat["const"]]
        rest = {k: v for k, v in flat.items() if k != "enum"}
        if len(values) > MOST_VALUES:
            self._check(at, "enum", f"it has more than {MOST_VALUES:,} values")
            return self.lower({"type": find_types(values), **rest}, at)
        admits = self._validate(rest, at)
        self._enforce(at, "enum" if "enum" in flat else "const")
        kept = {json.dumps(v, sort_keys=True): v for v in values if admits(v)}
        return Constant(tuple(kept.values())) if kept else NEVER

    def _validate(self, schema: Json, at: str) -> Callable[[Json], bool]:
        """Whether values fit. What was merged or negated may be no schema of an old draft."""
        if isinstance(schema, bool):
            return lambda _: schema
        for candidate in (schema, {"$schema": LATEST, **cast(dict[str, Json], schema)}):
            try:
                return make_validator(candidate, self.root).is_valid
            except ValueError as e:  # or a reference that `find_problem` has met already
                error = e
        raise SchemaError(f"not a JSON Schema: {error}", where=at) from error

    def _typed(self, flat: Mapping[str, Json], at: str) -> Node:
        types = cast(list[str], as_list(flat.get("type", [*TYPES])))
        presence = find_presence(flat)
        if not presence.others:
            types = [t for t in types if t == "object"]
        if "type" in flat:
            self._enforce(at, "type")
        spoken = {k for t in types for k in HELD.get("number" if t == "integer" else t, ())}
        spoken |= presence.keywords
        self._report(flat, at, spoken)
        if "type" not in flat and not set(flat) & (spoken | _SETTLED):
            return AnyValue()
        branches = [self._of_type(t, flat, at) for t in types]
        if not branches:
            return NEVER
        return branches[0] if len(branches) == 1 else Union(tuple(branches))

    def _report(self, flat: Mapping[str, Json], at: str, spoken: set[str]) -> None:
        """What becomes of keywords beside the type, where they speak of these types."""
        foreign = {k for held in HELD.values() for k in held} - spoken
        for keyword in flat:
            if keyword in ANNOTATIONS | foreign | _SETTLED | {"type"} or is_idle(keyword, flat):
                continue
            if keyword in spoken:
                self._enforce(at, keyword)
            elif is_asserting(keyword):
                self._check(at, keyword, "not held by the mask")
            else:
                self.ignored.setdefault((at, keyword), Finding(at, keyword, "no such keyword"))

    def _excluding(self, flat: Mapping[str, Json], at: str) -> Node:
        """Beside a `not` of an enum, which is held where nodes can say it."""
        rest = {k: v for k, v in flat.items() if k != "not"}
        values = as_list(flat["not"].get("enum", [flat["not"].get("const")]))
        node = self._typed(rest, at)
        without = exclude(node, values)
        if without is None:
            self._check(at, "not", "not held by the mask")
            return node
        self._enforce(at, "not")
        return without

    def _of_type(self, name: str, flat: Mapping[str, Json], at: str) -> Node:
        match name:
            case "object":
                return self._object(flat, at)
            case "array":
                return self._array(flat, at)
            case "string":
                return self._string(flat, at)
            case "number" | "integer":
                return self._number(flat, at, integer=name == "integer")
            case "boolean":
                return Boolean()
            case _:
                return Null()

    def _object(self, flat: Mapping[str, Json], at: str) -> Node:
        required = cast(list[str], flat.get("required", []))
        rest = flat.get("additionalProperties")
        if rest is None:
            rest = not (self.close and "properties" in flat)
        found = find_presence(flat)
        keys = read_keys(flat, rest, found, partial(self._validate, at=at))
        for keyword in ("patternProperties", "propertyNames"):
            if keyword in flat and not is_idle(keyword, flat):
                self._enforce(at, keyword)
        for keyword, reason in keys.loose.items():
            self._check(at, keyword, reason)
        properties: list[Property] = []
        for key, schema in keys.declared.items():
            node = self.lower(schema, f"{at}/properties/{escape(key)}")
            properties.append(Property(key, node, key in required, schema))
        extras = tuple(e for e in (self._extra(p, at) for p in keys.others) if e.node != NEVER)
        if extras and found.presence.least > 1:
            self._check(at, "minProperties", "an undeclared key may be written twice")
        presence = simplify(found.presence, required, None if extras else len(properties))
        return Object(tuple(properties), None, presence=presence, patterned=extras)

    def _extra(self, part: Part, at: str) -> Extra:
        """Undeclared keys."""
        where = [f"patternProperties/{escape(pattern)}" for pattern in part.where[:1]]
        node = self.lower(part.schema, f"{at}/{''.join(where) or 'additionalProperties'}")
        return Extra(node, part.schema, part.keys)

    def _array(self, flat: Mapping[str, Json], at: str) -> Node:
        items, tuple_items = flat.get("items", True), flat.get("prefixItems", [])
        if isinstance(items, list):  # a tuple, as drafts before 2020-12 write it
            items, tuple_items = flat.get("additionalItems", True), cast(Json, items)
        prefix = [
            self.lower(s, f"{at}/prefixItems/{i}")
            for i, s in enumerate(cast(list[Json], tuple_items))
        ]
        rest = self.lower(items, f"{at}/items")
        array = Array(
            tuple(prefix),
            None if rest == NEVER else rest,
            self._length(flat, "minItems", at) or 0,
            self._length(flat, "maxItems", at),
        )
        chosen = None
        if flat.get("uniqueItems") is True and not is_idle("uniqueItems", flat):
            chosen = list_choices(array)
            self._settle(at, ["uniqueItems"], chosen is not None)
        if not _counts(flat):
            return array if chosen is None else chosen
        if isinstance(chosen, Constant):
            admits = self._validate(flat, at)
            self._settle(at, _COUNTING & set(flat), True)
            return Constant(tuple(v for v in chosen.values if admits(v)))
        if chosen is not None:
            self._settle(at, _COUNTING & set(flat), False)
            return chosen
        contains = self._contains(flat, [*tuple_items, items], at)
        counted = array if contains is None else replace(array, contains=contains)
        held = contains is not None and Counted(counted).size <= MOST_STATES
        self._settle(at, _COUNTING & set(flat), held)
        return counted if held else array

    def _contains(self, flat: Mapping[str, Json], items: list[Json], at: str) -> Contains | None:
        """How many items match; None where that cannot be said.

        Args:
            items: the schemas of the items, that of those behind the prefix last.
        """
        kind, most = flat["contains"], flat.get("maxContains")
        excluded = [{"anyOf": negate(kind)}] if most is not None else []
        if not is_expressible(excluded):
            return None
        known = dict(self.checked), dict(self.enforced)
        matching = tuple(self.lower(conjoin(item, kind), f"{at}/contains") for item in items)
        others = tuple(self.lower(reduce(conjoin, excluded, item), f"{at}/items") for item in items)
        is_loose = len(self.checked) > len(known[0])
        if is_loose and most is not None:
            self.checked, self.enforced = known
            return None
        least = int(flat.get("minContains", 1))
        return Contains(matching, others, least, None if most is None else int(most))

    def _settle(self, at: str, keywords: Iterable[str], held: bool) -> None:
        """Reports what becomes of these keywords."""
        for keyword in sorted(keywords):
            if held:
                self._enforce(at, keyword)
            else:
                self._check(at, keyword, "not held by the mask")

    def _number(self, flat: Mapping[str, Json], at: str, *, integer: bool) -> Number:
        bounds = read_bounds(flat)
        if "multipleOf" in bounds and not is_light(bounds["multipleOf"]):
            self._check(at, "multipleOf", "too many digits for a mask")
            del bounds["multipleOf"]
        return Number(integer, bounds)

    def _string(self, flat: Mapping[str, Json], at: str) -> Node:
        pattern, name = flat.get("pattern"), flat.get("format")
        if pattern is not None and (pattern := translate(pattern)) is None:
            self._check(at, "pattern", "uses what a mask cannot hold (look-around, \\b, \\1)")
        elif pattern is not None and len(pattern) > _LONGEST_PATTERN:
            self._check(at, "pattern", "too long for a mask")
            pattern = None
        if name in FORMATS and pattern is None:
            pattern = FORMATS[name]
        elif name in FORMATS or name in ASSERTED:
            self._check(at, "format", f"{name!r} is not held by the mask")
        shortest = self._length(flat, "minLength", at) or 0
        if shortest > _LONG and pattern is not None and _REPEATED.search(pattern):
            self._check(at, "minLength", "too much for a mask beside that pattern")
            shortest = 0
        return String(shortest, self._length(flat, "maxLength", at), pattern)

    def _length(self, flat: Mapping[str, Json], keyword: str, at: str) -> int | None:
        """How long something has to be or may be, as far as a mask counts."""
        value = flat.get(keyword)
        if value is None or value <= _MOST_COUNTED:
            return None if value is None else int(value)
        self._check(at, keyword, "too large for a mask")
        return _MOST_COUNTED if keyword.startswith("min") else None

    def _enforce(self, at: str, keyword: str) -> None:
        if keyword in self.keywords:  # others stand for what was taken apart
            self.enforced.setdefault((at, keyword), Finding(at, keyword))

    def _check(self, at: str, keyword: str, reason: str) -> None:
        self.checked.setdefault((at, keyword), Finding(at, keyword, reason))


def _counts(flat: Mapping[str, Json]) -> bool:
    """Does `contains` exclude anything?"""
    some = flat.get("minContains", 1) > 0 or "maxContains" in flat
    return "contains" in flat and some
