"""Moves the schemas that references reach to the definitions of a document, wherever they are:
`#/components/schemas/A`, or any other keyword that is unknown to JSON Schema. So they are repaired,
validated and lowered like all others."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.lowering.document.references import find_id_keyword, stands_alone
from grammars.schema.pointers import escape, find_member, split_pointer
from grammars.schema.subschemas import find_keyword, is_object, list_parts, map_parts, omit

_NOTHING = object()


class GatheredDocument(NamedTuple):
    """A document whose references lead to schemas in places that JSON Schema knows.

    Args:
        document: the document; the same object if nothing was moved.
        origins: by the pointer of each new definition, the pointer of the schema as it was.
    """

    document: Json
    origins: Mapping[str, str]


def gather_reached(source: Json) -> GatheredDocument:
    """Writes a definition for each schema in another place that a local reference reaches, from the
    root or from another such schema. References in a part with its own `$id` start there, and stay
    as they are. The former place stays, too: other references may lead there.

    Raises:
        StepsError: there are too many.
    """
    if not is_object(source) or '"$ref"' not in json.dumps(source):
        return GatheredDocument(source, {})
    id_keyword = find_id_keyword(source)
    # The schemas there start at the root as all others, so they have no `$id` in their new place.
    targets = {place: omit(found, id_keyword) for place, found in _find_targets(source, id_keyword)}
    home = "definitions" if stands_alone(source) else "$defs"
    definitions = source.get(home, {})
    if not targets or not is_object(definitions):
        return GatheredDocument(source, {})
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
            moved["$ref"] = "#" + quote(f"/{home}/{escape(names[place])}", safe="/~$")
        return moved

    gathered = {names[place]: move(target, is_start=True) for place, target in targets.items()}
    document = move(source, is_start=True)
    document = {**document, home: {**document.get(home, {}), **gathered}}
    origins = {f"/{home}/{escape(name)}": place for place, name in names.items()}
    return GatheredDocument(document, origins)


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
