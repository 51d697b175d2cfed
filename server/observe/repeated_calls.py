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
            key = _identify_call(name, function.get("arguments"))
            counts[key] = counts.get(key, 0) + 1
            names[key] = name
    return [(names[key], count) for key, count in counts.items() if count >= least]


def _identify_call(name: str, arguments: Any) -> str:
    """Names a call by its arguments as a value, in whatever way a client spells them. Text that is
    no JSON, or nests too deeply, stands for itself."""
    try:
        return identify([name, decode_arguments(arguments)])
    except RecursionError:
        # A value that nests so deeply was sent as such: it is like no other.
        return identify([name, arguments if isinstance(arguments, str) else id(arguments)])
