"""Responses: the reply as the events of a stream. Its output is a list of items; the last event has
all of it."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from constrained.decode.filters.events import Exhausted
from constrained.errors import ContextError, ReplyError
from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply, Usage
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.chat.reply import show_token
from server.dialects.common.replies import ReplyWriter
from server.dialects.responses.output_items import (
    ITEM_DONE,
    MESSAGE,
    REASONING,
    CallItem,
    ClientCallItem,
    OutputItem,
    TextItem,
    TextItemKind,
)
from server.errors import as_http_error
from server.http.ids import make_id
from server.turns.active_request import TurnEvent
from server.turns.call_stream import (
    CallArguments,
    CallEvent,
    CallFinished,
    CallInput,
    CallStarted,
    CallStream,
)
from server.turns.compiled_request import CompiledRequest
from server.turns.unshown_tokens import UnshownTokens


class ResponsesWriter(ReplyWriter):
    """Writes the events of one response.

    Args:
        described: the fields of the response that repeat its request.
        keep: stores the response before its last event is sent, since the next request may come at
            once. None: it is not stored.
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
        self._output: list[JsonObject | None] = []  # None: the item is not complete
        self._item: OutputItem | None = None
        self._unshown = UnshownTokens()
        self._is_exhausted = False
        self._number = 0

    def open(self) -> Iterator[JsonObject]:
        """Writes two events with the empty response, as OpenAI sends them."""
        for type in ("response.created", "response.in_progress"):
            yield self._count({"type": type, "response": self._show("in_progress")})

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        for written in self._take(event):
            yield self._count(written)

    def fail(self, error: Exception) -> Iterator[JsonObject]:
        fault = as_http_error(error)
        for event in self._close_item("incomplete"):
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
                yield from self._item.add(text)
            case CallFinished():
                yield from self._close_item("incomplete" if self._is_exhausted else "completed")

    def _make_item(self, started: CallStarted) -> OutputItem:
        if started.tool.is_described:
            return ClientCallItem(f"call_{started.id}", started.tool.name, self._reserve())
        return CallItem(started.id, started.tool, self._reserve())

    def _reserve(self) -> int:
        self._output.append(None)
        return len(self._output) - 1

    def _close_item(self, status: str) -> Iterator[JsonObject]:
        if self._item is None:
            return
        item = self._item
        self._item = None
        for event in item.close(status):
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
        return any(item["type"] != "reasoning" for item in self._output if item is not None)

    def _show_logprobs(self, text: str) -> list[JsonObject]:
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
