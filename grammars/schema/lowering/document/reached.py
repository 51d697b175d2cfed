"""Finds the schemas that references reach.

Definitions that no reference needs are left out: tools often come with the definitions of their
whole service, which need not be read, nor be schemas. Schemas elsewhere (`#/components/schemas/A`,
or any other keyword that is unknown to JSON Schema) are moved to the definitions of the document,
so that they are repaired, validated and lowered like all others.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from grammars.limits.steps import spend
from grammars.schema.json_values import Json, walk_values
from grammars.schema.lowering.document.references import (
    LocalDocument,
    find_id_keyword,
    stands_alone,
    write_pointer,
)
from grammars.schema.pointers import escape, find_member, split_pointer
from grammars.schema.subschemas import (
    DEFINITIONS,
    DYNAMIC_REFERENCES,
    find_keyword,
    is_object,
    list_parts,
    map_parts,
    omit,
)

_NOTHING = object()
_POINTER = re.compile("#(/.*)?", re.DOTALL)
"""A JSON pointer; other references may name any part."""


def drop_unused(source: Json) -> Json:
    """Returns the document without the definitions at its root that no reference leads to, neither
    from its other parts nor from definitions that are used; a definition counts as used if a
    reference has its name. The same object if all are used, or if a reference leads to a name
    (`$id`, `$anchor`, `$dynamicAnchor`) and not to a place."""
    if not is_object(source):
        return source
    places: dict[str, dict[str, Json]] = {}
    for keyword in DEFINITIONS:
        if is_object(source.get(keyword)):
            places[keyword] = source[keyword]
    used = _find_used(omit(source, *places), places.values())
    if used is None or all(definitions.keys() <= used for definitions in places.values()):
        return source
    kept = dict(source)
    for keyword, definitions in places.items():
        kept[keyword] = {name: part for name, part in definitions.items() if name in used}
    return kept


def _find_used(rest: Json, places: Iterable[Mapping[str, Json]]) -> set[str] | None:
    """Returns the names in references, from the root on, also in unknown keywords and in data;
    None: one of them may lead anywhere."""
    used = set[str]()
    queue = [rest]
    while queue:
        for part in walk_values(queue.pop()):
            if not is_object(part):
                continue
            if any(isinstance(part.get(keyword), str) for keyword in DYNAMIC_REFERENCES):
                return None
            reference = part.get("$ref")
            if not isinstance(reference, str):
                continue
            if not _POINTER.fullmatch(reference):
                return None
            for name in split_pointer(unquote(reference)) + split_pointer(reference):
                if name not in used:
                    used.add(name)
                    queue += [definitions.get(name) for definitions in places]
    return used


def gather_reached(source: Json) -> LocalDocument:
    """Writes a definition for each schema in another place that a local reference reaches, from the
    root or from another such schema. References in a part with its own `$id` start there, and stay
    as they are. The former place stays, too: other references may lead there."""
    if not is_object(source) or '"$ref"' not in json.dumps(source):
        return LocalDocument(source, {})
    id_keyword = find_id_keyword(source)
    # The schemas there start at the root as all others, so they have no `$id` in their new place.
    targets = {place: omit(found, id_keyword) for place, found in _find_targets(source, id_keyword)}
    home = "definitions" if stands_alone(source) else "$defs"
    definitions = source.get(home, {})
    if not targets or not is_object(definitions):
        return LocalDocument(source, {})
    names: dict[str, str] = {}
    taken = set(definitions)
    for place in targets:
        names[place] = _choose_name(place, taken)
        taken.add(names[place])

    def move(schema: Json, is_start: bool = False) -> Json:
        if not is_object(schema) or (not is_start and _has_id(schema, id_keyword)):
            return schema
        moved = map_parts(schema, lambda part, _: move(part))
        place = _read_pointer(schema)
        if place in names:
            moved["$ref"] = write_pointer(f"/{home}/{escape(names[place])}")
        return moved

    gathered = {names[place]: move(target, is_start=True) for place, target in targets.items()}
    document = move(source, is_start=True)
    document = {**document, home: {**document.get(home, {}), **gathered}}
    origins = {f"/{home}/{escape(name)}": place for place, name in names.items()}
    return LocalDocument(document, origins)


def _find_targets(
    source: Mapping[str, Json], id_keyword: str
) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yields the schemas in unknown places that references reach, with their pointers."""
    known = set[str]()
    queue: list[Json] = [omit(source, id_keyword)]
    while queue:
        schema = queue.pop()
        if not is_object(schema) or _has_id(schema, id_keyword):
            continue
        spend()
        queue += [part for _, part in list_parts(schema)]
        place = _read_pointer(schema)
        if place is None or place in known or not find_keyword(place):
            continue
        known.add(place)
        target: Json = source
        for step in split_pointer(place):
            target = find_member(target, step, default=_NOTHING)
        if is_object(target):
            yield place, target
            queue.append(omit(target, id_keyword))


def _read_pointer(schema: Mapping[str, Json]) -> str | None:
    """Returns the JSON pointer in the reference of a schema; None: it has none."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    return unquote(reference[1:])


def _has_id(schema: Mapping[str, Json], id_keyword: str) -> bool:
    given = schema.get(id_keyword)
    return isinstance(given, str) and not given.startswith("#")


def _choose_name(place: str, taken: set[str]) -> str:
    """Returns the last step of a pointer; with a number if another definition has this name."""
    last = split_pointer(place)[-1]
    name, number = last, 1
    while name in taken:
        number += 1
        name = f"{last}-{number}"
    return name
