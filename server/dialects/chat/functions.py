"""Chat Completions in the form of 2023, which some clients and plugins still write: `functions`
instead of tools, `function_call` instead of `tool_choice` and of a message's one call, results in
messages with the role `function`. They are converted to tools, calls and results."""

from collections.abc import Sequence
from typing import Any

from server.errors import HttpError

Json = dict[str, Any]


def translate_function_call(choice: str | Json | None) -> str | Json | None:
    """Converts the `function_call` of a request to a `tool_choice`."""
    match choice:
        case {"name": str(name)}:
            return {"type": "function", "function": {"name": name}}
        case _:
            return choice


def read_function_messages(messages: Sequence[Json]) -> list[Json]:
    """Converts messages to the form with tool calls, and results with the ids of their calls.

    Raises:
        HttpError: a result has no call of its function before it; or a call is not an object.
    """
    read: list[Json] = []
    called: Json = {}  # the id of the last call of each function
    for number, message in enumerate(messages):
        call = message.get("function_call")
        if call is not None and not isinstance(call, dict):
            text = "function_call must be an object: the name and the arguments of the call"
            where = f"/messages/{number}/function_call"
            raise HttpError(400, text, "invalid_value", where=where)
        if message.get("role") == "function":
            read.append(_read_result(message, called, f"/messages/{number}"))
        elif call is not None and not message.get("tool_calls"):
            id = f"call_{number}"
            called[str(call.get("name"))] = id
            kept = {key: value for key, value in message.items() if key != "function_call"}
            kept["tool_calls"] = [{"id": id, "type": "function", "function": call}]
            read.append(kept)
        else:
            read.append(message)
    return read


def _read_result(message: Json, called: Json, where: str) -> Json:
    """Converts the result of a function to that of its last call."""
    name = message.get("name")
    if not isinstance(name, str) or name not in called:
        text = f"there is no call of the function {name!r} before its result"
        raise HttpError(400, text, "invalid_value", where=f"{where}/name")
    return {**message, "role": "tool", "tool_call_id": called[name]}
