"""A schema and a value, or a pattern and a text, made smaller as long as something is the matter
with them."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object

_DEFINITIONS = ("$schema", "$defs", "definitions")
_SECONDS = 5


def make_smaller(
    schema: Json, value: Json, is_wrong: Callable[[Json, Json], bool]
) -> tuple[Json, Json]:
    """Returns the smallest schema and value found that are still wrong.

    Args:
        is_wrong: may raise any error for a schema that is none.
    """
    end = time.monotonic() + _SECONDS
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _list_smaller_cases(schema, value):
            if time.monotonic() > end:
                return schema, value
            with suppress(Exception):
                if is_wrong(*candidate):
                    schema, value = candidate
                    is_smaller = True
                    break
    return schema, value


def _list_smaller_cases(schema: Json, value: Json) -> Iterator[tuple[Json, Json]]:
    if is_object(schema):
        kept = {key: schema[key] for key in _DEFINITIONS if key in schema}
        for part, inner in _list_inner(schema, value):
            if is_object(part):
                yield {**kept, **part}, inner
    for smaller in _list_smaller(value):
        yield schema, smaller
    for smaller in _list_smaller(schema):
        yield smaller, value


def _list_inner(schema: dict[str, Json], value: Json) -> Iterator[tuple[Json, Json]]:
    """Yields subschemas with the part of the value that they are for."""
    if is_object(value):
        declared = schema.get("properties", {})
        for key, member in value.items():
            yield declared.get(key, schema.get("additionalProperties")), member
    if is_list(value):
        for item in value:
            yield schema.get("items"), item
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(keyword, ()):
            yield part, value


def _list_smaller(value: Json) -> Iterator[Json]:
    """Yields copies of a value without one of its parts, the largest parts first."""
    if is_object(value):
        for key in value:
            yield {other: value[other] for other in value if other != key}
        for key in value:
            for smaller in _list_smaller(value[key]):
                yield {**value, key: smaller}
    elif is_list(value):
        if len(value) > 3:
            yield value[: len(value) // 2]
            yield value[len(value) // 2 :]
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, item in enumerate(value):
            for smaller in _list_smaller(item):
                yield [*value[:at], smaller, *value[at + 1 :]]
    elif isinstance(value, str) and value:
        size = len(value)
        while size := size // 2:
            for at in range(len(value) - size + 1):
                yield value[:at] + value[at + size :]
        yield value[1:]
        for opening in ("(?:", "("):  # of a pattern: a group goes with both of its brackets
            before, found, after = value.partition(opening)
            if found:
                yield before + after.replace(")", "", 1)
