"""Finds calls that a conversation repeats: the sign of a model that goes in circles."""

from collections.abc import Mapping, Sequence
from typing import Any

from grammars.schema.nodes import identify
from grammars.turn import decode_arguments


def find_repeated_calls(messages: Sequence[Mapping[str, Any]], least: int) -> list[tuple[str, int]]:
    """Finds calls with the same name and arguments since the last message of the user, `least`
    times or more: names of tools, with their counts."""
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
    """Names a call by its name and the value of its arguments, however the client writes them. Text
    that is not JSON, or is nested too deeply, is compared as text."""
    try:
        return identify([name, decode_arguments(arguments)])
    except RecursionError:
        # Values that are nested this deeply are not compared.
        return identify([name, arguments if isinstance(arguments, str) else id(arguments)])
