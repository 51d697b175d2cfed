"""JSON Schema -> `Schema`: what the mask can enforce becomes nodes, the rest is reported as
checked.

Lowering may only allow more values, not fewer: a keyword that the mask does not enforce is in
`report.checked`, and the validator checks it after generation. What cannot be read raises
`SchemaError` with its pointer.
"""

import json
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import unquote

from grammars.errors import SchemaError
from grammars.limits.steps import WRITTEN, StepsError, limit_steps, spend
from grammars.schema.extent import measure_least
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.reading import (
    DocumentReading,
    pointing_to_origins,
    read_document,
)
from grammars.schema.lowering.findings import Findings
from grammars.schema.lowering.keywords import drop_annotations
from grammars.schema.lowering.nodes.flat import FlatLowering
from grammars.schema.lowering.nodes.inhabitation import NEVER, find_cause, prune
from grammars.schema.lowering.nodes.overlap import find_overlaps
from grammars.schema.lowering.rewrite.conditions import Split, divide, find_split, is_exclusion
from grammars.schema.lowering.rewrite.flattening import Flattening
from grammars.schema.lowering.rewrite.presence import find_presence
from grammars.schema.nodes import AnyValue, Node, Object, Reference, Schema, Union, flatten, unite
from grammars.schema.subschemas import find_origin, is_object, look_up, map_parts, omit
from grammars.schema.text_members import find_covered
from grammars.schema.validator import find_multiplied

OPENNESS = frozenset(["properties", "additionalProperties", "patternProperties"])
"""Keywords that decide whether an object without `additionalProperties` allows undeclared keys."""
ALTERNATIVES = frozenset(["allOf", "anyOf", "oneOf"])
"""Keywords with alternatives in a schema whose conjunctions are merged."""
DECLARING = ALTERNATIVES | OPENNESS | {"$ref", "then", "else", "dependentSchemas"}
"""Keywords that declare properties, or may have schemas that do."""
MAX_READING = 80_000  # steps to read a document; 15,000 to 25,000 subschemas take these


@dataclass(frozen=True)
class LoweringEffort:
    """How far a schema is multiplied out. What is beyond is checked after generation."""

    steps: int  # 80,000 take about 0.4 s
    splits: int  # schemas that are split into alternatives which exclude each other
    nested: int  # conjunctions inside each other


EFFORTS = (
    LoweringEffort(steps=80_000, splits=200, nested=1_000),
    LoweringEffort(steps=140_000, splits=0, nested=4),
    LoweringEffort(steps=60_000, splits=0, nested=1),
)
"""A schema that takes too many steps is lowered again with less effort. Alternatives multiply with
those inside them and beside them. A reference to itself with other keywords beside it may be a new
schema on each level. Of 2,500 real schemas, 20 need the second effort, and none the third."""
_DEEP = "too many conjunctions inside each other"
_DRAFTS = ("http://json-schema.org/draft", "https://json-schema.org/draft")


def lower(source: Json, *, close: bool = True, only_object: bool = True) -> Schema:
    """Lowers one JSON Schema document of any draft from 3 to 2020-12.

    Args:
        close: objects that declare properties allow no others, unless they say so.
        only_object: the root must be an object (the arguments of a tool).

    Raises:
        SchemaError: the schema is malformed, a `$ref` points to nothing, or no value fits (with
            `only_object`: no object).
    """
    if not isinstance(source, dict | bool):
        raise SchemaError("a schema must be an object, true or false", where="")
    try:
        return _lower_with_efforts(source, close=close, only_object=only_object)
    except StepsError as error:
        raise _refuse_size(error.where or "") from error
    except RecursionError:
        raise SchemaError("the schema is nested too deeply", where="") from None


def _refuse_size(pointer: str) -> SchemaError:
    message = (
        "the schema is too large: it has too many subschemas, or its references and alternatives "
        "expand too far"
    )
    if pointer.endswith("/pattern") or "/patternProperties" in pointer:
        message = "the schema is too large: the counts of its patterns expand too far"
    return SchemaError(message, where=pointer, hint="Simplify it, or split the tool")


def _keep_type(schema: Json) -> Json:
    """Returns the schema itself; of a conjunction, the types of its first part that has some."""
    if not is_object(schema) or "allOf" not in schema:
        return schema
    for part in (schema, *schema["allOf"]):
        if is_object(part) and "type" in part:
            return {"type": part["type"]}
    return True


def list_cases(flat: Mapping[str, Json]) -> list[Json]:
    """Returns the schemas that hold for some values of a flat schema only, by `if` or by the
    presence of a key; and what could not be merged into it, which is more of these."""
    cases = [flat[keyword] for keyword in ("then", "else") if keyword in flat]
    cases += flat.get("allOf", [])
    for keyword in ("dependentSchemas", "dependencies"):
        cases += flat.get(keyword, {}).values()
    return cases


