"""Responses: reads, checks and completes the items of a conversation.

An item is stored and listed in OpenAI's form: with its type, an id and, for a message, its parts.
Clients that store the conversation themselves may send reasoning back sealed (`encrypted_content`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from constrained.prompt.messages import find_noted
from grammars.schema.json_values import JsonObject
from server.dialects.common.sealed_reasoning import is_sealed_here, unseal
from server.dialects.responses.client_tools import CALL, CLIENT_TOOLS, is_client_call
from server.dialects.responses.store import pack_request
from server.errors import HttpError, refuse
from server.http.ids import make_id
from server.turns.request_checks import (
    find_left_out,
    list_texts,
    read_noted_parts,
    read_text_parts,
)

ROLES = ("user", "system", "developer", "assistant")
CALLS = ("function_call", "custom_tool_call")
"""Items of calls that the client executes; they need a `call_id`."""
OUTPUTS = ("function_call_output", "custom_tool_call_output")
"""Their outputs, which are texts or lists of parts."""
STATUSES = ("in_progress", "completed", "incomplete")
READ_WITHOUT_CALL_ID = ("mcp_list_tools", "mcp_call", "tool_search_call")
NO_APPROVAL = "this server asks for no approval: leave it out"
NO_SEARCH = "this server searches no tools: send those that the model may call in tools"
UNSUPPORTED: Mapping[str, str] = {
    "mcp_approval_request": NO_APPROVAL,
    "mcp_approval_response": NO_APPROVAL,
    "tool_search_call": NO_SEARCH,
    "tool_search_output": NO_SEARCH,
    "additional_tools": "send them in tools",
    # It contains everything before it, but encrypted: the model would have nothing to read.
    "compaction": "only OpenAI can read it; send the conversation, or a summary as a message",
    "compaction_trigger": "send the conversation as it is, or a summary of it as a message",
}
"""Items that a conversation needs, or that change its request, each with a hint for the client."""
ReadParts = Callable[[Any, str], Any]
Find = Callable[[set[str]], Mapping[str, JsonObject]]  # finds stored items by their ids


def read_input(given: str | Sequence[JsonObject] | None, find: Find) -> list[JsonObject]:
    """Reads the items of a request, or a user's text; "" and None: nothing."""
    if not given:
        return []
    if isinstance(given, str):
        return [_read_message({"role": "user", "content": given}, "/input")]
    stored = find(_read_references(given))
    noted = find_noted([*map(_find_role, given)])
    items: list[JsonObject] = []
    for number, item in enumerate(given):
        where = f"/input/{number}"
        if number in noted and _is_message(item):
            items.append(_read_message(item, where, read_noted_parts))
        elif not _is_unread(item):
            items.append(_read_item(item, where, stored))
    return items


def _is_message(item: JsonObject) -> bool:
    return not _is_reference(item) and (item.get("type") or "message") == "message"


def _find_role(item: JsonObject) -> Any:
    """Returns the role that an item has in Chat Completions."""
    if _is_message(item):
        return item.get("role")
    kind = item.get("type")
    if not isinstance(kind, str) or _is_reference(item):
        return None
    return "tool" if kind.endswith("_output") else "assistant"


def _read_references(given: Sequence[JsonObject]) -> set[str]:
    """Returns the ids of items that are given only by them, each once: a few bytes could name a
    long item ten thousand times."""
    ids: set[str] = set()
    for number, item in enumerate(given):
        if not _is_reference(item):
            continue
        id = _read_text(item, "id", f"/input/{number}")
        if id in ids:
            message = f"the item {id!r} is referred to twice: leave one of them out"
            raise refuse(message, f"/input/{number}/id")
        ids.add(id)
    return ids


def find_unread_items(given: Sequence[JsonObject]) -> tuple[str, ...]:
    """Names the items that are left out: those of OpenAI's own tools, such as a web search, and
    encrypted ones."""
    unread: list[str] = []
    noted = find_noted([*map(_find_role, given)])
    for number, item in enumerate(given):
        if _is_unread(item):
            unread.append(f"input/{number} ({item['type']})")
        elif _has_summary_alone(item):
            unread.append(f"input/{number} (encrypted_content)")
        elif _has_annotations(item):
            unread.append(f"input/{number} (annotations)")
        if item.get("type") in OUTPUTS:
            unread += find_left_out(item.get("output"), f"input/{number}/output")
        if number in noted and _is_message(item):
            unread += find_left_out(item.get("content"), f"input/{number}/content")
    return tuple(unread)


