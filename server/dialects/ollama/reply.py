"""Ollama's API: the reply, as the lines of a stream."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.chat.reply import show_token
from server.dialects.common.replies import ReplyWriter
from server.errors import HttpError, as_http_error
from server.http.sse import encode_json
from server.turns.active_request import TurnEvent
from server.turns.call_stream import CallArguments, CallFinished, CallInput, CallStarted, CallStream
from server.turns.compiled_request import CompiledRequest
from server.turns.offered_tools import INPUT


def encode_line(value: JsonObject) -> bytes:
    return encode_json(value) + b"\n"


def encode_ollama_error(error: HttpError) -> JsonObject:
    if error.where and error.where not in error.message:
        return {"error": f"{error.message} (at {error.where})"}
    return {"error": error.message}


def make_head(name: str) -> JsonObject:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"model": name, "created_at": now}


class OllamaWriter(ReplyWriter):
    """Writes the lines of one reply: messages with calls for /api/chat, only text for
    /api/generate."""

    media_type = "application/x-ndjson"

    def __init__(self, compiled: CompiledRequest, *, is_chat: bool):
        self._compiled = compiled
        self._is_chat = is_chat
        self._calls = CallStream(
            compiled.turn, compiled.service.call_ids, tools=compiled.request.tools
        )
        self._under_way: dict[int, _Call] = {}
        self._logprobs: list[JsonObject] = []
        # Clients read each line as JSON, so a line without text keeps the stream alive.
        self.ping = self.encode(self._write())

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        match event:
            case TokenDrawn():
                vocabulary = self._compiled.service.model.engine.vocabulary
                self._logprobs.append(show_token(event, vocabulary))
            case ContentDelta(text):
                yield self._write(text)
            case ReasoningDelta(text):
                yield self._write(thinking=text)
            case Reply():
                yield self._write() | self._compiled.annotate({0: event}) | _describe_end(event)
            case _:
                yield from self._take_call(event)

    def fail(self, error: Exception) -> Iterator[JsonObject]:
        yield encode_ollama_error(as_http_error(error))

    def encode(self, chunk: JsonObject) -> bytes:
        return encode_line(chunk)

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject:
        return fold(chunks)

    def _take_call(self, event: TurnEvent) -> Iterator[JsonObject]:
        for part in self._calls.take(event):
            match part:
                case CallStarted(index, id, tool):
                    self._under_way[index] = _Call(f"call_{id}", tool.name)
                case CallArguments(index, text):
                    self._under_way[index].arguments += text
                case CallInput(index, text):
                    self._under_way[index].input += text
                case CallFinished(index):
                    yield self._write(call=self._under_way.pop(index).show(index))

    def _write(
        self, text: str = "", *, thinking: str = "", call: JsonObject | None = None
    ) -> JsonObject:
        line = make_head(self._compiled.service.name)
        if self._is_chat:
            part: JsonObject = {"role": "assistant", "content": text}
            line["message"] = part
        else:
            part = line
            part["response"] = text
        if thinking:
            part["thinking"] = thinking
        if call is not None:
            part["tool_calls"] = [call]
        line["done"] = False
        if self._logprobs:
            line["logprobs"], self._logprobs = self._logprobs, []
        return line


class _Call:
    """An unfinished call: Ollama shows a call when it is complete."""

    def __init__(self, id: str, name: str):
        self._id, self._name = id, name
        self.arguments = ""
        self.input = ""

    def show(self, index: int) -> JsonObject:
        arguments = {INPUT: self.input} if self.input else json.loads(self.arguments)
        function = {"index": index, "name": self._name, "arguments": arguments}
        return {"id": self._id, "function": function}


def _describe_end(reply: Reply) -> JsonObject:
    """Returns why the reply ended, with counts and durations in nanoseconds."""
    usage, timings = reply.usage, reply.timings
    prompt = round(timings.prompt_seconds * 1e9)
    generation = round(timings.generation_seconds * 1e9)
    return {
        "done": True,
        "done_reason": "length" if reply.finish_reason == "length" else "stop",
        "total_duration": prompt + generation,
        "load_duration": 0,
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_duration": prompt,
        "eval_count": usage.completion_tokens,
        "eval_duration": generation,
    }


def fold(lines: Sequence[JsonObject]) -> JsonObject:
    """Adds lines up to the whole reply: texts and lists are appended, other values are those of the
    last line."""
    whole: JsonObject = {}
    for line in lines:
        message = whole.get("message", {})
        _add(whole, line)
        if "message" in line:
            whole["message"] = message
            _add(message, line["message"])
    return whole


def _add(whole: JsonObject, part: JsonObject) -> None:
    for key, value in part.items():
        if key in ("content", "thinking", "response", "tool_calls", "logprobs") and key in whole:
            whole[key] = whole[key] + value
        else:
            whole[key] = value
