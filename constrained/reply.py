"""What a finished turn says, typed: content, reasoning, calls, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import ReplyError
from constrained.generation import Finish, Generation
from grammars.parse import collect
from grammars.schema import Json
from grammars.turn import ToolCall

LONGEST_SHOWN = 500  # characters of a call in an error


@dataclass(frozen=True)
class Usage:
    """Tokens in and out, and how many times the model ran for it."""

    prompt_tokens: int
    completion_tokens: int
    forward_passes: int


@dataclass(frozen=True)
class Reply:
    """An assistant turn.

    Args:
        calls: complete calls only; each names an offered tool and fits its schema.
        finish_reason: "tool_calls", "stop", or "length" where the tokens ran out.
        unfinished: the text of a call that was cut when the tokens ran out; "" otherwise.
        text: all that the model wrote, as it wrote it.
    """

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    unfinished: str
    text: str

    def to_json(self) -> dict[str, Json]:
        """The reply as JSON, empty parts left out."""
        calls = [{"name": call.name, "arguments": call.arguments} for call in self.calls]
        parts: dict[str, Any] = {
            "reasoning_content": self.reasoning,
            "content": self.content,
            "tool_calls": calls,
            "unfinished": self.unfinished,
        }
        kept = {key: part for key, part in parts.items() if part}
        return kept | {"finish_reason": self.finish_reason, "usage": vars(self.usage)}


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " ..."


def make_reply(generation: Generation, prompt: Sequence[int]) -> Reply:
    """The reply of a generation.

    Raises:
        ReplyError: a call does not fit a keyword that the mask could not hold; the message shows
            the call, the pointer and the reason.
    """
    turn = collect(generation.events)
    for call in turn.calls:
        if not call.valid:
            unfit = call.errors[0]
            raise ReplyError(
                f"the call {call.name}({_shorten(call.arguments)}) does not fit: "
                f"{_shorten(unfit.message)}",
                where=unfit.pointer,
                hint="The schema has a keyword that is only checked: see the tool's report",
            )
    finish = "tool_calls" if turn.calls else "stop"
    if generation.finish is Finish.LENGTH:
        finish = "length"
    usage = Usage(len(prompt), len(generation.tokens), generation.forward_passes)
    return Reply(
        turn.content, turn.reasoning, turn.calls, finish, usage, turn.unfinished, generation.text
    )
