"""Messages: the conversation, from blocks to messages of OpenAI's form.

Messages of one role that follow each other are one turn, as the dialect has it. A turn of the user
becomes a message for each tool result and, after them, one for its text. A turn of the assistant
may contain results of MCP tools that another server has executed. After each of these results, the
model has begun a new turn.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from constrained.prompt.messages import find_noted, is_left_out, write_note
from constrained.prompt.tools.execution import format_result
from grammars.schema.json_values import JsonObject
from server.dialects.common.sealed_reasoning import is_sealed_here
from server.dialects.messages.documents import (
    find_left_out_of_result,
    read_documents,
    read_result,
)
from server.errors import refuse
from server.turns.offered_tools import join_name
from server.turns.request_checks import (
    UNREADABLE,
    list_texts,
    read_noted_parts,
)

ROLES = ("user", "assistant", "system")
LEFT_OUT = ("redacted_thinking", "container_upload")
"""Types of blocks without text that messages may contain."""
OF_ROLE = {
    "text": ROLES,
    "thinking": ("assistant",),
    "tool_use": ("assistant",),
    "tool_result": ("user",),
    "mcp_tool_use": ("assistant",),
    "mcp_tool_result": ("assistant",),
    "redacted_thinking": ("assistant",),
    "container_upload": ("user", "assistant"),
}
"""The types of blocks, and the roles of messages that may have them."""
INPUTS = dict | str | None
"""Arguments of calls: an object, or what models write instead, as in Chat Completions."""
FIELDS: Mapping[str, Mapping[str, type | UnionType]] = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "tool_use": {"id": str, "name": str, "input": INPUTS},
    "tool_result": {"tool_use_id": str},
    "mcp_tool_use": {"id": str, "name": str, "server_name": str, "input": INPUTS},
    "mcp_tool_result": {"tool_use_id": str},
}
"""Required fields of each kind of block."""
USES = ("tool_use", "mcp_tool_use")


@dataclass(frozen=True)
class Conversation:
    """The conversation in OpenAI's form, and the origin of its messages.

    Args:
        sources: for each, the number of the client's message that it begins in; None: `system`.
        calls: for each, the JSON pointers of the client's blocks that are its calls.
        marks: numbers of first messages after which the client has put a `cache_control`.
        unread: names blocks, and fields of blocks and messages, that the model does not read.
    """

    messages: list[JsonObject]
    sources: tuple[int | None, ...]
    calls: Sequence[Sequence[str]] = ()
    marks: tuple[int, ...] = ()
    prefill: bool = False
    unread: tuple[str, ...] = ()

    @property
    def leading(self) -> int:
        for number, message in enumerate(self.messages):
            if message["role"] != "system":
                return number
        return len(self.messages)

    def find(self, number: int, call: int | None = None) -> str:
        """Returns the JSON pointer of the client's message that one in OpenAI's form comes from, or
        of the input of one of its calls."""
        if call is not None:
            return f"{self.calls[number][call]}/input"
        source = self.sources[number] if number < len(self.sources) else None
        return "/system" if source is None else f"/messages/{source}"


@dataclass(frozen=True)
class _Block:
    body: JsonObject
    where: str
    role: str
    source: int | None

    @property
    def is_marked(self) -> bool:
        """Also if a block of a tool result has a `cache_control`."""
        content = self.body.get("content")
        if isinstance(content, list) and any(map(is_marked, content)):
            return True
        return is_marked(self.body)


@dataclass(frozen=True)
class _WrittenMessage:
    message: JsonObject
    blocks: Sequence[_Block]

    @property
    def calls(self) -> list[str]:
        return [block.where for block in self.blocks if block.body["type"] in USES]


def is_marked(body: Any) -> bool:
    return isinstance(body, Mapping) and body.get("cache_control") is not None


def read_conversation(
    system: str | Sequence[Any] | None,
    messages: Sequence[Mapping[str, Any]],
) -> Conversation:
    """Returns a conversation in OpenAI's form; system prompt and messages are in Anthropic's."""
    blocks = list(_read_content(system or [], "/system", role="system", source=None))
    unread = list[str]()
    of_user = [n for n, message in enumerate(messages) if message.get("role") == "user"]
    last_of_user = max(of_user, default=-1)
    noted = find_noted([*map(_find_role, messages)])
    for number, message in enumerate(messages):
        where = f"/messages/{number}"
        role = message.get("role")
        if role not in ROLES:
            fault = "there is no role" if role is None else f"{role!r} is not a role"
            raise refuse(f"{fault}: use {', '.join(ROLES)}", f"{where}/role")
        if role == "system" and message.get("output_config"):
            unread.append(f"messages/{number}/output_config")
            if message.get("content") is None:
                continue  # a message of options alone
        content = message.get("content")
        if number in noted and isinstance(content, list):
            files = [body if _is_file(body) else None for body in content]
            unread += find_left_out_of_result(files, f"messages/{number}/content")
            content = _note_files(content, f"{where}/content")
        read = list(_read_content(content, f"{where}/content", role=role, source=number))
        clear_at = message.get("clear_at") if role == "system" else None
        if clear_at == "next_user_message" and number < last_of_user:
            continue  # a note of the client's that was for one turn
        blocks += read
    for block in blocks:
        if _is_unread(block.body):
            unread.append(f"{block.where[1:]} ({block.body['type']})")
        if block.body["type"] in ("tool_result", "mcp_tool_result"):
            content = block.body.get("content")
            unread += find_left_out_of_result(content, f"{block.where[1:]}/content")
    written = list(_write(blocks))
    marks = list[int]()
    for count, one in enumerate(written, 1):
        if any(block.is_marked for block in one.blocks):
            marks.append(count)
    return Conversation(
        messages=[one.message for one in written],
        sources=tuple(one.blocks[0].source for one in written),
        calls=[one.calls for one in written],
        marks=tuple(marks),
        prefill=bool(written) and written[-1].message["role"] == "assistant",
        unread=tuple(unread),
    )


def _find_role(message: Mapping[str, Any]) -> Any:
    """Returns the role that a message has in OpenAI's form: results have one of their own."""
    content = message.get("content")
    for body in content if isinstance(content, list) else ():
        if isinstance(body, Mapping) and body.get("type") == "tool_result":
            return "tool"
    return message.get("role")


