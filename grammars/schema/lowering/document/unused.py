"""Leaves out the definitions that no reference of a document needs. Tools often come with the
definitions of their whole service. Definitions without references need not be read, nor be
schemas."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from urllib.parse import unquote

from grammars.schema.json_values import Json
from grammars.schema.pointers import find_member, split_pointer
from grammars.schema.subschemas import LISTS, MAPS, SINGLES, is_list, is_object, omit

_PLACES = ("$defs", "definitions")
_DYNAMIC = frozenset(["$dynamicRef", "$recursiveRef"])
_DATA = frozenset(["enum", "const", "default", "examples", "example"])
"""Keywords whose values are data, not schemas."""
_POINTER = re.compile("#(/.*)?", re.DOTALL)
"""A JSON pointer; other references may name any part."""


class _DocumentPart(Enum):
    """What a value in a document is."""

    SCHEMA = auto()
    MAP = auto()  # an object of schemas
    UNKNOWN = auto()  # the value of an unknown keyword, which may have schemas anywhere


class _UntracedError(Exception):
    """A reference that may lead anywhere."""


def drop_unused(source: Json) -> Json:
    """Returns the document without the definitions at its root that no reference leads to, neither
    from its other parts nor from definitions that are used; a definition counts as used if a
    reference has its name. The same object if all are used, or if a reference leads to a name
    (`$id`, `$anchor`, `$dynamicAnchor`) and not to a place, or into data (`default`)."""
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
    """Returns the names in references, from the root on.

    Raises:
        _UntracedError: there is a reference that may lead anywhere.
    """
    used = set[str]()
    reached = set[tuple[str, _DocumentPart]]()
    queue: list[tuple[_DocumentPart, Json]] = [(_DocumentPart.SCHEMA, omit(source, *places))]
    while queue:
        for reference in _list_references(*queue.pop()):
            steps = _read_steps(unquote(reference))
            if _passes_data(source, steps):
                raise _UntracedError  # what a reference leads to is a schema, and not data
            # what leads into a definition may lead into one that is no schema, but has some
            kind = _DocumentPart.UNKNOWN if len(steps) > 2 else _DocumentPart.SCHEMA
            for name in steps + _read_steps(reference):
                if (name, kind) in reached:
                    continue
                reached.add((name, kind))
                used.add(name)
                for definitions in places.values():
                    queue.append((kind, definitions.get(name)))
    return used


def _read_steps(reference: str) -> list[str]:
    """Returns the steps of a pointer, each of which may be the name of a definition.

    Raises:
        _UntracedError: the reference is no pointer.
    """
    if not _POINTER.fullmatch(reference):
        raise _UntracedError
    return split_pointer(reference)


def _passes_data(source: Json, steps: Iterable[str]) -> bool:
    """Returns whether a pointer leads through a value that is data, not a schema (`default`)."""
    kind, part = _DocumentPart.SCHEMA, source
    for step in steps:
        if not is_list(part):
            inner = _find_part(kind, step)
            if inner is None:
                return True
            kind = inner
        part = find_member(part, step)
    return False


def _list_references(kind: _DocumentPart, value: Json) -> Iterator[str]:
    """Yields the references of a schema and its parts, also in unknown keywords; not in its data
    (`enum`, `default`), where `$ref` is a key like others.

    Raises:
        _UntracedError: there is a dynamic reference.
    """
    queue = [(kind, value)]
    while queue:
        kind, part = queue.pop()
        if is_list(part):
            queue += [(kind, item) for item in part]
        if not is_object(part):
            continue
        if kind is not _DocumentPart.MAP:
            if any(isinstance(part.get(keyword), str) for keyword in _DYNAMIC):
                raise _UntracedError
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
        for key, value in part.items():
            inner = _find_part(kind, key)
            if inner is not None:
                queue.append((inner, value))


def _find_part(outer: _DocumentPart, key: str) -> _DocumentPart | None:
    """Returns the kind of a member of an object of this kind; None if it is data."""
    if outer is _DocumentPart.MAP:
        return _DocumentPart.SCHEMA
    if outer is _DocumentPart.UNKNOWN:
        return _DocumentPart.UNKNOWN
    if key in MAPS:
        return _DocumentPart.MAP
    if key in LISTS or key in SINGLES:
        return _DocumentPart.SCHEMA
    return None if key in _DATA else _DocumentPart.UNKNOWN
