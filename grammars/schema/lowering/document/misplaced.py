"""Repairs references to nowhere whose meaning is clear: pointers into a document that was embedded
unchanged in another one, definitions referred to by their bare name, schemas by an `id` that is
none in the draft of the document, and relative JSON pointers."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from grammars.errors import SchemaError
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import is_dynamic, write_pointer
from grammars.schema.nodes import Finding
from grammars.schema.pointers import find_value, point_to
from grammars.schema.subschemas import is_object, look_up, map_parts, walk_schemas

_PLACES = (("$defs",), ("definitions",), ("components", "schemas"))
"""Where the documents of different dialects have their definitions."""
_PATHS = "|".join(re.escape("/".join(place)) for place in _PLACES)
_BY_NAME = re.compile(rf"(?:#?/(?:(?:{_PATHS})/)?)?([^/#:?]+)")
"""A name, or a path to it in one of these places; not an anchor (`#name`)."""
_RELATIVE = re.compile("([0-9]{1,3})((?:/.*)?)", re.DOTALL)
"""A relative JSON pointer: so many steps up, then down along the pointer."""
_IN_PLACE = re.compile(r"(?:/(?:allOf|anyOf|oneOf)/[0-9]+)*")
"""The path from a schema to a subschema that applies to the same value."""


def repair_references(document: Json) -> tuple[Json, tuple[Finding, ...]]:
    """Repairs such references; returns the document (the same object if nothing changes), and the
    repairs. Unclear references stay as they are, and so do references that would lead back to
    themselves. A document with dynamic names (`$dynamicRef`) stays unchanged."""
    if is_dynamic(document):
        return document, ()
    meanings = _find_meanings(document)
    loops = _find_loops(document, meanings)
    findings: list[Finding] = []

    def visit(schema: Json, pointer: str) -> Json:
        if not is_object(schema):
            return schema
        changed = map_parts(schema, lambda part, step: visit(part, pointer + step))
        if pointer in meanings and pointer not in loops:
            changed["$ref"] = meanings[pointer]
            findings.append(Finding(pointer, "$ref", f"leads nowhere, read as {meanings[pointer]}"))
        return changed

    mended = visit(document, "") if len(loops) < len(meanings) else document
    return mended, tuple(findings)


def _find_meanings(document: Json) -> dict[str, str]:
    """Returns, for each schema whose reference leads nowhere, the pointer that is meant."""
    meanings: dict[str, str] = {}
    schemas = dict(walk_schemas(document))
    definitions = _list_definitions(document)
    identified = _list_identified(schemas)
    for pointer, schema in schemas.items():
        reference = schema.get("$ref")
        if not isinstance(reference, str) or _leads(document, reference):
            continue
        meaning = (
            _find_enclosed(reference, pointer, schemas)
            or identified.get(reference)
            or _find_named(reference, definitions)
            or _find_relative(reference, pointer, document)
        )
        if meaning is not None:
            meanings[pointer] = meaning
    return meanings


def _find_loops(document: Json, meanings: Mapping[str, str]) -> set[str]:
    """Returns the schemas whose references would lead back to themselves: no value fits them."""
    loops = set[str]()
    for pointer, meaning in meanings.items():
        outer = unquote(meaning[1:])
        if pointer.startswith(outer) and _IN_PLACE.fullmatch(pointer, len(outer)) is not None:
            loops.add(pointer)
    known = set[str]()
    for start in meanings:
        path: list[str] = []
        current: str | None = start
        while current is not None and current not in known:
            known.add(current)
            path.append(current)
            current = _follow(document, meanings, current)
        if current in path:
            loops.update(set(path[path.index(current) :]).intersection(meanings))
    return loops


def _follow(document: Json, meanings: Mapping[str, str], pointer: str) -> str | None:
    """Returns the pointer to which the reference of a schema leads; None if it has none."""
    schema = look_up(document, write_pointer(pointer), "")
    reference = meanings.get(pointer) or (schema.get("$ref") if is_object(schema) else None)
    if not isinstance(reference, str) or not _leads(document, reference):
        return None
    return unquote(reference[1:])


def _leads(root: Json, reference: str) -> bool:
    try:
        look_up(root, reference, "")
    except SchemaError:
        return False
    return True


def _find_relative(reference: str, pointer: str, document: Json) -> str | None:
    """Returns the pointer that a relative JSON pointer (`1/from`) means at this schema.
    zod-to-json-schema writes them with `$refStrategy: "relative"`."""
    relative = _RELATIVE.fullmatch(reference)
    if relative is None:
        return None
    steps = pointer.split("/")
    up = int(relative[1])
    if up >= len(steps):
        return None
    meaning = write_pointer("/".join(steps[: len(steps) - up]) + relative[2])
    return meaning if _leads(document, meaning) else None


def _find_enclosed(
    reference: str, pointer: str, schemas: Mapping[str, Mapping[str, Json]]
) -> str | None:
    """Returns the pointer to the target in the innermost schema around this one that has it."""
    if not reference.startswith("#/"):
        return None
    outer = pointer
    while True:
        if outer in schemas and _leads(schemas[outer], reference):
            return f"{write_pointer(outer)}{reference[1:]}"
        if not outer:
            return None
        outer = outer.rpartition("/")[0]


def _find_named(reference: str, definitions: Mapping[str, str]) -> str | None:
    """Returns the pointer to the definition of this name; None if there is not exactly one."""
    named = _BY_NAME.fullmatch(reference)
    return None if named is None else definitions.get(named[1])


def _list_definitions(document: Json) -> dict[str, str]:
    """Returns the definitions of a document in these places: pointers by name."""
    found: list[tuple[str, str]] = []
    for place in _PLACES:
        holder = find_value(document, point_to(place))
        if is_object(holder):
            found += [(name, point_to((*place, name))) for name in holder]
    return _keep_single(found)


def _list_identified(schemas: Mapping[str, Mapping[str, Json]]) -> dict[str, str]:
    """Returns the schemas by the names that other drafts give them (`id` before draft 6): pointers
    by name. Those of this draft are resolved already."""
    found: list[tuple[str, str]] = []
    for pointer, schema in schemas.items():
        for keyword in ("id", "$id"):
            name = schema.get(keyword)
            if isinstance(name, str) and name:
                found.append((name, pointer))
    return _keep_single(found)


def _keep_single(named: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns references to these pointers by name, without the names that several have."""
    counts = Counter(name for name, _ in named)
    return {name: write_pointer(pointer) for name, pointer in named if counts[name] == 1}
