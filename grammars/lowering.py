"""JSON Schema -> `Schema`: what the mask can hold becomes nodes, the rest is listed as checked.

Lowering may only loosen: a keyword that is not held is in `report.checked`, and the validator
looks at it after generation. What cannot be read at all raises `SchemaError` with its pointer.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

from grammars.documents import find_problem, look_up
from grammars.errors import SchemaError
from grammars.inhabitation import NEVER, find_cause, prune
from grammars.keywords import HELD, are_disjoint, find_types, is_idle
from grammars.merging import ANNOTATIONS, as_list, merge
from grammars.patterns import ASSERTED, FORMATS, translate
from grammars.presence import simplify
from grammars.presence_keywords import find_presence
from grammars.schema import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Finding,
    Json,
    Node,
    Null,
    Number,
    Object,
    Property,
    Reference,
    Report,
    Schema,
    String,
    Union,
    escape,
    flatten,
    make_validator,
)

MOST_PARTS = 5_000  # subschemas that a schema comes to, conjunctions multiplied out
MOST_VALUES = 10_000  # of an enum that the mask holds
MOST_RESIDUES = 10_000  # that the mask counts for a multiple

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def lower(source: Json, *, close: bool = True, only_object: bool = True) -> Schema:
    """Lowers one JSON Schema document.

    Args:
        source: the schema, any draft from 4 to 2020-12, or true or false.
        close: objects that declare properties and are silent about others admit no others.
        only_object: the root has to be an object (the arguments of a tool).

    Raises:
        SchemaError: the schema is malformed, a `$ref` leads nowhere, or it admits no value
            (with `only_object`, no object).
    """
    if not isinstance(source, dict | bool):
        raise SchemaError("a schema is an object, true or false", where="")
    lowering = _Lowering(source, close)
    root = cast(Json, source)
    if only_object and (isinstance(root, bool) or root.get("type") != "object"):
        root = {"allOf": [root, {"type": "object"}]}
    problem = find_problem(source)
    if problem is not None and problem.where:
        raise problem
    try:
        lowered = lowering.lower(root, "")  # knows where a reference leads nowhere
    except RecursionError:
        raise SchemaError("the schema is nested too deeply", where="") from None
    if problem is not None:
        raise problem
    node, definitions = prune(lowered, lowering.definitions)
    kind = "object" if only_object else "value"
    if node == NEVER:
        where = find_cause(lowered, lowering.definitions)
        reason = f": nothing fits {where}" if where else ""
        raise SchemaError(f"the schema admits no {kind}{reason}", where=where, hint="Widen it")
    if only_object and not all(isinstance(b, Object) for b in flatten(node, definitions)):
        hint = "Declare its properties instead"
        raise SchemaError("arguments cannot be an enum or const", where="", hint=hint)
    return Schema(source, node, definitions, lowering.report(), source)


class _Lowering:
    """One document on its way; collects definitions and findings."""

    def __init__(self, root: Json, close: bool):
        self.root = root
        self.close = close
        draft = "" if isinstance(root, bool) else str(root.get("$schema", ""))
        self.references_stand_alone = re.search(r"/draft-0[3-7]/", draft) is not None
        self.definitions: dict[str, Node] = {}
        self.open: list[str] = []  # conjunctions on their way
        self.parts = 0
        self.enforced: dict[tuple[str, str], Finding] = {}
        self.checked: dict[tuple[str, str], Finding] = {}

    def report(self) -> Report:
        enforced = [f for key, f in self.enforced.items() if key not in self.checked]
        return Report(tuple(enforced), tuple(self.checked.values()))

    def lower(self, schema: Json, at: str) -> Node:
        """The node of a subschema; `at` is its JSON pointer in the document."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            message = f"the schema is too large: it comes to more than {MOST_PARTS:,} parts"
            raise SchemaError(message, where=at, hint="Simplify it, or split the tool")
        if isinstance(schema, bool):
            return AnyValue() if schema else NEVER
        flat = cast(Mapping[str, Json], schema)
        if "$ref" in flat and (self.references_stand_alone or not _says(flat).keys() - {"$ref"}):
            return self._refer(flat["$ref"], at)
        if "$ref" in flat or "allOf" in flat:
            return self._conjunction(_says(flat), at)
        return self._plain(flat, at)

    def _conjunction(self, flat: Mapping[str, Json], at: str) -> Node:
        """`allOf`, and `$ref` with siblings; met again inside itself it becomes a definition."""
        if set(flat) == {"allOf"} and len(flat["allOf"]) == 1:
            return self.lower(flat["allOf"][0], f"{at}/allOf/0")
        name = json.dumps(flat)
        if name in self.definitions or name in self.open:
            self.definitions.setdefault(name, NEVER)
            return Reference(name)
        self.open.append(name)
        node = self._plain(self._flatten(flat, at, ()), at)
        self.open.remove(name)
        if name not in self.definitions:
            return node
        self.definitions[name] = node
        return Reference(name)

    def _plain(self, flat: Mapping[str, Json], at: str) -> Node:
        held = find_presence(flat).keywords
        for keyword in ("anyOf", "oneOf"):
            if keyword in flat and keyword not in held:
                return self._branch(flat, keyword, at)
        if "enum" in flat or "const" in flat:
            return self._constant(flat, at)
        return self._typed(flat, at)

    def _refer(self, pointer: Json, at: str) -> Node:
        target = look_up(self.root, pointer, at)
        if pointer not in self.definitions:
            self.definitions[pointer] = NEVER
            self.definitions[pointer] = self.lower(target, pointer.removeprefix("#"))
        return Reference(pointer)

    def _flatten(
        self, schema: Mapping[str, Json], at: str, seen: tuple[str, ...]
    ) -> dict[str, Json]:
        """`$ref` with siblings and `allOf` merged into one object without `$ref`.

        What `merge` cannot say in one object stays in an `allOf`, beside an `anyOf` or `oneOf`.
        """
        if self.references_stand_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        flat = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
        parts: list[tuple[str, Json]] = []
        if (reference := schema.get("$ref")) is not None:
            parts.append(("$ref", reference))
        parts += [("allOf", part) for part in cast(list[Json], schema.get("allOf", []))]
        for keyword, part in parts:
            if keyword == "$ref":
                if part in seen:
                    self._check(at, keyword, "refers to itself beside other keywords")
                    continue
                part, seen = look_up(self.root, part, at), (*seen, part)
            if isinstance(part, bool):
                part = cast(Json, {} if part else {"enum": []})
            inner = self._flatten(cast(Mapping[str, Json], part), at, seen)
            flat, left_out = merge(flat, inner)
            for name in left_out:
                self._check(at, name, f"cannot be merged from {keyword}")
        return flat

    def _branch(self, flat: Mapping[str, Json], keyword: str, at: str) -> Node:
        base = {k: v for k, v in _says(flat).items() if k != keyword}
        parts = cast(list[Json], flat[keyword])
        branches: list[Node] = []
        for i, part in enumerate(parts):
            branches.append(
                self.lower({"allOf": [base, part]} if base else part, f"{at}/{keyword}/{i}")
            )
        if keyword == "oneOf" and not are_disjoint(branches, self.definitions):
            self._check(at, keyword, "the branches may overlap")
        self._enforce(at, keyword)
        return Union(tuple(branches))

    def _constant(self, flat: Mapping[str, Json], at: str) -> Node:
        values = cast(list[Json], flat["enum"]) if "enum" in flat else [flat["const"]]
        rest = {k: v for k, v in flat.items() if k != "enum"}
        if len(values) > MOST_VALUES:
            self._check(at, "enum", f"it has more than {MOST_VALUES:,} values")
            return self._plain({"type": find_types(values), **rest}, at)
        try:
            admits = make_validator(rest, self.root).is_valid
        except ValueError as e:  # a reference that `find_problem` has met already
            raise SchemaError(f"not a JSON Schema: {e}", where=at) from e
        self._enforce(at, "enum" if "enum" in flat else "const")
        kept = {json.dumps(v, sort_keys=True): v for v in values if admits(v)}
        return Constant(tuple(kept.values())) if kept else NEVER

    def _typed(self, flat: Mapping[str, Json], at: str) -> Node:
        if flat.get("not", False) in ({}, True):
            return NEVER
        types = cast(list[str], as_list(flat.get("type", [t for t in TYPES if t != "integer"])))
        presence = find_presence(flat)
        if not presence.others:
            types = [t for t in types if t == "object"]
        if "type" in flat:
            self._enforce(at, "type")
        spoken = {k for t in types for k in HELD.get("number" if t == "integer" else t, ())}
        spoken |= presence.keywords
        foreign = {k for held in HELD.values() for k in held} - spoken
        for keyword in flat:
            if keyword in spoken:
                self._enforce(at, keyword)
            elif keyword not in ANNOTATIONS | foreign | {"type"} and not is_idle(keyword, flat):
                self._check(at, keyword, "not held by the mask")
        if "type" not in flat and not set(flat) & spoken:
            return AnyValue()
        branches = [self._of_type(t, flat, at) for t in types]
        if not branches:
            return NEVER
        return branches[0] if len(branches) == 1 else Union(tuple(branches))

    def _of_type(self, name: str, flat: Mapping[str, Json], at: str) -> Node:
        match name:
            case "object":
                return self._object(flat, at)
            case "array":
                return self._array(flat, at)
            case "string":
                return self._string(flat, at)
            case "number" | "integer":
                bounds = {k: flat[k] for k in HELD["number"] if k in flat}
                if any(isinstance(v, bool) for v in bounds.values()):  # draft 4
                    self._check(at, "exclusiveMinimum", "spelled as in draft 4")
                    bounds = {k: v for k, v in bounds.items() if not isinstance(v, bool)}
                if Fraction(str(bounds.get("multipleOf", 1))).numerator > MOST_RESIDUES:
                    self._check(at, "multipleOf", "it has too many residues")
                    del bounds["multipleOf"]
                return Number(name == "integer", bounds)
            case "boolean":
                return Boolean()
            case _:
                return Null()

    def _object(self, flat: Mapping[str, Json], at: str) -> Node:
        declared = dict(cast(Mapping[str, Json], flat.get("properties", {})))
        required = cast(list[str], flat.get("required", []))
        rest = flat.get("additionalProperties")
        if rest is None:
            rest = not (self.close and "properties" in flat)
        if patterns := flat.get("patternProperties"):
            self._check(at, "additionalProperties", "beside patternProperties")
            rest = {"anyOf": [*patterns.values(), rest]}
        undeclared = rest if {"additionalProperties", "patternProperties"} & set(flat) else True
        additional = self.lower(rest, f"{at}/additionalProperties")
        found = find_presence(flat)
        spoken = found.wanted if additional == NEVER else found.spoken
        for key in (*required, *spoken):  # a key that is only required is declared, too
            declared.setdefault(key, undeclared)
        properties: list[Property] = []
        for key, schema in declared.items():
            node = self.lower(schema, f"{at}/properties/{escape(key)}")
            properties.append(Property(key, node, key in required, schema))
        if found.presence.least > 1 and additional != NEVER:
            self._check(at, "minProperties", "an undeclared key may be written twice")
        others = None if additional == NEVER else additional
        presence = simplify(found.presence, required, None if others else len(declared))
        return Object(tuple(properties), others, rest, presence)

    def _array(self, flat: Mapping[str, Json], at: str) -> Node:
        items, tuple_items = flat.get("items", True), flat.get("prefixItems", [])
        if isinstance(items, list):  # a tuple, as drafts before 2020-12 write it
            items, tuple_items = flat.get("additionalItems", True), cast(Json, items)
        prefix = [
            self.lower(s, f"{at}/prefixItems/{i}")
            for i, s in enumerate(cast(list[Json], tuple_items))
        ]
        rest = self.lower(items, f"{at}/items")
        return Array(
            tuple(prefix),
            None if rest == NEVER else rest,
            int(flat.get("minItems", 0)),
            None if flat.get("maxItems") is None else int(flat["maxItems"]),
        )

    def _string(self, flat: Mapping[str, Json], at: str) -> Node:
        pattern, name = flat.get("pattern"), flat.get("format")
        if pattern is not None and (pattern := translate(pattern)) is None:
            self._check(at, "pattern", "uses what a mask cannot hold (look-around, \\b, \\1)")
        if name in FORMATS and pattern is None:
            pattern = FORMATS[name]
        elif name in FORMATS or name in ASSERTED:
            self._check(at, "format", f"{name!r} is not held by the mask")
        longest = flat.get("maxLength")
        return String(
            int(flat.get("minLength", 0)), None if longest is None else int(longest), pattern
        )

    def _enforce(self, at: str, keyword: str) -> None:
        self.enforced.setdefault((at, keyword), Finding(at, keyword))

    def _check(self, at: str, keyword: str, reason: str) -> None:
        self.checked.setdefault((at, keyword), Finding(at, keyword, reason))


def _says(schema: Mapping[str, Json]) -> dict[str, Json]:
    """The schema without annotations."""
    return {k: v for k, v in schema.items() if k not in ANNOTATIONS}
