"""Responses: converts the items of a conversation to chat messages; those of one turn are one
message."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from constrained.prompt.tools.execution import format_result
from grammars.schema.json_values import JsonObject
from server.dialects.responses.client_tools import describe_client_call, is_client_call
from server.turns.offered_tools import join_name, pack_input
from server.turns.request_checks import list_texts


def write_messages(
    items: Iterable[JsonObject], instructions: str | None = None
) -> list[JsonObject]:
    """Returns the conversation in OpenAI's chat form. The items are from `read_input`, and the
    output of responses; instructions come before them, and are joined with a system message that
    follows."""
    writer = _MessageWriter(instructions)
    for item in items:
        writer.write(item)
    return [_join_texts(message) for message in writer.messages]


class _MessageWriter:
    """Writes messages, item after item; the assistant's texts are still lists."""

    def __init__(self, instructions: str | None):
        self.messages: list[JsonObject] = []
        self._has_instructions = bool(instructions)
        if instructions:
            self.messages.append({"role": "system", "content": instructions})

    def write(self, item: JsonObject) -> None:
        match item["type"]:
            case "reasoning":
                turn = self._find_turn(not_after=("text", "calls"))
                turn.setdefault("reasoning_content", []).extend(_find_texts(item))
            case "function_call":
                self._add_call(item, _name_call(item), item["arguments"])
            case "custom_tool_call":
                arguments = json.dumps(pack_input(item["input"]), ensure_ascii=False)
                self._add_call(item, _name_call(item), arguments)
            case "function_call_output" | "custom_tool_call_output":
                self._add_result(item["call_id"], _as_content(item["output"]))
            case str(kind) if is_client_call(kind):
                name, arguments = describe_client_call(item)
                self._add_call(item, name, arguments)
            case "mcp_call":  # its result is in the item
                name = join_name(item["server_label"], item["name"])
                self._add_call(item, name, item["arguments"])
                self._add_result(item["id"], _read_mcp_result(item))
            case "mcp_list_tools":
                pass  # the tools of a server that another service has called
            case _ if item["role"] == "assistant":
                turn = self._find_turn(not_after=("text",))
                turn["content"].extend(_find_texts(item))
            case _:
                self._add_message({"role": item["role"], "content": _as_content(item["content"])})

    def _add_call(self, item: JsonObject, name: str, arguments: str) -> None:
        function = {"name": name, "arguments": arguments}
        call = {"id": item.get("call_id") or item["id"], "type": "function", "function": function}
        self._find_turn().setdefault("tool_calls", []).append(call)

    def _add_result(self, id: str, content: Any) -> None:
        self.messages.append({"role": "tool", "tool_call_id": id, "content": content})

    def _find_turn(self, not_after: Sequence[str] = ()) -> JsonObject:
        """Returns the current message of the assistant, whose texts are still lists; a new one if
        it has already reached "text" or "calls", and the item may not come after that. A turn with
        calls is not over before they are answered."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            last = self.messages[-1]
            stage = "reasoning"
            if "tool_calls" in last:
                stage = "calls"
            elif last["content"]:
                stage = "text"
            if stage not in not_after:
                return last
        turn: JsonObject = {"role": "assistant", "content": list[str]()}
        self.messages.append(turn)
        return turn

    def _add_message(self, message: JsonObject) -> None:
        is_second = self._has_instructions and len(self.messages) == 1
        is_system = message["role"] in ("system", "developer")
        content = message["content"]
        if is_second and is_system and isinstance(content, str):  # many templates accept only one
            self.messages[0]["content"] += "\n\n" + content
        else:
            self.messages.append(message)


def _read_mcp_result(item: JsonObject) -> str:
    """Returns the text that the model has read as the result of a call. Its error is in the current
    form, or in the former one, which is a text."""
    match item["error"]:
        case None:
            return item["output"] or ""
        case str(text) | {"content": [{"text": str(text)}]} | {"message": str(text)}:
            return format_result({"error": text})
        case error:
            return format_result({"error": json.dumps(error, ensure_ascii=False)})


def _name_call(item: JsonObject) -> str:
    return join_name(item.get("namespace"), item["name"])


def _find_texts(item: JsonObject) -> list[str]:
    return [part["text"] for part in item["content"] if part["text"]]


def _join_texts(message: JsonObject) -> JsonObject:
    """Joins the texts of a message. They are collected in lists, since adding each of many items to
    a string would take quadratic time."""
    if message["role"] == "assistant":
        for key in ("content", "reasoning_content"):
            if key in message:
                message[key] = "".join(message[key])
    return message


def _as_content(parts: str | Sequence[JsonObject]) -> Any:
    texts = list_texts(parts)
    if len(texts) == 1:
        return texts[0]
    return [{"type": "text", "text": text} for text in texts]
