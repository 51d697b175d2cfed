"""Leaves out the definitions that no reference of a document needs. Tools often come with the
definitions of their whole service. Definitions without references need not be read, nor be
schemas."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from grammars.schema.json_values import Json, walk_values
from grammars.schema.pointers import split_pointer
from grammars.schema.subschemas import DEFINITIONS, DYNAMIC_REFERENCES, is_object, omit

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
