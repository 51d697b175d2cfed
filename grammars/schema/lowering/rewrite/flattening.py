"""Removes `$ref`, `allOf`, and the `unevaluated...` keywords from one schema."""

from collections.abc import Mapping
from functools import partial

from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import stands_alone
from grammars.schema.lowering.findings import Findings
from grammars.schema.lowering.keywords import as_list, is_idle
from grammars.schema.lowering.rewrite.merging import merge
from grammars.schema.lowering.rewrite.negation import Resolve
from grammars.schema.lowering.rewrite.unevaluated import state_evaluated
from grammars.schema.nodes import Finding
from grammars.schema.subschemas import is_object, look_up, omit

_MAX_NAME_DEPTH = 3  # alternatives inside each other in `propertyNames`
_FIXED: dict[bool, dict[str, Json]] = {True: {}, False: {"enum": []}}


class Flattening:
    """Flattens the schemas of one document."""

    def __init__(self, root: Json, findings: Findings):
        self._root = root
        self._findings = findings
        self.references_stand_alone = stands_alone(root)

    def resolve(self, pointer: str) -> Resolve:
        """Returns a function that follows the references of the schema at this JSON pointer."""
        return partial(look_up, self._root, pointer=pointer)

    def drop_unevaluated(self, schema: Mapping[str, Json], pointer: str) -> Mapping[str, Json]:
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
        names_pointer = f"{pointer}/propertyNames"
        flat = self._flatten_name(names, names_pointer, depth=_MAX_NAME_DEPTH, is_negated=False)
        return {**schema, "propertyNames": flat}

    def _flatten_name(self, schema: Json, pointer: str, *, depth: int, is_negated: bool) -> Json:
        """Flattens a schema of keys, up to a depth of alternatives inside each other. Inside of a
        `not`, it is returned as it is if anything would be left out: the `not` would refuse more
        keys."""
        if not is_object(schema) or not depth:
            return schema
        losses: list[Finding] = []
        flat = self._flatten(schema, pointer, under_way=(), merged=set(), losses=losses)
        if losses and is_negated:
            return schema
        self._report(losses)
        if "anyOf" in flat:
            flat["anyOf"] = [
                self._flatten_name(part, f"{pointer}/anyOf", depth=depth - 1, is_negated=is_negated)
                for part in as_list(flat["anyOf"])
            ]
        if "not" in flat:
            flat["not"] = self._flatten_name(
                flat["not"], f"{pointer}/not", depth=depth - 1, is_negated=True
            )
        return flat

    def flatten(self, schema: Mapping[str, Json], pointer: str) -> dict[str, Json]:
        """Merges `$ref` with siblings and `allOf` of the schema at a pointer into one object
        without `$ref`. Parts that `merge` cannot express in one object stay in an `allOf`, beside
        an `anyOf` or `oneOf`."""
        losses: list[Finding] = []
        flat = self._flatten(schema, pointer, under_way=(), merged=set(), losses=losses)
        self._report(losses)
        return flat

    def _report(self, losses: list[Finding]) -> None:
        for loss in losses:
            self._findings.check(loss.pointer, loss.keyword, loss.reason)

    def _flatten(
        self,
        schema: Mapping[str, Json],
        pointer: str,
        *,
        under_way: tuple[str, ...],
        merged: set[str],
        losses: list[Finding],
    ) -> dict[str, Json]:
        """As `flatten`; `losses` receives what is left out, so that the result allows more values.
        `under_way` are the references that lead here, `merged` all references so far. Repeating a
        part of a conjunction changes nothing, so each is followed once; otherwise there would be
        2^n paths through n levels."""
        spend(1 + len(schema))
        if self.references_stand_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        schema = self.drop_unevaluated(schema, pointer)
        flat = omit(schema, "$ref", "allOf")
        parts: list[tuple[str, Json]] = []
        reference = schema.get("$ref")
        if reference in under_way:
            losses.append(Finding(pointer, "$ref", "refers to itself next to other keywords"))
        elif reference is not None and reference not in merged:
            under_way = (*under_way, reference)
            merged.add(reference)
            parts.append(("$ref", look_up(self._root, reference, pointer)))
        parts += [("allOf", part) for part in schema.get("allOf", [])]
        for keyword, part in parts:
            schema = _FIXED[part] if isinstance(part, bool) else part
            other = self._flatten(
                schema, pointer, under_way=under_way, merged=merged, losses=losses
            )
            flat, left_out = merge(flat, other)
            for name in left_out:
                losses.append(Finding(pointer, name, f"cannot be merged from {keyword}"))
        return flat
