"""Repairs references to nowhere whose meaning is clear: pointers into a document that was embedded
unchanged in another one, and definitions referred to by their bare name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from grammars.errors import SchemaError
from grammars.lowering.document.references import is_dynamic
from grammars.schema.nodes import Finding, Json
from grammars.schema.subschemas import is_object, look_up, map_parts, point_to

_PLACES = (("$defs",), ("definitions",), ("components", "schemas"))
"""Where the documents of different dialects have their definitions."""
_PATHS = "|".join(re.escape("/".join(place)) for place in _PLACES)
_BY_NAME = re.compile(rf"(?:#?/(?:(?:{_PATHS})/)?)?([^/#:?]+)")
"""A name, or a path to it in one of these places; not an anchor (`#name`)."""
_IN_PLACE = re.compile(r"(?:/(?:allOf|anyOf|oneOf)/[0-9]+)*")
"""The path from a schema to a subschema that applies to the same value."""


@dataclass(frozen=True)
class _Enclosing:
    """A schema around the one with the reference."""

    schema: Json
    at: str


def mend_references(document: Json) -> tuple[Json, tuple[Finding, ...]]:
    """Repairs such references. Unclear references stay as they are, and so do references that would
    lead back to themselves. A document with dynamic names (`$dynamicRef`) stays unchanged.

    Returns:
        the document (the same object if nothing changes), and the repairs.
    """
    if is_dynamic(document):
        return document, ()
    meanings = _find_meanings(document)
    loops = _find_loops(document, meanings)
    findings: list[Finding] = []

    def visit(schema: Json, at: str) -> Json:
        if not is_object(schema):
            return schema
        changed = map_parts(schema, lambda part, step: visit(part, at + step))
        if at in meanings and at not in loops:
            changed["$ref"] = meanings[at]
            findings.append(Finding(at, "$ref", f"leads nowhere, read as {meanings[at]}"))
        return changed

    mended = visit(document, "") if len(loops) < len(meanings) else document
    return mended, tuple(findings)


def _find_meanings(document: Json) -> dict[str, str]:
    """For each schema whose reference leads nowhere: the pointer that is meant."""
    meanings: dict[str, str] = {}
    definitions = _list_definitions(document)

    def visit(schema: Json, at: str, around: Sequence[_Enclosing]) -> Json:
        if not is_object(schema):
            return schema
        inner = (*around, _Enclosing(schema, at))
        map_parts(schema, lambda part, step: visit(part, at + step, inner))
        reference = schema.get("$ref")
        if isinstance(reference, str) and not _leads(document, reference):
            pointer = _find_enclosed(reference, inner) or _find_named(reference, definitions)
            if pointer is not None:
                meanings[at] = pointer
        return schema

    visit(document, "", ())
    return meanings


def _find_loops(document: Json, meanings: Mapping[str, str]) -> set[str]:
    """The schemas whose references would lead back to themselves, directly or through others; no
    value could match them."""
    loops = {at for at, pointer in meanings.items() if _encloses(unquote(pointer[1:]), at)}
    known = set[str]()
    for start in meanings:
        path: list[str] = []
        place: str | None = start
        while place is not None and place not in known:
            known.add(place)
            path.append(place)
            place = _follow(document, meanings, place)
        if place in path:
            loops.update(set(path[path.index(place) :]).intersection(meanings))
    return loops


def _encloses(place: str, at: str) -> bool:
    """True if the schema at the second pointer is the first one, or a part of it that applies to
    the same value."""
    return at.startswith(place) and _IN_PLACE.fullmatch(at, len(place)) is not None


def _follow(document: Json, meanings: Mapping[str, str], place: str) -> str | None:
    """The pointer to which the reference of a schema leads; None if it has none."""
    schema = look_up(document, _write_pointer(place), "")
    reference = meanings.get(place) or (schema.get("$ref") if is_object(schema) else None)
    if not isinstance(reference, str) or not _leads(document, reference):
        return None
    return unquote(reference[1:])


def _leads(root: Json, reference: str) -> bool:
    try:
        look_up(root, reference, "")
    except SchemaError:
        return False
    return True


def _find_enclosed(reference: str, around: Sequence[_Enclosing]) -> str | None:
    """The pointer to the target in the innermost enclosing schema that has it."""
    if not reference.startswith("#/"):
        return None
    for enclosing in reversed(around):
        if _leads(enclosing.schema, reference):
            return f"{_write_pointer(enclosing.at)}{reference[1:]}"
    return None


def _find_named(reference: str, definitions: Mapping[str, str]) -> str | None:
    """The pointer to the definition of this name; None if there is not exactly one."""
    named = _BY_NAME.fullmatch(reference)
    if named is None:
        return None
    return definitions.get(named[1])


def _write_pointer(pointer: str) -> str:
    """Writes a JSON pointer as a URI fragment (RFC 6901, section 6)."""
    return "#" + quote(pointer, safe="/~$")


def _list_definitions(document: Json) -> dict[str, str]:
    """The definitions of a document in these places: pointers by name."""
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
