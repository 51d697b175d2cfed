"""What Python's `json` reads and writes. Every module takes these names from here."""

from collections.abc import Iterator
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value; more would make each access a cast."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object."""


def walk_values(value: Json) -> Iterator[Json]:
    """Yields the value and all values inside of it."""
    queue = [value]
    while queue:
        part = queue.pop()
        yield part
        if isinstance(part, dict):
            queue += part.values()
        elif isinstance(part, list):
            queue += part
