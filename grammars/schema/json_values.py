"""What Python's `json` reads and writes. Every module takes these names from here."""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value; more would make each access a cast."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object."""
