"""Responses: the reply, as the events of a stream; one that is whole is the last event's."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from constrained.decode.events import Exhausted
from constrained.logits import TokenDrawn
from constrained.reply import Reply, Usage
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.chat.reply import show_token
from server.dialects.responses.output import MESSAGE, REASONING, CallItem, Kind, TextItem
from server.errors import as_http_error
from server.ids import make_id
from server.turns.active_request import Begun, Told
from server.turns.call_stream import Arguments, Calls, Closed, Opened, Part

Json = dict[str, Any]
DONE = "response.output_item.done"


class ResponseWriter:
    """Writes the events of one response.

    Args:
        begun: the request under way.
        described: what the response says of its request.
        shows_logprobs: messages say how likely their tokens were.
        seals: reasoning comes in its opaque form as well.
    """

    def __init__(
        self, begun: Begun, described: Json, *, shows_logprobs: bool = False, seals: bool = False
    ):
        self._head: Json = {
            "id": make_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "model": begun.service.name,
            **described,
            **begun.notes(),
        }
        self._calls = Calls(begun.turn, begun.service.call_ids)
        self._vocabulary = begun.service.model.engine.vocabulary
        self._shows_logprobs, self._seals = shows_logprobs, seals
        self._output: list[Json] = []
        self._item: TextItem | CallItem | None = None
        self._drawn: list[TokenDrawn] = []
        self._is_exhausted = False
        self._number = 0

    def open(self) -> Iterator[Json]:
        """The response has begun."""
        for type in ("response.created", "response.in_progress"):
            yield self._count({"type": type, "response": self._show("in_progress")})

    def take(self, told: Told) -> Iterator[Json]:
        """The events that one of the turn comes to; a reply is the last."""
        for event in self._take(told):
            yield self._count(event)

    def fail(self, error: Exception) -> Iterator[Json]:
        """The turn has failed."""
        fault = as_http_error(error)
        said = {"code": fault.code, "message": fault.message, "param": fault.where}
        code = "server_error" if fault.status >= 500 else "invalid_prompt"
        failed = {"error": {"code": code, "message": fault.message}}
        for event in self._close("incomplete"):
            yield self._count(event)
        yield self._count({"type": "error", **said})
        response = self._show("failed", **failed)
        yield self._count({"type": "response.failed", "response": response})

    def _count(self, event: Json) -> Json:
        event["sequence_number"] = self._number
        self._number += 1
        return event

    def _take(self, told: Told) -> Iterator[Json]:
        match told:
            case TokenDrawn():
                self._drawn.append(told)
            case ReasoningDelta(text):
                yield from self._write(REASONING)
                self._drawn.clear()
                yield from self._add(text)
            case ContentDelta(text):
                yield from self._write(MESSAGE)
                yield from self._add(text, self._drain(text))
            case Reply():
                yield from self._finish(told)
            case _:
                self._is_exhausted |= isinstance(told, Exhausted)
                for part in self._calls.take(told):
                    self._drawn.clear()
                    yield from self._write_call(part)

    def _write(self, kind: Kind) -> Iterator[Json]:
        """Opens an item of the kind, unless there is one."""
        if not isinstance(self._item, TextItem) or self._item.kind is not kind:
            yield from self._close("completed")
            yield from self._open(TextItem(kind, len(self._output), seals=self._seals))

    def _write_call(self, part: Part) -> Iterator[Json]:
        match part:
            case Opened(_, id, name):
                yield from self._close("completed")
                yield from self._open(CallItem(f"call_{id}", name, len(self._output)))
            case Arguments(_, text):
                yield from self._add(text)
            case Closed():
                yield from self._close("incomplete" if self._is_exhausted else "completed")

    def _open(self, item: TextItem | CallItem) -> Iterator[Json]:
        self._item = item
        yield from item.open()

    def _add(self, text: str, logprobs: Sequence[Json] = ()) -> Iterator[Json]:
        match self._item:
            case TextItem() as item:
                yield from item.add(text, logprobs)
            case CallItem() as item:
                yield from item.add(text)
            case None:
                raise AssertionError("text that belongs to no item")

    def _close(self, status: str) -> Iterator[Json]:
        """Closes the item under way, if there is one."""
        item, self._item = self._item, None
        for event in item.close(status) if item else ():
            if event["type"] == DONE:
                self._output.append(event["item"])
            yield event

    def _finish(self, reply: Reply) -> Iterator[Json]:
        is_whole = reply.finish_reason in ("stop", "tool_calls")
        if is_whole and not self._has_answer:
            yield from self._write(MESSAGE)  # clients look for a message, also for an empty one
        yield from self._close("completed" if is_whole else "incomplete")
        told: Json = {"usage": show_usage(reply.usage)}
        if is_whole:
            response = self._show("completed", completed_at=int(time.time()), **told)
            yield {"type": "response.completed", "response": response}
            return
        if reply.finish_reason == "length":
            told["incomplete_details"] = {"reason": "max_output_tokens"}
        yield {"type": "response.incomplete", "response": self._show("incomplete", **told)}

    @property
    def _has_answer(self) -> bool:
        is_open = self._item is not None and getattr(self._item, "kind", None) is not REASONING
        return is_open or any(item["type"] != "reasoning" for item in self._output)

    def _drain(self, text: str) -> list[Json]:
        """The tokens that spell a piece of content; those of the structure before it are left
        out, and those of a text that is held back wait for it."""
        if not self._shows_logprobs or not self._drawn:
            return []
        data = text.encode("utf-8", "surrogatepass")
        spelled = b"".join(token.text for token in self._drawn)
        at = max(0, spelled.find(data))
        kept, waiting, place = list[TokenDrawn](), list[TokenDrawn](), 0
        for token in self._drawn:
            if place >= at + len(data):
                waiting.append(token)
            elif place + len(token.text) > at:
                kept.append(token)
            place += len(token.text)
        self._drawn = waiting
        return [show_token(token, self._vocabulary) for token in kept]

    def _show(self, status: str, **told: Any) -> Json:
        empty = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
        return {**self._head, "status": status, **empty, "output": [*self._output], **told}


def show_usage(usage: Usage) -> Json:
    """The tokens of a turn; those of the input that were computed are known from then on."""
    read, written = usage.prompt_tokens, usage.completion_tokens
    cached = usage.cached_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": read - cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": read + written,
    }
