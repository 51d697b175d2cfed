"""References that lead nowhere although it is plain what they mean: into a document that was put
into another one as it was, or to a definition by its name alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from grammars.errors import SchemaError
from grammars.lowering.document.references import is_dynamic
from grammars.schema.nodes import Finding, Json
from grammars.schema.subschemas import is_object, look_up, map_parts, point_to

_PLACES = (("$defs",), ("definitions",), ("components", "schemas"))
"""Where documents of different dialects keep their definitions."""
_BY_NAME = re.compile(r"(?:#?/(?:[\w$]+/)*)?([^/#:?]+)")
"""A name, or a path inside of one document that ends with it; no anchor (`#name`)."""


@dataclass(frozen=True)
class _Enclosing:
    """A schema that encloses the one with the reference."""

    schema: Json
    at: str


def mend_references(document: Json) -> tuple[Json, tuple[Finding, ...]]:
    """The document with such references as pointers, and which they are; the document itself if
    there are none. What cannot be found stays as it is, and so does all of a document with names
    that count (`$dynamicRef`)."""
    if is_dynamic(document):
        return document, ()
    findings: list[Finding] = []
    definitions = _list_definitions(document)

    def visit(schema: Json, at: str, around: Sequence[_Enclosing]) -> Json:
        if not is_object(schema):
            return schema
        inner = (*around, _Enclosing(schema, at))
        changed = map_parts(schema, lambda part, step: visit(part, at + step, inner))
        reference = schema.get("$ref")
        if isinstance(reference, str) and not _leads(document, reference):
            meant = _find_enclosed(reference, inner) or _find_named(reference, definitions)
            if meant is not None:
                changed["$ref"] = meant
                findings.append(Finding(at, "$ref", f"leads nowhere, read as {meant}"))
        return changed

    mended = visit(document, "", ())
    return (mended if findings else document), tuple(findings)


def _leads(root: Json, reference: str) -> bool:
    try:
        look_up(root, reference, "")
    except SchemaError:
        return False
    return True


def _find_enclosed(reference: str, around: Sequence[_Enclosing]) -> str | None:
    """The pointer to what the innermost enclosing schema has there."""
    if not reference.startswith("#/"):
        return None
    for enclosing in reversed(around):
        if _leads(enclosing.schema, reference):
            return f"{_write_pointer(enclosing.at)}{reference[1:]}"
    return None


def _find_named(reference: str, definitions: Mapping[str, str]) -> str | None:
    """The pointer to the only definition of that name."""
    named = _BY_NAME.fullmatch(reference)
    if named is None:
        return None
    return definitions.get(named[1])


def _write_pointer(pointer: str) -> str:
    """A JSON pointer as the fragment of a URI (RFC 6901, section 6)."""
    return "#" + quote(pointer, safe="/~$")


def _list_definitions(document: Json) -> dict[str, str]:
    """The names of the definitions of a document that stand in one of these places, each with its
    pointer."""
    found: dict[str, str] = {}
    twice = set[str]()
    for place in _PLACES:
        holder = document
        for step in place:
            holder = holder.get(step) if is_object(holder) else None
        if not is_object(holder):
            continue
        for name in holder:
            if name in found:
                twice.add(name)
            found[name] = _write_pointer(point_to((*place, name)))
    return {name: pointer for name, pointer in found.items() if name not in twice}
