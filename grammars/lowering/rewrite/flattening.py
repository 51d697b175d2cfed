"""One schema without `$ref`, `allOf`, and keywords that depend on what others evaluate."""

from collections.abc import Mapping
from functools import partial

from grammars.lowering.document.references import stands_alone
from grammars.lowering.findings import Findings
from grammars.lowering.keywords import is_idle
from grammars.lowering.rewrite.merging import merge
from grammars.lowering.rewrite.negation import Resolve
from grammars.lowering.rewrite.unevaluated import state_evaluated
from grammars.schema.subschemas import Json, look_up, omit

_FIXED: dict[bool, dict[str, Json]] = {True: {}, False: {"enum": []}}


class Flattening:
    """Flattens the schemas of one document.

    Args:
        root: the document.
        findings: takes what becomes of keywords that are rewritten.
    """

    def __init__(self, root: Json, findings: Findings):
        self._root = root
        self._findings = findings
        self.references_stand_alone = stands_alone(root)

    def resolve(self, at: str) -> Resolve:
        """Follows the references of the schema at that JSON pointer."""
        return partial(look_up, self._root, at=at)

    def drop_unevaluated(self, schema: Mapping[str, Json], at: str) -> Mapping[str, Json]:
        """The schema without `unevaluatedProperties` and `unevaluatedItems`."""
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword not in schema or is_idle(keyword, schema):
                continue
            stated = state_evaluated(schema, keyword, self.resolve(at))
            if stated is not None:
                self._findings.enforce(at, keyword)
                schema = stated
            else:  # its meaning is lost once the other keywords are taken apart
                self._findings.check(at, keyword, "what is evaluated is not known")
                schema = omit(schema, keyword)
        return schema

    def flatten(
        self, schema: Mapping[str, Json], at: str, followed: tuple[str, ...] = ()
    ) -> dict[str, Json]:
        """`$ref` with siblings and `allOf` merged into one object without `$ref`.

        What `merge` cannot say in one object stays in an `allOf`, beside an `anyOf` or `oneOf`.

        Args:
            schema: the schema.
            at: its JSON pointer.
            followed: the references on the way here.
        """
        if self.references_stand_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        schema = self.drop_unevaluated(schema, at)
        flat = omit(schema, "$ref", "allOf")
        parts: list[tuple[str, Json]] = []
        reference = schema.get("$ref")
        if reference in followed:
            self._findings.check(at, "$ref", "refers to itself beside other keywords")
        elif reference is not None:
            followed = (*followed, reference)
            parts.append(("$ref", look_up(self._root, reference, at)))
        parts += [("allOf", part) for part in schema.get("allOf", [])]
        for keyword, part in parts:
            schema = _FIXED[part] if isinstance(part, bool) else part
            flat, left_out = merge(flat, self.flatten(schema, at, followed))
            for name in left_out:
                self._findings.check(at, name, f"cannot be merged from {keyword}")
        return flat
