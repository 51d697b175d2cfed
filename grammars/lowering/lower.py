"""JSON Schema -> `Schema`: what the mask can hold becomes nodes, the rest is listed as checked.

Lowering may only loosen: a keyword that is not held is in `report.checked`, and the validator
looks at it after generation. What cannot be read at all raises `SchemaError` with its pointer.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from grammars.errors import SchemaError
from grammars.lowering.document.reading import look_up, read_document
from grammars.lowering.document.references import stands_alone
from grammars.lowering.keywords import are_disjoint, find_overlaps, is_idle
from grammars.lowering.nodes.flat import FlatLowering
from grammars.lowering.nodes.inhabitation import NEVER, find_cause, prune
from grammars.lowering.rewrite.conditions import Split, divide, find_split, is_exclusion
from grammars.lowering.rewrite.merging import ANNOTATIONS, merge
from grammars.lowering.rewrite.negation import Resolve
from grammars.lowering.rewrite.presence import find_presence
from grammars.lowering.rewrite.unevaluated import settle
from grammars.schema.nodes import AnyValue, Json, Node, Object, Reference, Schema, Union, flatten

OPENNESS = frozenset(["properties", "additionalProperties", "patternProperties"])
"""Keywords that settle whether an object that is silent about other keys admits some."""
MOST_PARTS = 5_000  # subschemas that a schema comes to, conjunctions multiplied out
MOST_SPLITS = 200
"""After so many schemas that were taken apart into alternatives, the rest is checked."""
_DRAFTS = ("http://json-schema.org/draft", "https://json-schema.org/draft")


def lower(source: Json, *, close: bool = True, only_object: bool = True) -> Schema:
    """Lowers one JSON Schema document.

    Args:
        source: the schema, any draft from 3 to 2020-12, or true or false.
        close: objects that declare properties and are silent about others admit no others.
        only_object: the root has to be an object (the arguments of a tool).

    Raises:
        SchemaError: the schema is malformed, a `$ref` leads nowhere, or it admits no value
            (with `only_object`, no object).
    """
    if not isinstance(source, dict | bool):
        raise SchemaError("a schema is an object, true or false", where="")
    try:
        document, repaired, problem = read_document(source)
        lowering = _Lowering(document, close)
        root = document
        if only_object and (isinstance(root, bool) or root.get("type") != "object"):
            root = {"allOf": [root, {"type": "object"}]}
        if problem is not None and problem.where:
            raise problem
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
    report = replace(lowering.report(), repaired=repaired)
    return Schema(document, node, definitions, report, document)


class _Lowering(FlatLowering):
    """One document on its way; collects definitions and findings."""

    def __init__(self, root: Json, close: bool):
        super().__init__(root, close)
        self.references_stand_alone = stands_alone(root)
        self.definitions: dict[str, Node] = {}
        self.open: list[str] = []  # conjunctions on their way
        self.parts = self.splits = 0

    def lower(self, schema: Json, at: str) -> Node:
        """The node of a subschema; `at` is its JSON pointer in the document."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            message = f"the schema is too large: it comes to more than {MOST_PARTS:,} parts"
            raise SchemaError(message, where=at, hint="Simplify it, or split the tool")
        if isinstance(schema, bool):
            return AnyValue() if schema else NEVER
        flat = self._evaluate(cast(Mapping[str, Json], schema), at)
        if "$ref" in flat and (self.references_stand_alone or not _says(flat).keys() - {"$ref"}):
            return self._refer(flat["$ref"], at)
        if "$ref" in flat or "allOf" in flat:
            return self._conjunction(_says(flat), at)
        return self._plain(flat, at)

    def _evaluate(self, flat: Mapping[str, Json], at: str) -> Mapping[str, Json]:
        """The schema without keywords that depend on what others evaluate."""
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword in flat and not is_idle(keyword, flat):
                settled = settle(flat, keyword, self._resolve(at))
                if settled is not None:
                    self._enforce(at, keyword)
                    flat = settled
                else:  # what it means is lost once the others are taken apart
                    self._check(at, keyword, "what is evaluated is not known")
                    flat = {k: v for k, v in flat.items() if k != keyword}
        return flat

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
        if "enum" in flat or "const" in flat:
            return self._constant(flat, at)
        held = find_presence(flat).keywords
        for keyword in ("anyOf", "oneOf"):
            if keyword in flat and keyword not in held:
                return self._branch(flat, keyword, at)
        split = find_split(flat, held, self._resolve(at))
        if split is not None and self.splits < MOST_SPLITS:
            return self._split(split, at)
        if "not" in flat and is_exclusion(flat):
            return self._excluding(flat, at)
        return self._typed(flat, at)

    def _split(self, split: Split, at: str) -> Node:
        """The alternatives, each with what stands beside them."""
        self.splits += 1
        base = split.base
        if self.close and not OPENNESS & set(base):
            base = {**base, "additionalProperties": True}  # the cases alone do not close an object
        for keyword in split.keywords:
            if split.exact:
                self._enforce(at, keyword)
            else:
                self._check(at, keyword, "the mask holds a part of it")
        branches = [self._beside(base, part, at) for part in split.parts]
        return branches[0] if len(branches) == 1 else Union(tuple(branches))

    def _refer(self, pointer: Json, at: str) -> Node:
        if str(pointer).startswith(_DRAFTS):
            self._check(at, "$ref", "refers to a draft of JSON Schema")
            return AnyValue()
        target = look_up(self.root, pointer, at)
        if pointer not in self.definitions:
            self.definitions[pointer] = NEVER
            self.definitions[pointer] = self.lower(target, pointer.removeprefix("#"))
        return Reference(pointer)

    def _resolve(self, at: str) -> Resolve:
        """Follows the references of the schema there."""
        return partial(look_up, self.root, at=at)

    def _flatten(
        self, schema: Mapping[str, Json], at: str, seen: tuple[str, ...]
    ) -> dict[str, Json]:
        """`$ref` with siblings and `allOf` merged into one object without `$ref`.

        What `merge` cannot say in one object stays in an `allOf`, beside an `anyOf` or `oneOf`.
        """
        if self.references_stand_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        schema = self._evaluate(schema, at)
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
        branches = [self._beside(base, p, f"{at}/{keyword}/{i}") for i, p in enumerate(parts)]
        if keyword == "oneOf" and not are_disjoint(branches, self.definitions):
            overlaps = find_overlaps(branches, self.definitions)
            divided = divide(parts, overlaps, self._resolve(at))
            if divided is None or self.splits >= MOST_SPLITS:
                self._check(at, keyword, "the branches may overlap")
            else:
                self.splits, told = self.splits + 1, dict(self.enforced)
                branches = [self._beside(base, part, at) for part in divided]
                self.enforced = told  # of the branches as they stand there
        self._enforce(at, keyword)
        return Union(tuple(branches))

    def _beside(self, base: Mapping[str, Json], part: Json, at: str) -> Node:
        return self.lower({"allOf": [base, part]} if base else part, at)


def _says(schema: Mapping[str, Json]) -> dict[str, Json]:
    """The schema without annotations."""
    return {k: v for k, v in schema.items() if k not in ANNOTATIONS}