def _is_file(body: Any) -> bool:
    """Returns whether it is a picture, a document, or anything else that is no block here."""
    return is_left_out(body) and body["type"] not in OF_ROLE


def _is_unread(body: JsonObject) -> bool:
    """Returns whether the model reads nothing of a block. Thinking of this server's own models is
    in its cache, as long as the conversation is."""
    if body["type"] == "thinking" and not body.get("thinking"):
        return not is_sealed_here(body.get("signature"))
    return body["type"] in LEFT_OUT


def _note_files(content: Sequence[Any], where: str) -> list[Any]:
    read = read_documents(content, where, read_noted_parts)
    return [write_note(body["type"]) if _is_file(body) else body for body in read]


def _read_content(content: Any, where: str, *, role: str, source: int | None) -> Iterator[_Block]:
    make_block = functools.partial(_Block, role=role, source=source)
    if isinstance(content, str):
        yield make_block({"type": "text", "text": content}, where)
        return
    if not isinstance(content, list):
        raise refuse("content must be a text or a list of blocks", where)
    if role == "user":
        content = read_documents(content, where)
    for number, body in enumerate(content):
        _check_block(body, f"{where}/{number}", role)
        yield make_block(body, f"{where}/{number}")
    if not content and source is not None:  # it stays a message, if an empty one
        yield make_block({"type": "text", "text": ""}, where)