def declares_keys(schema: Json, declared: Container[str]) -> bool:
    """Returns whether the schema, or a part of it, may declare properties, or requires other keys
    than the declared ones."""
    if not is_object(schema):
        return False
    if schema.keys() & DECLARING:
        return True
    return any(key not in declared for key in schema.get("required", ()))


def _lower_with_efforts(source: Json, *, close: bool, only_object: bool) -> Schema:
    """Reads a document once, and lowers it with the most effort that its limit of steps allows."""
    *earlier, last = EFFORTS
    with limit_steps(MAX_READING):
        reading = read_document(source)
        multiplied = None if reading.problem is not None else find_multiplied(reading.document)
    if multiplied is not None:
        raise _refuse_size(find_origin(multiplied, reading.origins))
    with pointing_to_origins(reading.origins):
        for effort in earlier:
            with suppress(StepsError), limit_steps(effort.steps):
                return _lower(reading, close=close, only_object=only_object, effort=effort)
        with limit_steps(last.steps):
            return _lower(reading, close=close, only_object=only_object, effort=last)


def _lower(
    reading: DocumentReading, *, close: bool, only_object: bool, effort: LoweringEffort
) -> Schema:
    document, problem = reading.document, reading.problem
    lowering = _Lowering(reading, close=close, effort=effort)
    root = document
    if only_object and (isinstance(root, bool) or root.get("type") != "object"):
        root = {"allOf": [root, {"type": "object"}]}
    # A problem without a pointer may be a reference that points to nothing; lowering finds it.
    if problem is not None and problem.where:
        raise problem
    lowered = lowering.lower(root, "")
    if problem is not None:
        raise problem
    node, definitions, unwritten = prune(lowered, lowering.definitions)
    if node == NEVER:
        kind = "object" if only_object else "value"
        message = f"the schema allows no {kind}"
        pointer = find_cause(lowered, lowering.definitions)
        if pointer:
            message += f": nothing fits {find_origin(pointer, reading.origins)}"
        raise SchemaError(message, where=pointer, hint="Loosen its constraints")
    for pointer in unwritten:
        lowering.findings.bar(pointer)
    least = measure_least(node, definitions)
    types = set(map(type, flatten(node, definitions)))
    if only_object and not types <= {Object}:
        hint = "Declare its properties instead"
        raise SchemaError("arguments cannot be an enum or const", where="", hint=hint)
    report = replace(lowering.findings.report(), repaired=reading.repaired)
    return Schema(
        document, node, definitions, report, root=document, least=least, origins=reading.origins
    )


