"""Messages: the reply, as the events of a stream, and the form of errors."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json

from constrained.decode.filters.events import ProgressMade
from constrained.errors import ContextError
from constrained.model.reply import Reply, Usage
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.common.replies import ReplyWriter
from server.dialects.common.sealed_reasoning import sign
from server.dialects.messages.request import DecodedRequest
from server.errors import HttpError, as_http_error
from server.http.ids import make_id
from server.http.sse import encode_event
from server.turns.active_request import TurnEvent
from server.turns.call_stream import (
    CallArguments,
    CallEvent,
    CallFinished,
    CallStarted,
    CallStream,
)
from server.turns.compiled_request import CompiledRequest

PING: JsonObject = {"type": "ping"}
REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_reply_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def encode_anthropic_error(error: HttpError) -> JsonObject:
    """Returns the body of an error. The form has no field for the pointer: the message names it."""
    kind = ERROR_TYPES.get(error.status, "api_error")
    message = error.message
    cause = error.__cause__
    if isinstance(cause, ContextError) and cause.tokens is not None:
        # Agents know by these words of Anthropic's that they have to compact the conversation.
        message = f"prompt is too long: {cause.tokens} tokens > {cause.room} maximum. {message}"
    if error.where and error.where not in message:
        message = f"{message} (at {error.where})"
    details = {"error_code": error.code}
    return {"type": "error", "error": {"type": kind, "message": message, "details": details}}


class MessagesWriter(ReplyWriter):
    """Writes the events of one reply: blocks that are opened and closed one after the other."""

    names_events = True
    ping = encode_event(PING, "ping")

    def __init__(self, compiled: CompiledRequest, decoded: DecodedRequest):
        self._compiled = compiled
        self._decoded = decoded
        tools = compiled.request.tools
        self._calls = CallStream(compiled.turn, compiled.service.call_ids, tools=tools)
        self._index = 0
        self._kind = ""  # of the block that is open
        self._thought: list[str] = []
        self._cached = 0

    def foresee(self, events: Sequence[TurnEvent]) -> None:
        for event in events:
            if isinstance(event, ProgressMade):
                self._cached = event.cached_tokens

    def open(self) -> Iterator[JsonObject]:
        """Yields the message without content; of its usage, only the tokens of the prompt are
        known: how many of them were cached, if the prompt is being read already."""
        prompt = len(self._compiled.turn.tokens)
        usage = Usage(prompt, 0, 0, cached_tokens=self._cached)
        message: JsonObject = {
            "id": make_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": self._compiled.service.name,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._count(usage), "service_tier": "standard"},
            **self._compiled.notes,
        }
        yield {"type": "message_start", "message": message}
        yield PING

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        match event:
            case ReasoningDelta(text) if text:
                yield from self._think(text)
            case ContentDelta(text) if text:
                yield from self._enter("text", {"text": ""})
                yield self._add("text_delta", text=text)
            case Reply():
                yield from self._leave()
                yield self._finish(event)
                yield {"type": "message_stop"}
            case _:
                for call_event in self._calls.take(event):
                    yield from self._call(call_event)

    def fail(self, error: Exception) -> Iterator[JsonObject]:
        self._decoded.locate_error(error)
        yield encode_anthropic_error(as_http_error(error))

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject:
        return fold(chunks)

    def _think(self, text: str) -> Iterator[JsonObject]:
        yield from self._enter("thinking", {"thinking": "", "signature": ""})
        self._thought.append(text)
        if self._decoded.shows_thinking:
            yield self._add("thinking_delta", thinking=text)

    def _call(self, event: CallEvent) -> Iterator[JsonObject]:
        match event:
            case CallStarted():
                yield from self._leave()
                head: JsonObject = {"id": f"toolu_{event.id}", "name": event.tool.name, "input": {}}
                yield from self._enter("tool_use", head)
            case CallArguments(_, text) if text:
                yield self._add("input_json_delta", partial_json=text)
            case CallFinished():
                yield from self._leave()
            case _:
                pass

    def _enter(self, kind: str, fields: JsonObject) -> Iterator[JsonObject]:
        if self._kind == kind:
            return
        yield from self._leave()
        self._kind = kind
        block = {"type": kind, **fields}
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _add(self, kind: str, **fields: str) -> JsonObject:
        delta = {"type": kind, **fields}
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _leave(self) -> Iterator[JsonObject]:
        if not self._kind:
            return
        if self._kind == "thinking":
            yield self._add("signature_delta", signature=sign("".join(self._thought)))
            self._thought.clear()
        yield {"type": "content_block_stop", "index": self._index}
        self._index += 1
        self._kind = ""

    def _finish(self, reply: Reply) -> JsonObject:
        delta = {"stop_reason": self._find_reason(reply), "stop_sequence": reply.stop_sequence}
        last = {"type": "message_delta", "delta": delta, "usage": self._count(reply.usage)}
        return last | self._compiled.annotate_end(reply)

    def _count(self, usage: Usage) -> JsonObject:
        return count_usage(usage, self._decoded.count_breakpoint_tokens(self._compiled.turn))

    def _find_reason(self, reply: Reply) -> str:
        if reply.stop_sequence is not None:
            return "stop_sequence"
        compiled = self._compiled
        room = compiled.service.model.engine.context_length - len(compiled.turn.tokens)
        max_tokens = compiled.request.generation.max_tokens or room
        if reply.finish_reason == "length" and max_tokens > room:
            return "model_context_window_exceeded"
        return REASONS.get(reply.finish_reason, "end_turn")


def count_usage(usage: Usage, breakpoint_tokens: int) -> JsonObject:
    """Returns the tokens of a reply in Anthropic's form. Of the prompt tokens before the last
    breakpoint, those that were not cached count as written to the cache."""
    read = usage.cached_tokens
    created = max(0, breakpoint_tokens - read)
    return {
        "input_tokens": usage.prompt_tokens - read - created,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def fold(events: Sequence[JsonObject]) -> JsonObject:
    message: JsonObject = {}
    texts: list[str] = []
    for event in events:
        match event:
            case {"type": "message_start", "message": start}:
                message = {**start, "content": [], "usage": dict(start["usage"])}
            case {"type": "content_block_start", "content_block": block}:
                message["content"].append(dict(block))
                texts = []
            case {"type": "content_block_delta", "delta": delta}:
                _add_delta(message["content"][-1], delta, texts)
            case {"type": "content_block_stop"} if texts:
                message["content"][-1]["input"] = _read_input("".join(texts))
            case {"type": "message_delta", "delta": delta, "usage": usage, **notes}:
                message |= notes | delta
                message["usage"] |= usage
            case _:
                pass
    return message


def _add_delta(block: JsonObject, delta: JsonObject, texts: list[str]) -> None:
    for key, value in delta.items():
        if key == "partial_json":
            texts.append(value)
        elif key != "type":
            block[key] += value


def _read_input(text: str) -> Any:
    """Returns the arguments of a call; of one that was cut when the tokens ran out, what there
    is."""
    try:
        return json.loads(text)
    except ValueError:
        return from_json(text, allow_partial=True)
