"""Responses: the items of tools of MCP servers, in a conversation and as events of a stream.

A call and its result are one item. Calls are executed without the client's approval, so there are
no requests for it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from constrained.prompt.tools.call_result import CallResult, Outcome
from constrained.prompt.tools.execution import format_result
from grammars.schema.json_values import JsonObject
from server.dialects.common.hosted_tools import ListedServer
from server.errors import refuse
from server.http.ids import make_id

ITEM_DONE = "response.output_item.done"
TYPES = ("mcp_list_tools", "mcp_call")
GIVEN_UP = "the response has ended before the call; whether that had an effect is not known"
_TEXTS = {
    "mcp_list_tools": ("server_label",),
    "mcp_call": ("id", "server_label", "name", "arguments"),
}
_PREFIXES = {
    "mcp_list_tools": "mcpl_",
    "mcp_call": "mcp_",
}


def read_mcp_item(item: JsonObject, where: str) -> JsonObject:
    """Checks and completes an item of a conversation.

    Raises:
        HttpError: a field is invalid; says which.
    """
    kind = item["type"]
    for name in _TEXTS[kind]:
        if not isinstance(item.get(name), str):
            raise refuse(f"{name} must be a text", f"{where}/{name}")
    known: JsonObject = {"type": kind, "id": item.get("id")}
    if not isinstance(known["id"], str) or not known["id"]:
        known["id"] = make_id(_PREFIXES[kind])
    known |= {name: item[name] for name in _TEXTS[kind]}
    if kind == "mcp_list_tools":
        return known | {"tools": item.get("tools") or [], "error": item.get("error")}
    return known | {
        "approval_request_id": _read_optional(item, "approval_request_id", where),
        "output": _read_optional(item, "output", where),
        "error": item.get("error"),
        "status": item.get("status") or "completed",
    }


def _read_optional(item: JsonObject, name: str, where: str) -> str | None:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise refuse(f"{name} must be a text", f"{where}/{name}")
    return value


def read_result(item: Mapping[str, Any]) -> str:
    """Returns the text that the model has read as the result of a call."""
    error = item["error"]
    if error is None:
        return item["output"] or ""
    return format_result({"error": _read_error(error)})


def _read_error(error: Any) -> str:
    """Returns the text of an error, in the current form, or in the former one, which is a text."""
    if isinstance(error, str):
        return error
    match error:
        case {"content": [{"text": str(text)}]} | {"message": str(text)}:
            return text
        case _:
            return json.dumps(error, ensure_ascii=False)


def _show_result(result: CallResult) -> JsonObject:
    """Returns the fields of a call about its result."""
    if result.outcome is Outcome.DONE:
        return {"output": result.content, "error": None, "status": "completed"}
    status = "incomplete" if result.outcome is Outcome.CUT else "failed"
    return _show_error(json.loads(result.content)["error"], status)


def _show_error(text: str, status: str) -> JsonObject:
    """Returns the fields of a call that has failed."""
    content = [{"type": "text", "text": text}]
    error = {"type": "mcp_tool_execution_error", "content": content}
    return {"output": None, "error": error, "status": status}


class McpCallItem:
    """Writes the stream events of a call that this server executes.

    Args:
        id: of the item.
        server: the label of the server.
        name: of the tool.
        index: of the item in the output.
    """

    def __init__(self, id: str, *, server: str, name: str, index: int):
        self.index = index
        self._head: JsonObject = {
            "type": "mcp_call",
            "id": id,
            "approval_request_id": None,
            "server_label": server,
            "name": name,
        }
        self._texts: list[str] = []

    def open(self) -> Iterator[JsonObject]:
        """Begins the call, without arguments."""
        item = self._show({"output": None, "error": None, "status": "in_progress"})
        yield {"type": "response.output_item.added", "output_index": self.index, "item": item}
        yield self._make_event("response.mcp_call.in_progress")

    def add(self, text: str) -> Iterator[JsonObject]:
        """Adds to the JSON text of the arguments."""
        self._texts.append(text)
        yield self._make_event("response.mcp_call_arguments.delta", delta=text)

    def finish_arguments(self) -> Iterator[JsonObject]:
        """Completes the arguments."""
        text = "".join(self._texts)
        yield self._make_event("response.mcp_call_arguments.done", arguments=text)

    def answer(self, result: CallResult) -> Iterator[JsonObject]:
        """Adds the result of the call."""
        shown = _show_result(result)
        step = "completed" if shown["status"] == "completed" else "failed"
        yield self._make_event(f"response.mcp_call.{step}")
        yield {"type": ITEM_DONE, "output_index": self.index, "item": self._show(shown)}

    def close(self, status: str) -> Iterator[JsonObject]:
        """Ends a call that was given up."""
        shown = _show_error(GIVEN_UP, "incomplete")
        yield self._make_event("response.mcp_call.failed")
        yield {"type": ITEM_DONE, "output_index": self.index, "item": self._show(shown)}

    def _make_event(self, type: str, **fields: Any) -> JsonObject:
        return {"type": type, "item_id": self._head["id"], "output_index": self.index, **fields}

    def _show(self, result: JsonObject) -> JsonObject:
        return {**self._head, "arguments": "".join(self._texts), **result}


def write_list(server: ListedServer, index: int) -> Iterator[JsonObject]:
    """Yields the events of an item that lists the tools of a server."""
    head: JsonObject = {
        "type": "mcp_list_tools",
        "id": make_id("mcpl_"),
        "server_label": server.label,
    }
    path = {"item_id": head["id"], "output_index": index}
    empty = {**head, "tools": [], "error": None}
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    yield {"type": "response.mcp_list_tools.in_progress", **path}
    step = "completed" if server.error is None else "failed"
    yield {"type": f"response.mcp_list_tools.{step}", **path}
    tools = [tool.to_json() for tool in server.tools]
    item = {**head, "tools": tools, "error": server.error}
    yield {"type": ITEM_DONE, "output_index": index, "item": item}
