"""Mistral's fill-in-the-middle: the reply, which is one of Chat Completions."""

from collections.abc import Iterator
from typing import Any

from constrained.reply import Reply
from server.dialects.chat.reply import ChatWriter, count_usage
from server.settings import ReasoningField
from server.turns.active_request import TurnEvent
from server.turns.compiled_request import CompiledRequest
from server.turns.progress import show_reply_timings

Json = dict[str, Any]


class FillInWriter(ChatWriter):
    """Writes the chunks of one reply. The last one has the usage together with its choice: clients
    of Mistral do not expect a chunk without one.

    Args:
        compiled: the request that is answered.
    """

    def __init__(self, compiled: CompiledRequest):
        super().__init__(compiled, ReasoningField.REASONING_CONTENT, shows_usage=False)
        self._missing = compiled.request.generation.choices
        self._ended = list[Reply]()

    def take(self, number: int, event: TurnEvent) -> Iterator[Json]:
        for chunk in super().take(number, event):
            if isinstance(event, Reply):
                self._ended.append(event)
                if len(self._ended) == self._missing:
                    chunk["usage"] = count_usage([reply.usage for reply in self._ended])
                    chunk["timings"] = show_reply_timings(self._ended[0])
            yield chunk
