"""Calls that a conversation has again and again: the sign of a model that goes in circles."""

from collections.abc import Mapping, Sequence
from typing import Any

from grammars.schema.nodes import identify
from grammars.turn import decode_arguments


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
            arguments: Any = decode_arguments(function.get("arguments"))
            try:
                key = identify([name, arguments])
            except RecursionError:  # nests too deeply to be compared
                continue
            counts[key] = counts.get(key, 0) + 1
            names[key] = name
    return [(names[key], count) for key, count in counts.items() if count >= least]
