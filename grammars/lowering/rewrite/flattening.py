"""Removes `$ref`, `allOf`, and the `unevaluated...` keywords from one schema."""

from collections.abc import Mapping
from functools import partial

from grammars.lowering.document.references import stands_alone
from grammars.lowering.findings import Findings
from grammars.lowering.keywords import as_list, is_idle
from grammars.lowering.rewrite.merging import merge
from grammars.lowering.rewrite.negation import Resolve
from grammars.lowering.rewrite.unevaluated import state_evaluated
from grammars.schema.subschemas import Json, is_object, look_up, omit
from grammars.steps import spend

_MAX_NAME_DEPTH = 3  # alternatives inside each other in `propertyNames`
_FIXED: dict[bool, dict[str, Json]] = {True: {}, False: {"enum": []}}


class Flattening:
    """Flattens the schemas of one document.

    Args:
        root: the document.
        findings: receives what happens to rewritten keywords.
    """

    def __init__(self, root: Json, findings: Findings):
        self._root = root
        self._findings = findings
        self.references_stand_alone = stands_alone(root)

    def resolve(self, pointer: str) -> Resolve:
        """Returns a function that follows the references of the schema at this JSON pointer."""
        return partial(look_up, self._root, pointer=pointer)

    def drop_unevaluated(self, schema: Mapping[str, Json], pointer: str) -> Mapping[str, Json]:
        """Returns the schema without `unevaluatedProperties` and `unevaluatedItems`."""
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword not in schema or is_idle(keyword, schema):
                continue
            stated = state_evaluated(schema, keyword, self.resolve(pointer))
            if stated is not None:
                self._findings.enforce(pointer, keyword)
                schema = stated
            else:  # its meaning is lost when the other keywords are rewritten
                self._findings.check(pointer, keyword, "what is evaluated is not known")
                schema = omit(schema, keyword)
        return schema

    def flatten_names(self, schema: Mapping[str, Json], pointer: str) -> Mapping[str, Json]:
        """Returns the schema without `$ref` and `allOf` in its `propertyNames`. Generators refer to
        the enum of the keys there."""
        names = schema.get("propertyNames")
        if not is_object(names):
            return schema
        flat = self._flatten_name(names, f"{pointer}/propertyNames", _MAX_NAME_DEPTH)
        return {**schema, "propertyNames": flat}

    def _flatten_name(self, schema: Json, pointer: str, depth: int) -> Json:
        if not is_object(schema) or not depth:
            return schema
        flat = self.flatten(schema, pointer)
        for keyword in ("anyOf", "not"):
            if keyword not in flat:
                continue
            inner = f"{pointer}/{keyword}"
            parts = [self._flatten_name(part, inner, depth - 1) for part in as_list(flat[keyword])]
            flat[keyword] = parts if keyword == "anyOf" else parts[0]
        return flat

    def flatten(self, schema: Mapping[str, Json], pointer: str) -> dict[str, Json]:
        """Merges `$ref` with siblings and `allOf` into one object without `$ref`.

        Parts that `merge` cannot express in one object stay in an `allOf`, beside an `anyOf` or
        `oneOf`.

        Args:
            schema: the schema.
            pointer: its JSON pointer.
        """
        return self._flatten(schema, pointer, under_way=(), merged=set())

    def _flatten(
        self,
        schema: Mapping[str, Json],
        pointer: str,
        *,
        under_way: tuple[str, ...],
        merged: set[str],
    ) -> dict[str, Json]:
        """As `flatten`.

        Args:
            schema: the schema.
            pointer: its JSON pointer.
            under_way: the references that lead here.
            merged: all references so far. Repeating a part of a conjunction changes nothing, so
                each is followed once; otherwise there would be 2^n paths through n levels.
        """
        spend(1 + len(schema))
        if self.references_stand_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        schema = self.drop_unevaluated(schema, pointer)
        flat = omit(schema, "$ref", "allOf")
        parts: list[tuple[str, Json]] = []
        reference = schema.get("$ref")
        if reference in under_way:
            self._findings.check(pointer, "$ref", "refers to itself next to other keywords")
        elif reference is not None and reference not in merged:
            under_way = (*under_way, reference)
            merged.add(reference)
            parts.append(("$ref", look_up(self._root, reference, pointer)))
        parts += [("allOf", part) for part in schema.get("allOf", [])]
        for keyword, part in parts:
            schema = _FIXED[part] if isinstance(part, bool) else part
            other = self._flatten(schema, pointer, under_way=under_way, merged=merged)
            flat, left_out = merge(flat, other)
            for name in left_out:
                self._findings.check(pointer, name, f"cannot be merged from {keyword}")
        return flat