def _is_unread(item: JsonObject) -> bool:
    kind = item.get("type")
    if kind == "reasoning":
        has_text = item.get("content") or item.get("summary")
        return not has_text and _is_sealed_elsewhere(item)
    if not isinstance(kind, str) or kind in (*CALLS, *READ_WITHOUT_CALL_ID):
        return False
    return kind.endswith("_call") and item.get("call_id") is None


def _has_annotations(item: JsonObject) -> bool:
    content = item.get("content")
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, Mapping) and part.get("annotations") for part in parts)


def _has_summary_alone(item: JsonObject) -> bool:
    is_reasoning = item.get("type") == "reasoning" and not item.get("content")
    return is_reasoning and _is_sealed_elsewhere(item)


def _is_sealed_elsewhere(item: JsonObject) -> bool:
    sealed = item.get("encrypted_content")
    return isinstance(sealed, str) and bool(sealed) and not is_sealed_here(sealed)


def _read_item(item: JsonObject, where: str, stored: Mapping[str, JsonObject]) -> JsonObject:
    if _is_reference(item):
        id = _read_text(item, "id", where)
        if id not in stored:
            message = f"there is no item {id!r}: those of responses with store: false are not kept"
            raise HttpError(404, message, "not_found", where=f"{where}/id")
        return stored[id]
    match item.get("type") or "message":
        case "message":
            return _read_message(item, where)
        case "reasoning":
            return _read_reasoning(item, where)
        case "function_call":
            read = _complete(item, where, "fc_", "call_id", "name")
            return {**read, "arguments": _read_arguments(item, where), **_find_namespace(item)}
        case "custom_tool_call":
            read = _complete(item, where, "ctc_", "call_id", "name", "input")
            return {**read, **_find_namespace(item)}
        case "function_call_output" | "custom_tool_call_output":
            return _read_output(item, where)
        case "mcp_list_tools":
            read = _complete(item, where, "mcpl_", "server_label")
            del read["status"]  # the only kind of item without one
            return {**read, "tools": item.get("tools") or [], "error": item.get("error")}
        case "mcp_call":
            return _read_mcp_call(item, where)
        case str(kind) if is_client_call(kind):
            return _read_described_call(item, where)
        case str(kind) if is_client_call(kind.removesuffix("_output")):
            return _read_client_output(item, where)
        case kind:
            message = f"an item of type {kind!r} cannot be used by this server"
            if isinstance(kind, str) and kind in UNSUPPORTED:
                message = f"{message}: {UNSUPPORTED[kind]}"
            raise refuse(message, f"{where}/type", "unsupported_item")


def _complete(item: JsonObject, where: str, prefix: str, *texts: str) -> JsonObject:
    """Returns the fields that all kinds of items have, and those that have to be texts. An item
    without an id gets one with this prefix."""
    read: JsonObject = {name: _read_text(item, name, where) for name in texts}
    id = item.get("id")
    if not isinstance(id, str) or not id:
        id = make_id(prefix)
    status = item.get("status")  # says whether it was cut
    if status not in STATUSES:
        status = "completed"
    return {"type": item.get("type") or "message", **read, "id": id, "status": status}


def _is_reference(item: JsonObject) -> bool:
    return item.get("type") == "item_reference" or set(item) == {"id"}


def _read_text(item: JsonObject, key: str, where: str) -> str:
    text = item.get(key)
    if not isinstance(text, str):
        raise refuse(f"{key} must be a text", f"{where}/{key}")
    if key == "call_id" and not text:
        message = "call_id is empty: a call and its output have to have the same id"
        raise refuse(message, f"{where}/call_id")
    return text