class _Lowering:
    """Lowers the subschemas of one document: rewrites each until it is flat, then makes nodes."""

    def __init__(self, reading: DocumentReading, *, close: bool, effort: LoweringEffort):
        self._root = root = reading.document
        self._close = close
        self.findings = Findings(root, reading.origins)
        self.definitions: dict[str, Node] = {}
        self._flattening = Flattening(root, self.findings)
        self._flat = FlatLowering(
            root,
            close=close,
            findings=self.findings,
            lower=self.lower,
            definitions=self.definitions,
        )
        self._open = set[str]()  # conjunctions that are being lowered
        self._splits_left = effort.splits
        self._max_nested = effort.nested

    def lower(self, schema: Json, pointer: str) -> Node:
        """Returns the node of a subschema; `pointer` is its JSON pointer in the document."""
        try:
            spend()
            return self._lower(schema, pointer)
        except StepsError as error:
            if error.where is None:  # the innermost pointer is the most exact
                error.where = pointer
            raise

    def _lower(self, schema: Json, pointer: str) -> Node:
        if isinstance(schema, bool):
            return AnyValue() if schema else NEVER
        stated = self._flattening.drop_unevaluated(schema, pointer)
        if "$ref" not in stated and "allOf" not in stated:
            return self._lower_unconjoined(stated, pointer)
        keywords = drop_annotations(stated)
        if "$ref" in keywords and (self._flattening.references_stand_alone or len(keywords) == 1):
            return self._refer(keywords["$ref"], pointer)
        return self._lower_conjunction(keywords, pointer)

    def _refer(self, reference: Json, pointer: str) -> Node:
        """Returns a `$ref` without siblings; its target becomes a definition."""
        if str(reference).startswith(_DRAFTS):
            self.findings.check(pointer, "$ref", "refers to a draft of JSON Schema")
            return AnyValue()
        target = look_up(self._root, reference, pointer)
        if reference not in self.definitions:
            self.definitions[reference] = NEVER  # until it is lowered, since it may refer to itself
            self.definitions[reference] = self.lower(target, unquote(reference[1:]))
        return Reference(reference)

    def _lower_conjunction(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """`allOf`, and `$ref` with siblings. If it contains itself, it becomes a definition."""
        if set(flat) == {"allOf"} and len(flat["allOf"]) == 1:
            return self.lower(flat["allOf"][0], f"{pointer}/allOf/0")
        name = json.dumps(flat)
        spend(1 + len(name) // WRITTEN)
        if name in self.definitions or name in self._open:
            self.definitions.setdefault(name, NEVER)
            return Reference(name)
        merged = self._flattening.flatten(flat, pointer)
        if len(self._open) >= self._max_nested:
            merged = self._loosen(merged, pointer)
        self._open.add(name)
        node = self._lower_unconjoined(merged, pointer)
        self._open.remove(name)
        if name not in self.definitions:
            return node
        self.definitions[name] = node
        return Reference(name)

    def _loosen(self, flat: Mapping[str, Json], pointer: str) -> Mapping[str, Json]:
        """Returns the schema without alternatives, and without conjunctions in its members: both
        are checked after generation."""
        dropped = ALTERNATIVES & flat.keys()
        for keyword in dropped:
            self.findings.check(pointer, keyword, _DEEP)
        loose = map_parts(omit(flat, *ALTERNATIVES), lambda part, step: _keep_type(part))
        for keyword in loose:
            if loose[keyword] != flat[keyword]:
                self.findings.check(pointer, keyword, _DEEP)
        if dropped:
            return self._open_object(loose)
        return loose

    def _open_object(self, flat: Mapping[str, Json]) -> Mapping[str, Json]:
        """Returns the schema of an object that allows undeclared keys, unless it excludes them
        itself: keywords that are checked after generation may declare some."""
        if not self._close or "additionalProperties" in flat:
            return flat
        return {**flat, "additionalProperties": True}

    def _lower_unconjoined(self, flat: Mapping[str, Json], pointer: str) -> Node:
        """Returns a schema without `$ref` and `allOf`; it may have alternatives."""
        if "enum" in flat or "const" in flat:
            return self._flat.lower_constants(flat, pointer)
        flat = self._flattening.flatten_names(flat, pointer)
        untouched = find_presence(flat).keywords
        for keyword in ("anyOf", "oneOf"):
            if keyword in flat and keyword not in untouched:
                return self._lower_branches(flat, keyword, pointer)
        split = find_split(flat, untouched, self._flattening.resolve(pointer))
        if split is not None and self._splits_left > 0:
            return self._lower_split(split, pointer)
        declared = flat.get("properties", {})
        cases = list_cases(omit(flat, *untouched))  # those are enforced with their keys
        if any(declares_keys(case, declared) for case in cases):
            flat = self._open_object(flat)
        if "not" in flat and is_exclusion(flat):
            return self._flat.lower_exclusion(flat, pointer)
        return self._flat.lower_typed(flat, pointer)

    def _lower_branches(self, flat: Mapping[str, Json], keyword: str, pointer: str) -> Node:
        """`anyOf` or `oneOf`: each branch together with the keywords beside it."""
        base = drop_annotations(flat)
        parts: list[Json] = base.pop(keyword)
        branches: list[Node] = []
        for i, part in enumerate(parts):
            spend(1 + len(base))
            branches.append(self._lower_beside(base, part, f"{pointer}/{keyword}/{i}"))
        overlaps: list[list[int]] = []
        if keyword == "oneOf":
            overlaps = find_overlaps(branches, self.definitions)
        if any(overlaps):
            divided = divide(parts, overlaps, self._flattening.resolve(pointer))
            if divided is None or self._splits_left <= 0:
                self.findings.check(pointer, keyword, "the branches may overlap")
            else:
                self._splits_left -= 1
                enforced = dict(self.findings.enforced)
                alternatives, is_whole = divided
                branches = [self._lower_beside(base, part, pointer) for part in alternatives]
                self.findings.enforced = enforced  # of the branches as written
                if not is_whole:
                    self.findings.narrow(pointer, keyword, "no values that nearly fit two branches")
        self.findings.enforce(pointer, keyword)
        united = Union(tuple(branches))
        self._narrow_raw(united, pointer, keyword)
        return united

    def _lower_split(self, split: Split, pointer: str) -> Node:
        self._splits_left -= 1
        base = split.base
        if self._close and not OPENNESS & base.keys():
            base = {**base, "additionalProperties": True}  # alternatives do not close an object
        for keyword in split.keywords:
            if split.exact:
                self.findings.enforce(pointer, keyword)
            else:
                self.findings.check(pointer, keyword, "the mask enforces a part of it")
        united = unite([self._lower_beside(base, part, pointer) for part in split.parts])
        self._narrow_raw(united, pointer, split.keywords[0])
        return united

    def _narrow_raw(self, alternatives: Node, pointer: str, keyword: str) -> None:
        """Reports what formats with raw text cannot write before it is clear which object it is."""
        nodes = list(flatten(alternatives, self.definitions))
        objects = [node for node in nodes if isinstance(node, Object)]
        covered = find_covered(objects, self.definitions)
        if covered:
            reason = (
                f"in formats of raw text, no list, object or multiple as {covered[0]!r} before what"
                " tells that it is no text"
            )
            self.findings.narrow(pointer, keyword, reason)

    def _lower_beside(self, base: Mapping[str, Json], part: Json, pointer: str) -> Node:
        if base:
            part = {"allOf": [base, part]}
        return self.lower(part, pointer)
