"""Leaves out the definitions that no reference of a document needs. Tools often come with the
definitions of their whole service. Definitions without references need not be read, nor be
schemas."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from grammars.schema.nodes import Json
from grammars.schema.subschemas import is_list, is_object, omit

_PLACES = ("$defs", "definitions")
_DYNAMIC = frozenset(["$dynamicRef", "$recursiveRef"])
_POINTER = re.compile("#(/.*)?", re.DOTALL)
"""A JSON pointer; other references may name any part."""


class _UntracedError(Exception):
    """A reference that may lead anywhere."""


def drop_unused(source: Json) -> Json:
    """The document without the definitions at its root that no reference leads to, neither from
    its other parts nor from definitions that are used; a definition counts as used if a reference
    has its name. The same object if all are used, or if a reference leads to a name (`$id`,
    `$anchor`, `$dynamicAnchor`) and not to a place."""
    if not is_object(source):
        return source
    places: dict[str, Mapping[str, Json]] = {}
    for keyword in _PLACES:
        if is_object(source.get(keyword)):
            places[keyword] = source[keyword]
    if not places:
        return source
    try:
        used = _find_used(source, places)
    except _UntracedError:
        return source
    if all(definitions.keys() <= used for definitions in places.values()):
        return source
    kept = dict(source)
    for keyword, definitions in places.items():
        kept[keyword] = {name: part for name, part in definitions.items() if name in used}
    return kept


def _find_used(source: Mapping[str, Json], places: Mapping[str, Mapping[str, Json]]) -> set[str]:
    """The names in references, from the root on.

    Raises:
        _UntracedError: there is a reference that may lead anywhere.
    """
    used = set[str]()
    queue: list[Json] = [omit(source, *places)]
    while queue:
        for reference in _list_references(queue.pop()):
            for name in _list_names(reference):
                if name in used:
                    continue
                used.add(name)
                for definitions in places.values():
                    queue.append(definitions.get(name))
    return used


def _list_names(reference: str) -> Iterator[str]:
    """The steps of a pointer, each of which may be the name of a definition."""
    if not _POINTER.fullmatch(reference):
        raise _UntracedError
    for text in (reference, unquote(reference)):
        for step in text.split("/"):
            yield step.replace("~1", "/").replace("~0", "~")


def _list_references(value: Json) -> Iterator[str]:
    """All references in a value, including those outside of schemas."""
    queue = [value]
    while queue:
        part = queue.pop()
        if is_list(part):
            queue += part
        elif is_object(part):
            if any(isinstance(part.get(keyword), str) for keyword in _DYNAMIC):
                raise _UntracedError
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            queue += part.values()