def _read_message(
    item: JsonObject, where: str, read_parts: ReadParts = read_text_parts
) -> JsonObject:
    role = item.get("role")
    if role not in ROLES:
        raise refuse(f"the role {role!r} is not known: use {', '.join(ROLES)}", f"{where}/role")
    content = read_parts(item.get("content"), f"{where}/content")
    if content is None:
        raise refuse("the message has no content", f"{where}/content")
    parts = [_make_part(text, is_output=role == "assistant") for text in list_texts(content)]
    return {**_complete(item, where, "msg_"), "role": role, "content": parts}


def _make_part(text: str, *, is_output: bool) -> JsonObject:
    if is_output:
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _read_reasoning(item: JsonObject, where: str) -> JsonObject:
    """Reads reasoning. The text is in its content, or sealed; otherwise there is only a summary."""
    text = _join(item.get("content"), f"{where}/content")
    sealed = item.get("encrypted_content")
    if not text and sealed:
        text = unseal(sealed, f"{where}/encrypted_content") or ""
    summary = item.get("summary") or []
    text = text or _join(summary, f"{where}/summary")
    content = [{"type": "reasoning_text", "text": text}]
    body = {**_complete(item, where, "rs_"), "summary": summary, "content": content}
    if sealed:
        body["encrypted_content"] = sealed
    return body


def _join(parts: Any, where: str) -> str:
    if parts is None:
        return ""
    if not isinstance(parts, list):
        raise refuse("it must be a list of parts", where)
    texts = list[str]()
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise refuse("the part has no text", f"{where}/{number}/text")
        texts.append(text)
    return "\n".join(texts)


def _read_arguments(item: JsonObject, where: str) -> str:
    match item.get("arguments"):
        case None:
            return "{}"
        case str(text):
            return text
        case dict(arguments):
            return json.dumps(arguments, ensure_ascii=False)
        case _:
            raise refuse("arguments must be the JSON text of an object", f"{where}/arguments")


def _find_namespace(item: JsonObject) -> JsonObject:
    namespace = item.get("namespace")
    return {"namespace": namespace} if isinstance(namespace, str) and namespace else {}


def _read_mcp_call(item: JsonObject, where: str) -> JsonObject:
    read = _complete(item, where, "mcp_", "id", "server_label", "name", "arguments")
    for name in ("approval_request_id", "output"):
        read[name] = None if item.get(name) is None else _read_text(item, name, where)
    return read | {"error": item.get("error"), "status": item.get("status") or "completed"}


def _read_described_call(item: JsonObject, where: str) -> JsonObject:
    tool = CLIENT_TOOLS[item["type"].removesuffix(CALL)]
    arguments = item.get(tool.arguments_field)
    if not isinstance(arguments, Mapping):
        message = f"{tool.arguments_field} must be an object"
        raise refuse(message, f"{where}/{tool.arguments_field}")
    return {
        **_complete(item, where, tool.prefix, "call_id"),
        tool.arguments_field: dict(arguments),
    }


def _read_client_output(item: JsonObject, where: str) -> JsonObject:
    output = item.get("output")
    if output is None:
        output = item.get("status")  # the output of an apply_patch_call_output is optional
    elif not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False)
    elif item.get("status") == "failed":
        output = f"failed: {output}"
    return _read_output({**item, "type": "function_call_output", "output": output}, where)


def _read_output(item: JsonObject, where: str) -> JsonObject:
    output = read_noted_parts(item.get("output"), f"{where}/output")
    if output is None:
        raise refuse("there is no output", f"{where}/output")
    if not isinstance(output, str):
        output = [_make_part(part["text"], is_output=False) for part in output]
    return {**_complete(item, where, "fco_", "call_id"), "output": output}


def pack_checked(described: JsonObject, context: Iterable[JsonObject]) -> bytes:
    """Packs what a response repeats of its request, see `pack_request`. Refuses what JSON in UTF-8
    cannot represent: lone surrogates, and numbers that are not finite."""
    try:
        return pack_request(described, context)
    except UnicodeEncodeError as error:
        message = "the request has a lone surrogate, which is not valid in text. Replace it"
        raise refuse(message, code="invalid_json") from error
    except ValueError as error:
        message = f"the request has values that JSON cannot represent: {error}"
        raise refuse(message.encode(errors="replace").decode(), code="invalid_json") from error
