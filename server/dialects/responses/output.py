"""Responses: the items of a reply while they come, each as the events that tell of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from server.dialects.responses.sealing import seal
from server.ids import make_id

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of item that is text: its type, what its ids begin with, the type of its one part."""

    type: str
    prefix: str
    part: str


MESSAGE = Kind("message", "msg_", "output_text")
REASONING = Kind("reasoning", "rs_", "reasoning_text")


class TextItem:
    """A message or a reasoning. Events have no numbers yet.

    Args:
        kind: which of them.
        index: its place in the output.
        seals: a reasoning comes in its opaque form as well.
    """

    def __init__(self, kind: Kind, index: int, *, seals: bool = False):
        self.kind = kind
        self.index = index
        self._seals = seals
        self._texts: list[str] = []
        self._logprobs: list[Json] = []
        self._id = make_id(kind.prefix)

    def open(self) -> Iterator[Json]:
        """The item and its part, empty."""
        item = self._show("in_progress", [])
        yield {"type": "response.output_item.added", "output_index": self.index, "item": item}
        yield self._tell("response.content_part.added", part=self._show_part())

    def add(self, text: str, logprobs: Sequence[Json] = ()) -> Iterator[Json]:
        """More of the text."""
        self._texts.append(text)
        self._logprobs += logprobs
        more = {"logprobs": [*logprobs]} if self.kind is MESSAGE else {}
        yield self._tell(f"response.{self.kind.part}.delta", delta=text, **more)

    def close(self, status: str) -> Iterator[Json]:
        """The item is complete, or incomplete."""
        text = "".join(self._texts)
        more = {"logprobs": [*self._logprobs]} if self.kind is MESSAGE else {}
        yield self._tell(f"response.{self.kind.part}.done", text=text, **more)
        yield self._tell("response.content_part.done", part=self._show_part())
        item = self._show(status, [self._show_part()])
        if self._seals and self.kind is REASONING:
            item["encrypted_content"] = seal(text)
        yield {"type": "response.output_item.done", "output_index": self.index, "item": item}

    def _tell(self, type: str, **fields: Any) -> Json:
        place = {"item_id": self._id, "output_index": self.index, "content_index": 0}
        return {"type": type, **place, **fields}

    def _show(self, status: str, content: list[Json]) -> Json:
        item: Json = {"type": self.kind.type, "id": self._id, "status": status, "content": content}
        return item | ({"role": "assistant"} if self.kind is MESSAGE else {"summary": []})

    def _show_part(self) -> Json:
        part: Json = {"type": self.kind.part, "text": "".join(self._texts)}
        if self.kind is MESSAGE:
            part |= {"annotations": [], "logprobs": [*self._logprobs]}
        return part


class CallItem:
    """A call. Events have no numbers yet.

    Args:
        call_id: the id that its result names.
        name: the tool.
        index: its place in the output.
    """

    def __init__(self, call_id: str, name: str, index: int):
        self.index = index
        self._head = {"type": "function_call", "id": make_id("fc_"), "call_id": call_id}
        self._name = name
        self._texts: list[str] = []

    def open(self) -> Iterator[Json]:
        """The call, without arguments."""
        item = self._show("in_progress")
        yield {"type": "response.output_item.added", "output_index": self.index, "item": item}

    def add(self, text: str) -> Iterator[Json]:
        """More of the JSON text of the arguments."""
        self._texts.append(text)
        yield self._tell("response.function_call_arguments.delta", delta=text)

    def close(self, status: str) -> Iterator[Json]:
        """The call is complete, or incomplete."""
        said = {"name": self._name, "arguments": "".join(self._texts)}
        yield self._tell("response.function_call_arguments.done", **said)
        item = self._show(status)
        yield {"type": "response.output_item.done", "output_index": self.index, "item": item}

    def _tell(self, type: str, **fields: Any) -> Json:
        return {"type": type, "item_id": self._head["id"], "output_index": self.index, **fields}

    def _show(self, status: str) -> Json:
        said = {"name": self._name, "arguments": "".join(self._texts), "status": status}
        return {**self._head, **said}
