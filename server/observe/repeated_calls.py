"""Calls that a conversation has again and again: the sign of a model that goes in circles."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from grammars.schema.nodes import identify


def find_repeated_calls(messages: Sequence[Mapping[str, Any]], least: int) -> list[tuple[str, int]]:
    """Calls that the same conversation has several times: names of tools, and how often; those of
    the same arguments alone, behind the last message of the user.

    Args:
        least: so many are needed.
    """
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for message in messages:
        if message.get("role") == "user":
            counts.clear()
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if not isinstance(function, Mapping):
                continue
            name = str(function.get("name"))
            key = _identify_call(name, function.get("arguments"))
            counts[key] = counts.get(key, 0) + 1
            names[key] = name
    return [(names[key], count) for key, count in counts.items() if count >= least]


def _identify_call(name: str, arguments: Any) -> str:
    """Names a call by its arguments as a value, in whatever way a client spells them; those that
    are no JSON, or nest too deeply, as they are spelled."""
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            return identify([name, json.loads(arguments)])
    return identify([name, arguments])
