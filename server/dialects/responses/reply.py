"""Responses: the reply as the events of a stream. Its output is a list of items; the last event has
all of it."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from constrained.decode.filters.events import Exhausted
from constrained.errors import ContextError, ReplyError
from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply, Usage
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.chat.reply import show_token
from server.dialects.common.hosted_tools import ListedServer
from server.dialects.common.replies import ReplyWriter
from server.dialects.responses.client_tools import ClientCallItem
from server.dialects.responses.conversation import PARALLEL
from server.dialects.responses.mcp_items import ITEM_DONE, McpCallItem, write_list
from server.dialects.responses.sealed_reasoning import seal
from server.errors import as_http_error
from server.http.ids import make_id
from server.turns.active_request import CallAnswered, ContextFilled, TurnEvent, TurnStarted
from server.turns.call_stream import (
    CallArguments,
    CallEvent,
    CallFinished,
    CallInput,
    CallStarted,
    CallStream,
)
from server.turns.compiled_request import CompiledRequest
from server.turns.offered_tools import ToolForm
from server.turns.unshown_tokens import UnshownTokens

NO_ANSWERS = ("reasoning", "mcp_list_tools", "mcp_call")
"""Types of items that cannot be the end of a response."""


@dataclass(frozen=True)
class TextItemKind:
    """A kind of item with a text.

    Args:
        type: of the item.
        prefix: of its id.
        part: the type of its one part.
    """

    type: str
    prefix: str
    part: str


MESSAGE = TextItemKind("message", "msg_", "output_text")
REASONING = TextItemKind("reasoning", "rs_", "reasoning_text")


@dataclass(frozen=True)
class CallItemKind:
    """A kind of item that is a call.

    Args:
        type: of the item.
        prefix: of its id.
        field: the field with its text.
        event: the name of the text's events, between `response.` and `.delta`.
    """

    type: str
    prefix: str
    field: str
    event: str


FUNCTION_CALL = CallItemKind("function_call", "fc_", "arguments", "function_call_arguments")
CUSTOM_CALL = CallItemKind("custom_tool_call", "ctc_", "input", "custom_tool_call_input")


class TextItem:
    """Writes the stream events of a message or of reasoning. The events have no numbers yet.

    Args:
        kind: of the item.
        index: of the item in the output.
        seals: reasoning is also sent sealed.
    """

    def __init__(self, kind: TextItemKind, index: int, *, seals: bool = False):
        self.kind = kind
        self.index = index
        self._seals = seals
        self._texts: list[str] = []
        self._logprobs: list[JsonObject] = []
        self._id = make_id(kind.prefix)

    def open(self) -> Iterator[JsonObject]:
        """Begins the item with an empty part."""
        item = self._show("in_progress", [])
        yield {"type": "response.output_item.added", "output_index": self.index, "item": item}
        yield self._make_event("response.content_part.added", part=self._show_part())

    def add(self, text: str, logprobs: Sequence[JsonObject] = ()) -> Iterator[JsonObject]:
        """Adds to the text."""
        self._texts.append(text)
        self._logprobs += logprobs
        yield self._describe_text("delta", {"delta": text}, logprobs)

    def close(self, status: str) -> Iterator[JsonObject]:
        """Ends the item, complete or incomplete."""
        text = "".join(self._texts)
        yield self._describe_text("done", {"text": text}, self._logprobs)
        yield self._make_event("response.content_part.done", part=self._show_part())
        item = self._show(status, [self._show_part()])
        if self._seals and self.kind is REASONING:
            item["encrypted_content"] = seal(text)
        yield {"type": ITEM_DONE, "output_index": self.index, "item": item}

    def _make_event(self, type: str, **fields: Any) -> JsonObject:
        path = {"item_id": self._id, "output_index": self.index, "content_index": 0}
        return {"type": type, **path, **fields}

    def _describe_text(
        self, step: str, fields: JsonObject, logprobs: Sequence[JsonObject]
    ) -> JsonObject:
        if self.kind is MESSAGE:
            fields["logprobs"] = list(logprobs)
        return self._make_event(f"response.{self.kind.part}.{step}", **fields)

    def _show(self, status: str, content: list[JsonObject]) -> JsonObject:
        item: JsonObject = {
            "type": self.kind.type,
            "id": self._id,
            "status": status,
            "content": content,
        }
        if self.kind is MESSAGE:
            item["role"] = "assistant"
        else:
            item["summary"] = []
        return item

    def _show_part(self) -> JsonObject:
        part: JsonObject = {"type": self.kind.part, "text": "".join(self._texts)}
        if self.kind is MESSAGE:
            part |= {"annotations": [], "logprobs": list(self._logprobs)}
        return part


class CallItem:
    """Writes the stream events of a call. The events have no numbers yet.

    Args:
        id: the id that its result refers to, without its prefix.
        tool: the tool.
        index: of the item in the output.
        mark: a part of the item's id, see `PARALLEL`.
    """

    def __init__(self, id: str, tool: ToolForm, index: int, *, mark: str = ""):
        self.index = index
        self._kind = CUSTOM_CALL if tool.is_custom else FUNCTION_CALL
        item_id = make_id(self._kind.prefix + mark)
        self._head: JsonObject = {"type": self._kind.type, "id": item_id, "call_id": f"call_{id}"}
        self._name: JsonObject = {"name": tool.name}
        if tool.namespace is not None:
            self._name["namespace"] = tool.namespace
        self._texts: list[str] = []

    def open(self) -> Iterator[JsonObject]:
        """Begins the call, without its text."""
        item = self._show("in_progress")
        yield {"type": "response.output_item.added", "output_index": self.index, "item": item}

    def add(self, text: str) -> Iterator[JsonObject]:
        """Adds to the JSON text of the arguments, or to the text of a custom tool."""
        self._texts.append(text)
        yield self._make_event(f"response.{self._kind.event}.delta", delta=text)

    def close(self, status: str) -> Iterator[JsonObject]:
        """Ends the call, complete or incomplete."""
        whole = {self._kind.field: "".join(self._texts)}
        yield self._make_event(f"response.{self._kind.event}.done", **self._name, **whole)
        item = self._show(status)
        yield {"type": ITEM_DONE, "output_index": self.index, "item": item}

    def _make_event(self, type: str, **fields: Any) -> JsonObject:
        return {"type": type, "item_id": self._head["id"], "output_index": self.index, **fields}

    def _show(self, status: str) -> JsonObject:
        text = "".join(self._texts)
        return {**self._head, **self._name, self._kind.field: text, "status": status}


OutputItem: TypeAlias = TextItem | CallItem | ClientCallItem | McpCallItem


class ResponsesWriter(ReplyWriter):
    """Writes the events of one response.

    Args:
        compiled: the request that is answered.
        described: the fields of the response that repeat its request.
        shows_logprobs: messages have log probabilities.
        seals: reasoning is also sent sealed.
        keep: stores the response before its last event is sent, since the next request may come at
            once. None: it is not stored.
        listed: MCP servers whose tools the conversation does not list yet.
    """

    names_events = True

    def __init__(
        self,
        compiled: CompiledRequest,
        described: JsonObject,
        *,
        shows_logprobs: bool = False,
        seals: bool = False,
        keep: Callable[[JsonObject], None] | None = None,
        listed: Sequence[ListedServer] = (),
    ):
        self._head: JsonObject = {
            "id": make_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "model": compiled.service.name,
            **described,
            **compiled.notes,
        }
        self._compiled = compiled
        tools = compiled.request.tools
        self._calls = CallStream(compiled.turn, compiled.service.call_ids, tools=tools)
        self._vocabulary = compiled.service.model.engine.vocabulary
        self._keep = keep
        self._shows_logprobs = shows_logprobs
        self._seals = seals
        self._listed = listed
        self._output: list[JsonObject | None] = []  # None: the item is not complete
        self._item: OutputItem | None = None
        self._unanswered: dict[int, McpCallItem] = {}  # calls of the turn, by number
        self._unshown = UnshownTokens()
        self._is_exhausted = False
        self._number = 0

    def open(self) -> Iterator[JsonObject]:
        """Writes two events with the empty response, as OpenAI sends them."""
        for type in ("response.created", "response.in_progress"):
            yield self._count({"type": type, "response": self._show("in_progress")})
        for server in self._listed:
            for event in self._add_whole(write_list(server, self._reserve())):
                yield self._count(event)

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        for written in self._take(event):
            yield self._count(written)

    def fail(self, error: Exception) -> Iterator[JsonObject]:
        fault = as_http_error(error)
        for event in (*self._close_item("incomplete"), *self._give_up()):
            yield self._count(event)
        described = {"code": fault.code, "message": fault.message, "param": fault.where}
        yield self._count({"type": "error", **described})
        code = "invalid_prompt"
        if fault.status >= 500 or isinstance(error, ReplyError):
            code = "server_error"
        elif isinstance(error, ContextError):  # Codex knows the error by this code
            code = fault.code
        response = self._show("failed", error={"code": code, "message": fault.message})
        yield self._count({"type": "response.failed", "response": response})

    def before_sending(self, chunk: JsonObject) -> None:
        response = chunk.get("response")
        if self._keep is not None and response and response["status"] != "in_progress":
            self._keep(response)

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject:
        """Returns the response of the last event, which is complete."""
        return chunks[-1]["response"]

    def _count(self, event: JsonObject) -> JsonObject:
        event["sequence_number"] = self._number
        self._number += 1
        return event

    def _take(self, event: TurnEvent) -> Iterator[JsonObject]:
        match event:
            case TokenDrawn():
                self._unshown.add(event)
            case ReasoningDelta(text):
                item = yield from self._open_text(REASONING)
                self._unshown.take_all()
                yield from item.add(text)
            case ContentDelta(text):
                item = yield from self._open_text(MESSAGE)
                yield from item.add(text, self._show_logprobs(text))
            case TurnStarted(compiled):
                self._start_turn(compiled)
            case CallAnswered(index, result):
                if (call := self._unanswered.pop(index, None)) is not None:
                    yield from self._add_whole(call.answer(result))
            case ContextFilled():
                pass  # to OpenAI, a reply that fills the context has used up its tokens
            case Reply():
                yield from self._finish(event)
            case _:
                if isinstance(event, Exhausted):
                    self._is_exhausted = True
                for call_event in self._calls.take(event):
                    self._unshown.take_all()
                    yield from self._write_call(call_event)

    def _open_text(self, kind: TextItemKind) -> Generator[JsonObject, None, TextItem]:
        item = self._item
        if isinstance(item, TextItem) and item.kind is kind:
            return item
        yield from self._close_item("completed")
        item = TextItem(kind, self._reserve(), seals=self._seals)
        self._item = item
        yield from item.open()
        return item

    def _write_call(self, event: CallEvent) -> Iterator[JsonObject]:
        match event:
            case CallStarted():
                yield from self._close_item("completed")
                self._item = self._make_item(event)
                yield from self._item.open()
            case CallArguments(_, text) | CallInput(_, text):
                assert self._item is not None
                assert not isinstance(self._item, TextItem)
                yield from self._item.add(text)
            case CallFinished(index) if isinstance(self._item, McpCallItem):
                yield from self._item.finish_arguments()
                self._unanswered[index] = self._item
                self._item = None
            case CallFinished():
                yield from self._close_item("incomplete" if self._is_exhausted else "completed")

    def _make_item(self, started: CallStarted) -> "OutputItem":
        """Makes the item of a call."""
        id, tool, index = started.id, started.tool, self._reserve()
        is_parallel = started.index > 0 and self._compiled.request.tools.runs_here
        mark = PARALLEL if is_parallel else ""
        if tool.is_described:
            return ClientCallItem(f"call_{id}", tool.name, index, mark=mark)
        if tool.server is None:
            return CallItem(id, tool, index, mark=mark)
        return McpCallItem(f"mcp_{mark}{id}", server=tool.server, name=tool.name, index=index)

    def _start_turn(self, compiled: CompiledRequest) -> None:
        """Begins a turn of a run with several turns."""
        tools = compiled.request.tools
        self._calls = CallStream(compiled.turn, compiled.service.call_ids, tools=tools)
        self._unanswered.clear()
        self._is_exhausted = False
        self._unshown.take_all()

    def _give_up(self) -> Iterator[JsonObject]:
        """Ends the calls that will not be answered any more."""
        for call in self._unanswered.values():
            yield from self._add_whole(call.close("incomplete"))
        self._unanswered.clear()

    def _reserve(self) -> int:
        """Reserves the place of a new item in the output."""
        self._output.append(None)
        return len(self._output) - 1

    def _close_item(self, status: str) -> Iterator[JsonObject]:
        if self._item is None:
            return
        item = self._item
        self._item = None
        yield from self._add_whole(item.close(status))

    def _add_whole(self, events: Iterator[JsonObject]) -> Iterator[JsonObject]:
        """Adds an item that is complete with the last of its events."""
        for event in events:
            if event["type"] == ITEM_DONE:
                self._output[event["output_index"]] = event["item"]
            yield event

    def _finish(self, reply: Reply) -> Iterator[JsonObject]:
        self._head |= self._compiled.annotate({0: reply})
        usage = count_usage(reply.usage)
        if reply.finish_reason in ("stop", "tool_calls"):
            if not self._has_answer:
                yield from self._open_text(MESSAGE)  # clients expect a message, even an empty one
            yield from self._close_item("completed")
            response = self._show("completed", usage=usage, completed_at=int(time.time()))
            yield {"type": "response.completed", "response": response}
            return
        yield from self._close_item("incomplete")
        yield from self._give_up()
        reason = {"reason": "max_output_tokens"} if reply.finish_reason == "length" else None
        response = self._show("incomplete", usage=usage, incomplete_details=reason)
        yield {"type": "response.incomplete", "response": response}

    @property
    def _has_answer(self) -> bool:
        """True if there is an item that a client waits for, or continues with."""
        item = self._item
        is_reasoning = isinstance(item, TextItem) and item.kind is REASONING
        if item is not None and not is_reasoning:
            return True
        return any(item["type"] not in NO_ANSWERS for item in self._output if item is not None)

    def _show_logprobs(self, text: str) -> list[JsonObject]:
        """Returns the log probabilities of the tokens that spell a piece of content."""
        if not self._shows_logprobs:
            return []
        return [show_token(token, self._vocabulary) for token in self._unshown.take(text)]

    def _show(self, status: str, **fields: Any) -> JsonObject:
        empty = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
        output = [item for item in self._output if item is not None]
        return {**self._head, "status": status, **empty, "output": output, **fields}


def count_usage(usage: Usage) -> JsonObject:
    """Returns the tokens of a turn. Input tokens that were not cached are written to the cache."""
    read = usage.prompt_tokens
    written = usage.completion_tokens
    cached = usage.cached_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": read - cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": read + written,
    }
