"""Responses: the items of the output, as events of a stream. The events have no numbers yet."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grammars.schema.json_values import JsonObject
from server.dialects.common.sealed_reasoning import seal
from server.dialects.responses.client_tools import CALL, CLIENT_TOOLS
from server.http.ids import make_id
from server.turns.offered_tools import ToolForm

ITEM_DONE = "response.output_item.done"


@dataclass(frozen=True)
class TextItemKind:
    """A kind of item with a text; `part` is the type of its one part."""

    type: str
    prefix: str
    part: str
    fields: JsonObject = field(default_factory=dict[str, Any])


MESSAGE = TextItemKind("message", "msg_", "output_text", {"role": "assistant"})
REASONING = TextItemKind("reasoning", "rs_", "reasoning_text", {"summary": []})


class OutputItem:
    """Writes the events of an item at this index of the output; `head` has the fields that it has
    from the beginning, with `type` and `id`."""

    def __init__(self, head: JsonObject, index: int):
        self.index = index
        self._head = head
        self._texts: list[str] = []

    def open(self) -> Iterator[JsonObject]:
        return iter(())

    def add(self, text: str) -> Iterator[JsonObject]:
        """Adds to its text: of a call, the JSON text of the arguments."""
        self._texts.append(text)
        return iter(())

    def close(self, status: str) -> Iterator[JsonObject]:
        raise NotImplementedError

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _make_event(self, name: str, /, **fields: Any) -> JsonObject:
        place = {"item_id": self._head["id"], "output_index": self.index}
        return {"type": f"response.{name}", **place, **fields}

    def _show(self, step: str, /, **fields: Any) -> JsonObject:
        item = {**self._head, **fields}
        return {"type": f"response.output_item.{step}", "output_index": self.index, "item": item}


class TextItem(OutputItem):
    """A message, or reasoning, which is also sent sealed if it `seals`."""

    def __init__(self, kind: TextItemKind, index: int, *, seals: bool = False):
        super().__init__({"type": kind.type, "id": make_id(kind.prefix), **kind.fields}, index)
        self.kind = kind
        self._seals = seals and kind is REASONING
        self._logprobs: list[JsonObject] = []

    def open(self) -> Iterator[JsonObject]:
        yield self._show("added", status="in_progress", content=[])
        yield self._make_event("content_part.added", content_index=0, part=self._show_part())

    def add(self, text: str, logprobs: Sequence[JsonObject] = ()) -> Iterator[JsonObject]:
        self._texts.append(text)
        self._logprobs += logprobs
        yield self._describe_text("delta", logprobs, delta=text)

    def close(self, status: str) -> Iterator[JsonObject]:
        yield self._describe_text("done", self._logprobs, text=self._text)
        part = self._show_part()
        yield self._make_event("content_part.done", content_index=0, part=part)
        sealed = {"encrypted_content": seal(self._text)} if self._seals else {}
        yield self._show("done", status=status, content=[part], **sealed)

    def _describe_text(
        self, step: str, logprobs: Sequence[JsonObject], **fields: Any
    ) -> JsonObject:
        if self.kind is MESSAGE:
            fields["logprobs"] = list(logprobs)
        return self._make_event(f"{self.kind.part}.{step}", content_index=0, **fields)

    def _show_part(self) -> JsonObject:
        part: JsonObject = {"type": self.kind.part, "text": self._text}
        if self.kind is MESSAGE:
            part |= {"annotations": [], "logprobs": list(self._logprobs)}
        return part


class CallItem(OutputItem):
    """A call of a function, or of a custom tool, which takes a text. Its result refers to the id,
    which has no prefix yet."""

    def __init__(self, id: str, tool: ToolForm, index: int):
        kind, prefix = ("custom_tool_call", "ctc_") if tool.is_custom else ("function_call", "fc_")
        self._name: JsonObject = {"name": tool.name}
        if tool.namespace is not None:
            self._name["namespace"] = tool.namespace
        ids = {"id": make_id(prefix), "call_id": f"call_{id}"}
        super().__init__({"type": kind, **ids, **self._name}, index)
        self._field = "input" if tool.is_custom else "arguments"
        self._event = f"{kind}_{self._field}"

    def open(self) -> Iterator[JsonObject]:
        yield self._show("added", **{self._field: ""}, status="in_progress")

    def add(self, text: str) -> Iterator[JsonObject]:
        self._texts.append(text)
        yield self._make_event(f"{self._event}.delta", delta=text)

    def close(self, status: str) -> Iterator[JsonObject]:
        whole = {self._field: self._text}
        yield self._make_event(f"{self._event}.done", **self._name, **whole)
        yield self._show("done", **whole, status=status)


class ClientCallItem(OutputItem):
    """A call of a tool that OpenAI describes. It comes complete: before, it would not fit its
    type."""

    def __init__(self, id: str, name: str, index: int):
        self._tool = CLIENT_TOOLS[name]
        ids = {"id": make_id(self._tool.prefix), "call_id": id}
        super().__init__({"type": f"{name}{CALL}", **ids}, index)

    def close(self, status: str) -> Iterator[JsonObject]:
        """Writes the call; without all of its arguments, there is no item."""
        try:
            given = {self._tool.arguments_field: json.loads(self._text)}
        except ValueError:  # the turn has failed inside
            return
        ended = self._tool.unfinished if status == "incomplete" else status
        yield self._show("added", **given, status="in_progress")
        yield self._show("done", **given, status=ended)
