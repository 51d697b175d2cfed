"""Responses: items of what only OpenAI's own service does. A conversation that began there goes on
here: what a text model can read of them it reads, the rest is named, and what would change the
request is refused.
"""

from collections.abc import Mapping
from typing import Any

from constrained.tools.execution import format_result
from server.errors import HttpError
from server.turns.request_checks import UNREADABLE

Json = dict[str, Any]
SHOWN: Mapping[str, tuple[str, str]] = {
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
}
"""Calls that OpenAI has carried out and whose results a client sees: the fields that say what was
called for, and what came of it."""
UNSUPPORTED: Mapping[str, str] = {
    # All that is in front of it is in it, but encrypted: nothing would be left.
    "compaction": "only OpenAI can read it; send the conversation, or a summary as a message",
    "additional_tools": "send them in tools",
    "configuration_update": "set reasoning and text of the request",
    "compaction_trigger": "send the conversation as it is, or a summary of it as a message",
}
"""Items that a conversation cannot do without, or that change its request: what to do instead."""
PICTURES = ("computer_screenshot", "input_image", "image")


def is_shown(item: Mapping[str, Any]) -> bool:
    """True of a call that OpenAI has carried out, and whose result is there."""
    kind = item.get("type")
    return isinstance(kind, str) and kind in SHOWN and bool(item.get(SHOWN[kind][1]))


def check_shown(item: Mapping[str, Any], where: str) -> None:
    """Checks a call that OpenAI has carried out.

    Raises:
        HttpError: its result is no list of objects; says where.
    """
    name = SHOWN[item["type"]][1]
    results = item[name]
    if not isinstance(results, list) or not all(isinstance(one, Mapping) for one in results):
        message = f"{name} have to be a list of objects"
        raise HttpError(400, message, "invalid_value", where=f"{where}/{name}")


def describe_call(item: Mapping[str, Any]) -> tuple[str, Json]:
    """The name and the arguments of a call that OpenAI has carried out."""
    name = SHOWN[item["type"]][0]
    return item["type"].removesuffix("_call"), {name: item.get(name)}


def read_results(item: Mapping[str, Any]) -> str:
    """What the model reads as the result of such a call: JSON, without pictures."""
    shown: list[Json] = []
    for one in item[SHOWN[item["type"]][1]]:
        if one.get("type") not in PICTURES:
            shown.append({name: value for name, value in one.items() if name != "type"})
    return format_result(shown)


def has_pictures(item: Mapping[str, Any]) -> bool:
    """True if the result of such a call has pictures."""
    results = item[SHOWN[item["type"]][1]]
    return any(isinstance(one, Mapping) and one.get("type") in PICTURES for one in results)


def check_output(output: Any, where: str) -> None:
    """Checks what a client has answered to a call of a tool that OpenAI describes.

    Raises:
        HttpError: it is a picture; has `where`.
    """
    kind = output.get("type") if isinstance(output, Mapping) else None
    if kind in PICTURES:
        message = f"an output of type {kind!r} {UNREADABLE}"
        raise HttpError(400, message, "unsupported_content", where=where)


def refuse_item(kind: Any, where: str) -> HttpError:
    """The error of an item that this server has no use for."""
    message = f"an item of type {kind!r} cannot be used by this server"
    if isinstance(kind, str) and kind in UNSUPPORTED:
        message = f"{message}: {UNSUPPORTED[kind]}"
    return HttpError(400, message, "unsupported_item", where=f"{where}/type")
