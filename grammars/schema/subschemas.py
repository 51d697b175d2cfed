"""Where the subschemas of a schema stand."""

from collections.abc import Callable, Mapping
from typing import cast

from grammars.schema.pointers import Json, escape

MAPS = frozenset(
    "properties patternProperties $defs definitions dependentSchemas dependencies".split()
)
"""Keywords that give schemas by name."""
LISTS = frozenset("allOf anyOf oneOf prefixItems items".split())
"""Keywords that list schemas; `items` in drafts before 2020-12."""
SINGLES = frozenset(
    "items additionalItems unevaluatedItems contains additionalProperties unevaluatedProperties "
    "propertyNames not if then else".split()
)
"""Keywords whose value is a schema."""


def map_parts(flat: Mapping[str, Json], change: Callable[[Json, str], Json]) -> dict[str, Json]:
    """The schema with each subschema right below it changed.

    Args:
        flat: an object that is a schema.
        change: gives what stands for a subschema; its second argument is the JSON pointer from
            `flat` to it.
    """
    changed = dict(flat)
    for keyword, value in flat.items():
        if keyword in MAPS and isinstance(value, dict):
            named = cast(dict[str, Json], value).items()
            changed[keyword] = {
                k: change(v, f"/{keyword}/{escape(k)}") if isinstance(v, dict | bool) else v
                for k, v in named
            }
        elif keyword in LISTS and isinstance(value, list):
            parts = cast(list[Json], value)
            changed[keyword] = [
                change(v, f"/{keyword}/{i}") if isinstance(v, dict | bool) else v
                for i, v in enumerate(parts)
            ]
        elif keyword in SINGLES and isinstance(value, dict | bool):
            changed[keyword] = change(cast(Json, value), f"/{keyword}")
    return changed


def find_keywords(schema: Json) -> frozenset[str]:
    """All keywords in a schema and below, in definitions that nothing refers to as well."""
    if not isinstance(schema, dict):
        return frozenset()
    flat = cast(Mapping[str, Json], schema)
    found = set(flat)
    map_parts(flat, lambda part, _: found.update(find_keywords(part)))
    return frozenset(found)


def find_keyword(where: str) -> str:
    """The keyword that a JSON pointer into a schema ends with; "" if it ends with a schema."""
    steps = where.split("/")[1:]
    while steps:
        keyword, *steps = steps
        if keyword in MAPS or (keyword in LISTS and steps and steps[0].isdigit()):
            if not steps:
                return keyword
            steps = steps[1:]
        elif keyword not in SINGLES:
            return keyword
    return ""