def _check_block(body: Any, where: str, role: str) -> None:
    kind = body.get("type") if isinstance(body, Mapping) else None
    if not isinstance(kind, str) or kind not in OF_ROLE:
        raise refuse(f"a block of type {kind!r} {UNREADABLE}", where, "unsupported_content")
    if role not in OF_ROLE[kind]:
        raise refuse(f"a message of the role {role!r} has no {kind} blocks", where)
    for name, type_ in FIELDS.get(kind, {}).items():
        if not isinstance(body.get(name), type_):
            wanted = "a text" if type_ is str else "an object"
            raise refuse(f"{name} of a {kind} block must be {wanted}", f"{where}/{name}")


def _write(blocks: Iterable[_Block]) -> Iterator[_WrittenMessage]:
    writer = _ResultWriter()
    for role, turn in itertools.groupby(blocks, lambda block: block.role):
        if role == "assistant":
            for own, results in _split_turns(turn):
                if own:
                    yield _WrittenMessage(_write_turn(own, writer), own)
                for result in results:
                    yield _WrittenMessage(writer.write(result), [result])
            continue
        all_blocks = list(turn)
        read = [block for block in all_blocks if block.body["type"] not in LEFT_OUT]
        texts = list[_Block]()
        for block in read:
            if block.body["type"] == "text":
                texts.append(block)
            else:
                yield _WrittenMessage(writer.write(block), [block])
        if not read:  # it stays a message, if an empty one
            yield _WrittenMessage({"role": role, "content": ""}, all_blocks)
        if texts:
            yield _WrittenMessage({"role": role, "content": _join(texts)}, texts)


def _split_turns(blocks: Iterable[_Block]) -> Iterator[tuple[list[_Block], list[_Block]]]:
    """Yields the turns of the model in one turn of the assistant: its text and calls, and the
    results after them."""
    own: list[_Block] = []
    results: list[_Block] = []
    for block in blocks:
        if block.body["type"] == "mcp_tool_result":
            results.append(block)
            continue
        if results:
            yield own, results
            own, results = [], []
        own.append(block)
    yield own, results


def _join(blocks: Sequence[_Block]) -> Any:
    parts = [{"type": "text", "text": block.body["text"]} for block in blocks]
    if len(parts) == 1:
        return parts[0]["text"]
    return parts


def _write_turn(blocks: Sequence[_Block], writer: "_ResultWriter") -> JsonObject:
    """Returns a turn of the assistant. Texts are joined as they are, as the model had written
    them."""
    bodies = [block.body for block in blocks]
    message: JsonObject = {"role": "assistant"}
    message["content"] = "".join(body["text"] for body in bodies if body["type"] == "text")
    thought = "".join(body["thinking"] for body in bodies if body["type"] == "thinking")
    if thought:
        message["reasoning_content"] = thought
    calls = [writer.write_call(body) for body in bodies if body["type"] in USES]
    if calls:
        message["tool_calls"] = calls
    return message


class _ResultWriter:
    def __init__(self):
        self._names: dict[str, str] = {}  # of the tools that were called, by the ids of the calls

    def write_call(self, body: JsonObject) -> JsonObject:
        name = body["name"]
        if body["type"] == "mcp_tool_use":
            name = join_name(body["server_name"], name)
        self._names[body["id"]] = name
        function = {"name": name, "arguments": body["input"]}
        return {"id": body["id"], "type": "function", "function": function}

    def write(self, block: _Block) -> JsonObject:
        id = block.body["tool_use_id"]
        message = {"role": "tool", "tool_call_id": id, "content": _read_result(block)}
        if id in self._names:  # some templates write it
            message["name"] = self._names[id]
        return message


def _read_result(block: _Block) -> Any:
    where = f"{block.where}/content"
    content = read_result(block.body.get("content"), where) or ""
    if block.body.get("is_error") is True:
        return format_result({"error": "\n".join(list_texts(content))})
    if isinstance(content, list) and len(content) == 1:
        return content[0]["text"]
    return content
