"""JSON values, and the keywords of JSON Schema that contain schemas.

The keywords are those of all drafts from 3 to 2020-12 (JSON Schema Core, sections 10 and 11, and
earlier drafts). They are not separated by draft.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard
from urllib.parse import unquote

from grammars.errors import SchemaError
from grammars.limits.steps import spend
from grammars.schema.json_values import Json
from grammars.schema.pointers import find_member, point_to, split_pointer

MAPS = frozenset(
    "properties patternProperties $defs definitions dependentSchemas dependencies".split()
)
"""Keywords whose value is an object of schemas."""
LISTS = frozenset("allOf anyOf oneOf prefixItems items".split())
"""Keywords whose value is a list of schemas; `items` in drafts before 2020-12."""
SINGLES = frozenset(
    "items additionalItems unevaluatedItems contains additionalProperties unevaluatedProperties "
    "propertyNames not if then else".split()
)
"""Keywords whose value is a schema."""
DEFINITIONS = ("$defs", "definitions")
DYNAMIC_REFERENCES = frozenset(["$dynamicRef", "$recursiveRef"])
"""References whose target may depend on the path to them, of draft 2020-12 and of 2019-09."""
_KEPT = 1_000  # characters of pointers that a validator keeps in a step
_DEPENDENT = "dependentRequired"  # not a keyword with schemas, but read as one for each key
_HINT = "Use a local reference such as #/$defs/Name"

_NOTHING = object()


def is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)


def is_list(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list)


def find_origin(pointer: str, origins: Mapping[str, str]) -> str:
    """Returns a JSON pointer, which may lead into the copy of a definition, with the pointer of the
    definition in place of that of the copy (`/$defs/NAME`)."""
    copy = "/".join(pointer.split("/", 3)[:3])
    return origins.get(copy, copy) + pointer[len(copy) :]


def look_up(root: Json, reference: Json, pointer: str) -> Json:
    """Returns the schema that a local `$ref` of the schema at this JSON pointer refers to; raises
    SchemaError if it is not local, or points to nothing."""
    pointer = f"{pointer}/$ref"
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise SchemaError(f"$ref {reference!r} is not local", where=pointer, hint=_HINT)
    if reference != "#" and not reference.startswith("#/"):
        raise SchemaError(f"$ref {reference!r} is an anchor", where=pointer, hint=_HINT)
    found = root
    for step in split_pointer(unquote(reference[1:])):
        found = find_member(found, step, default=_NOTHING)
        if found is _NOTHING:
            raise SchemaError(f"$ref {reference!r} points to nothing", where=pointer, hint=_HINT)
    return found


def list_parts(flat: Mapping[str, Json]) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yields the direct subschemas, each after the steps to it: keyword, and name or index."""
    for keyword, value in flat.items():
        if keyword in MAPS and is_object(value):
            for key, part in value.items():
                yield (keyword, key), part
        elif keyword in LISTS and is_list(value):
            for index, part in enumerate(value):
                yield (keyword, index), part
        elif keyword in SINGLES:
            yield (keyword,), value


def map_parts(flat: Mapping[str, Json], change: Callable[[Json, str], Json]) -> dict[str, Json]:
    """Changes each direct subschema of a schema that is an object. The second argument of `change`
    is the JSON pointer from there to the subschema."""
    spend()
    changed = dict(flat)
    for steps, part in list_parts(flat):
        if not is_object(part) and not isinstance(part, bool):
            continue  # a list of names in `dependencies`, or not a schema
        keyword = str(steps[0])
        new = change(part, point_to(steps))
        if len(steps) == 1:
            changed[keyword] = new
            continue
        if changed[keyword] is flat[keyword]:
            changed[keyword] = flat[keyword].copy()
        changed[keyword][steps[1]] = new
    return changed


def walk_schemas(document: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yields the schemas that are objects, outer ones first, each after its JSON pointer."""
    queue = [("", document)]
    while queue:
        pointer, schema = queue.pop()
        if is_object(schema):
            spend()
            yield pointer, schema
            parts = [(pointer + point_to(steps), part) for steps, part in list_parts(schema)]
            queue += reversed(parts)


def spend_on_document(document: Json) -> None:
    """Counts the steps that a validator takes to read a document: it reads all subschemas in one
    call, 2 to 4 us for each, and keeps the JSON pointers of all their keywords. A key of 900 kB
    around 3,000 others would take gigabytes."""
    queue = [(0, document)]
    while queue:
        length, schema = queue.pop()
        if not is_object(schema):
            spend(1 + length // _KEPT)
            continue
        dependent = schema.get(_DEPENDENT)
        keys = len(dependent) if is_object(dependent) else 0
        spend(1 + length * (1 + len(schema) + keys) // _KEPT)
        for steps, part in list_parts(schema):
            queue.append((length + sum(1 + len(str(step)) for step in steps), part))


def omit(schema: Mapping[str, Json], *keywords: str) -> dict[str, Json]:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def find_keywords(document: Json) -> frozenset[str]:
    """Returns all keywords in a schema and its subschemas, also in unused definitions."""
    return frozenset(keyword for _, schema in walk_schemas(document) for keyword in schema)


def find_keyword(pointer: str) -> str:
    """Returns the keyword at the end of a JSON pointer; "" if that is a schema."""
    steps = pointer.split("/")[1:]
    while steps:
        keyword, *steps = steps
        if keyword in MAPS or (keyword in LISTS and steps and steps[0].isdigit()):
            if not steps:
                return keyword
            steps = steps[1:]
        elif keyword not in SINGLES:
            return keyword
    return ""
