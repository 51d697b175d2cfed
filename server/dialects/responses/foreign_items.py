"""Responses: items that only OpenAI's own service creates. A conversation that began there can
continue here: the model reads their text, other content is reported as unread, and items that would
change the request are refused.
"""

from collections.abc import Mapping
from typing import Any

from constrained.tools.execution import format_result
from server.errors import HttpError

Json = dict[str, Any]
SHOWN: Mapping[str, tuple[str, str]] = {
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
}
"""Calls that OpenAI has executed and whose results a client sees: the fields with the arguments of
the call and with its result."""
UNSUPPORTED: Mapping[str, str] = {
    # It contains everything before it, but encrypted: the model would have nothing to read.
    "compaction": "only OpenAI can read it; send the conversation, or a summary as a message",
    "additional_tools": "send them in tools",
    "configuration_update": "set reasoning and text of the request",
    "compaction_trigger": "send the conversation as it is, or a summary of it as a message",
}
"""Items that a conversation needs, or that change its request, each with a hint for the client."""
PICTURES = ("computer_screenshot", "input_image", "image")


def is_shown(item: Mapping[str, Any]) -> bool:
    """Returns whether it is a call that OpenAI has executed, with its result."""
    kind = item.get("type")
    return isinstance(kind, str) and kind in SHOWN and bool(item.get(SHOWN[kind][1]))


def check_shown(item: Mapping[str, Any], where: str) -> None:
    """Checks a call that OpenAI has executed.

    Raises:
        HttpError: its result is not a list of objects; with its JSON pointer.
    """
    name = SHOWN[item["type"]][1]
    results = item[name]
    if not isinstance(results, list) or not all(isinstance(one, Mapping) for one in results):
        message = f"{name} must be a list of objects"
        raise HttpError(400, message, "invalid_value", where=f"{where}/{name}")


def describe_call(item: Mapping[str, Any]) -> tuple[str, Json]:
    """Returns the name and the arguments of a call that OpenAI has executed."""
    name = SHOWN[item["type"]][0]
    return item["type"].removesuffix("_call"), {name: item.get(name)}


def read_results(item: Mapping[str, Any]) -> str:
    """Returns the result of such a call as text for the model: JSON, without pictures."""
    shown: list[Json] = []
    for one in item[SHOWN[item["type"]][1]]:
        if one.get("type") not in PICTURES:
            shown.append({name: value for name, value in one.items() if name != "type"})
    return format_result(shown)


def has_pictures(item: Mapping[str, Any]) -> bool:
    """Returns whether the result of such a call has pictures."""
    results = item[SHOWN[item["type"]][1]]
    return any(map(is_picture, results))


def is_picture(output: Any) -> bool:
    """Returns whether the client's output for a call is a picture, such as a screenshot."""
    return isinstance(output, Mapping) and output.get("type") in PICTURES


def refuse_item(kind: Any, where: str) -> HttpError:
    """Returns the error for an item that this server cannot use."""
    message = f"an item of type {kind!r} cannot be used by this server"
    if isinstance(kind, str) and kind in UNSUPPORTED:
        message = f"{message}: {UNSUPPORTED[kind]}"
    return HttpError(400, message, "unsupported_item", where=f"{where}/type")
