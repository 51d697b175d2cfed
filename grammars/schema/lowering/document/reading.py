"""Reads a JSON Schema document: repairs it, makes its references local, and validates it."""

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jsonschema_rs

from grammars.errors import SchemaError
from grammars.limits.steps import StepsError
from grammars.regex.ecma import find_fault
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.misplaced import repair_references
from grammars.schema.lowering.document.reached import drop_unused, gather_reached
from grammars.schema.lowering.document.references import find_draft, is_dynamic, localize
from grammars.schema.lowering.document.repairs import read_dialect, repair
from grammars.schema.nodes import Finding
from grammars.schema.pointers import point_to
from grammars.schema.subschemas import (
    LISTS,
    MAPS,
    SINGLES,
    find_keywords,
    find_origin,
    is_object,
    spend_on_document,
)
from grammars.schema.validator import LATEST, Validator

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
"""The dialect of documents that name none and are not valid in 2020-12: with `items` as a list."""

_DRAFT_HINT = f"Leave $schema out, or name a draft such as {LATEST}"


class DocumentReading(NamedTuple):
    """A document that has been read and repaired, with pointers for references.

    Args:
        problem: why it is not a JSON Schema; None if it is one. It points into `document`.
        origins: by the pointer of each definition in `document` that is a copy, the pointer of the
            definition in the document as it was.
    """

    document: Json
    repaired: tuple[Finding, ...]
    problem: SchemaError | None
    origins: Mapping[str, str]


def read_document(source: Json) -> DocumentReading:
    """Reads a document. If it has too many subschemas, or its patterns are too large, a StepsError
    points to one of these."""
    document, repaired, origins = _localize(drop_unused(source))
    with pointing_to_origins(origins):
        problem = find_problem(document)
    # a problem without a pointer may be a reference to nothing, which lowering finds
    if problem is not None and problem.where and _may_be_old(document):
        old = {"$schema": _DRAFT_7, **document}
        old_problem = _find_old_problem(old)
        if old_problem is None:
            reason = "none, and no schema of 2020-12: read as draft 7"
            repaired = (*repaired, Finding("", "$schema", reason))
            return DocumentReading(old, repaired, None, origins)
        problem = old_problem  # wrong in both drafts, unlike a list as `items`
    return DocumentReading(document, repaired, problem, origins)


def _localize(source: Json) -> tuple[Json, tuple[Finding, ...], Mapping[str, str]]:
    """Repairs a document, and makes its references local; again if they lead to places that were
    not known to have schemas. Returns it with the repairs and origins."""
    origins: dict[str, str] = {}
    repaired: dict[Finding, None] = {}

    def trace(pointers: Mapping[str, str]) -> None:
        origins.update({copy: find_origin(given, origins) for copy, given in pointers.items()})

    def note(findings: Iterable[Finding]) -> None:
        for finding in findings:
            pointer = find_origin(finding.pointer, origins)
            repaired[replace(finding, pointer=pointer)] = None

    document, moved = gather_reached(source)
    while True:
        trace(moved)
        spend_on_document(document)
        meant, found = repair(document)
        note(found)
        with pointing_to_origins(origins):
            local, copies = localize(meant)
        trace(copies)
        if local is not meant:
            spend_on_document(local)  # a dynamic reference beside a reference is a subschema more
        named, found = repair_references(local)
        note(found)
        if named is document:  # no reference is new
            return named, tuple(repaired), origins
        document, moved = gather_reached(named)
        if document is named:
            return named, tuple(repaired), origins


@contextmanager
def pointing_to_origins(origins: Mapping[str, str]) -> Generator[None]:
    """Makes errors inside the `with` block point into the document as it was."""
    try:
        yield
    except (SchemaError, StepsError) as error:
        if error.where is not None:
            error.where = find_origin(error.where, origins)
        raise


_NEW = frozenset(["$dynamicRef", "prefixItems"])


def _may_be_old(document: Json) -> bool:
    """Returns whether the document may be of a draft before 2020-12: it names none, and has no
    keyword that only 2020-12 has and that would mean nothing in earlier ones."""
    if not is_object(document) or "$schema" in document:
        return False
    if find_keywords(document) & _NEW:
        return False
    return not is_dynamic(document, ("$dynamicRef",))


def _find_old_problem(document: Mapping[str, Json]) -> SchemaError | None:
    """Returns the reason why this is no schema of draft 7, with what is in `$defs`: draft 7 does
    not know them, so they are validated as `definitions`."""
    defined, older = document.get("$defs"), document.get("definitions", {})
    if not is_object(defined) or not is_object(older):
        return find_problem(document)
    copies = {f"$defs/{name}": schema for name, schema in defined.items()}
    problem = find_problem({**document, "definitions": {**older, **copies}})
    if problem is None or problem.where is None:
        return problem
    where = problem.where.replace("/definitions/$defs~1", "/$defs/", 1)
    return SchemaError(problem.message, where=where, hint=problem.hint)


def find_problem(source: Json) -> SchemaError | None:
    """Returns the reason why this is not a JSON Schema; None if it is one. If its patterns are too
    large, a StepsError points to one of them."""
    draft = find_draft(source)
    if read_dialect(draft) is None:
        fault = f"{draft!r} is no known draft"
        if is_object(source) and not isinstance(source["$schema"], str):
            fault = "must be a text"
        message = f"not a JSON Schema: $schema {fault}"
        return SchemaError(message, where="/$schema", hint=_DRAFT_HINT)
    try:
        Validator(source, source)
        _shapes().validate(source)
    except StepsError:
        raise
    except jsonschema_rs.ValidationError as e:
        cause = _find_cause(e)
        return SchemaError(
            f"not a JSON Schema: {_explain(cause)}", where=point_to(cause.instance_path)
        )
    except (jsonschema_rs.ReferencingError, ValueError) as e:
        return SchemaError(f"not a JSON Schema: {e}", where="")
    return None


def _find_cause(error: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError:
    """Returns, of several alternatives, the error of the one that fails deepest in the document."""
    kind = error.kind
    if not isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf):
        return error
    causes = [branch[0] for branch in kind.context if branch]
    return max(causes, key=lambda cause: len(cause.instance_path), default=error)


def _explain(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Enum):
        options = ", ".join(json.dumps(option) for option in kind.options)
        return f"{json.dumps(error.instance)} is none of {options}"
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format == "regex":
        fault = find_fault(str(error.instance))
        if fault is not None:
            reason, at = fault
            return f"{error.message}, at character {at + 1}: {reason}"
    return error.message


@cache
def _shapes() -> Any:
    """Returns a validator for the types of keyword values in all drafts. Lowering reads keywords of
    other drafts, too, which the validator of one draft would not check."""
    schema: Json = {"$ref": "#"}
    names: Json = {"type": "array", "items": {"type": "string"}}
    shapes: dict[str, Json] = {}
    for keyword in sorted(SINGLES - {"items"}):
        shapes[keyword] = schema
    shapes["items"] = {"anyOf": [schema, {"type": "array", "items": schema}]}
    for keyword in sorted(LISTS - {"items"}):
        shapes[keyword] = {"type": "array", "items": schema}
    for keyword in sorted(MAPS - {"dependencies"}):
        shapes[keyword] = {"additionalProperties": schema}
    shapes["dependentSchemas"] = {"type": "object", "additionalProperties": schema}
    shapes["dependentRequired"] = {"type": "object", "additionalProperties": names}
    for keyword in ("minContains", "maxContains"):
        shapes[keyword] = {"type": "integer", "minimum": 0}
    return jsonschema_rs.validator_for({"type": ["object", "boolean"], "properties": shapes})
