"""References that lead nowhere although it is plain what they mean: into a document that was put
into another one as it was, or to a definition by its name alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from grammars.errors import SchemaError
from grammars.lowering.document.references import is_dynamic
from grammars.schema.nodes import Finding, Json
from grammars.schema.subschemas import is_object, look_up, map_parts, point_to

_PLACES = (("$defs",), ("definitions",), ("components", "schemas"))
"""Where documents of different dialects keep their definitions."""
_PATHS = "|".join(re.escape("/".join(place)) for place in _PLACES)
_BY_NAME = re.compile(rf"(?:#?/(?:(?:{_PATHS})/)?)?([^/#:?]+)")
"""A name, or a path to it in one of these places; no anchor (`#name`)."""
_IN_PLACE = re.compile(r"(?:/(?:allOf|anyOf|oneOf)/[0-9]+)*")
"""The way from a schema to one that the same value has to match."""


@dataclass(frozen=True)
class _Enclosing:
    """A schema that encloses the one with the reference."""

    schema: Json
    at: str


def mend_references(document: Json) -> tuple[Json, tuple[Finding, ...]]:
    """The document with such references as pointers, and which they are; the document itself if
    there are none. What cannot be found stays as it is, so does what would lead back to itself, and
    so does all of a document with names that count (`$dynamicRef`)."""
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
    """The pointers that references which lead nowhere are meant as, by the places of the schemas
    with the references."""
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
    """The places of the references that would lead back to their own schema, at once or by others:
    no value could match it."""
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
    """Is the schema at the second place the one at the first, or a part for the same value?"""
    return at.startswith(place) and _IN_PLACE.fullmatch(at, len(place)) is not None


def _follow(document: Json, meanings: Mapping[str, str], place: str) -> str | None:
    """The place that the reference of a schema leads to; None if it has none that leads on."""
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
