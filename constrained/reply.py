"""What a finished turn says, typed: content, reasoning, calls, and how it ended."""

import hashlib
import itertools
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from constrained.answers import read_answer
from constrained.deadline import Timings
from constrained.decode.request import Finish, Generation
from constrained.errors import ReplyError
from constrained.job import CompiledTurn
from constrained.logits import TokenDrawn
from constrained.tools.offer import Refusal
from grammars.parse.parser import collect
from grammars.schema.nodes import Json
from grammars.turn import CallOpened, CallRead, Choice, JsonAnswer, Tool, ToolCall, Turn

LONGEST_SHOWN = 500  # characters of a call in an error
ID_LETTERS = string.ascii_letters + string.digits
ID_LENGTH = 9  # what Mistral's templates insist on, and all others take


@dataclass(frozen=True)
class Usage:
    """Tokens in and out, and how many times the model ran for it.

    `cached_tokens` of the prompt were known from an earlier request, and not computed.
    `completion_tokens` are all that were generated; `discarded_tokens` of them were for a value
    that did not fit, and was written again. `drafted_tokens` were copied from the text in front of
    them, for the model to look at together; `accepted_tokens` of them are part of the reply.
    """

    prompt_tokens: int
    completion_tokens: int
    forward_passes: int
    reasoning_tokens: int = 0
    discarded_tokens: int = 0
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """An assistant turn; of one that went on with a text, what is new.

    Args:
        calls: complete calls only; each names an offered tool and fits its schema, or is marked
            as not valid where the tool is not strict. A truncated one was closed when the tokens
            ran out.
        finish_reason: "tool_calls", "stop", "length" where the tokens ran out, or "cancelled".
        unfinished: the text of a call that was cut when the tokens ran out; "" otherwise.
        text: all that the model wrote, as it wrote it.
        parsed: the value of a JSON answer, if one was asked for, with the text that the turn went
            on with; None beside calls.
        refused: the tools that were not offered, because their schemas cannot be enforced.
        stop_sequence: the stop text that has ended the turn, if one has; `text` has it, too.
        logprobs: how likely each token of the turn was, if that was asked for; up to the stop text.
        timings: how long it took; does not count where replies are compared.
    """

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    unfinished: str
    text: str
    parsed: Json = None
    refused: tuple[Refusal, ...] = ()
    stop_sequence: str | None = None
    logprobs: tuple[TokenDrawn, ...] = ()
    timings: Timings = field(default=Timings(), compare=False)

    def to_json(self) -> dict[str, Json]:
        """The reply as JSON, empty parts left out."""
        parts: dict[str, Any] = {
            "reasoning_content": self.reasoning,
            "content": self.content,
            "tool_calls": [_show(call) for call in self.calls],
            "unfinished": self.unfinished,
            "refused_tools": [refusal.to_json() for refusal in self.refused],
            "stop_sequence": self.stop_sequence,
            "logprobs": [one.to_json() for one in self.logprobs],
        }
        kept = {key: part for key, part in parts.items() if part}
        return kept | {"finish_reason": self.finish_reason, "usage": vars(self.usage)}

    def message(self) -> dict[str, Json]:
        """The turn as a message of the conversation, in OpenAI form, arguments as objects."""
        message: dict[str, Json] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls
            ]
        return message


def _show(call: ToolCall) -> dict[str, Json]:
    shown: dict[str, Json] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if not call.valid:
        shown |= {"valid": False, "errors": [vars(e) for e in call.errors]}
    return shown | ({"truncated": True} if call.truncated else {})


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " ..."


def make_reply(generation: Generation, turn: CompiledTurn) -> Reply:
    """The reply of a generation.

    Raises:
        ReplyError: a call or an answer does not fit a keyword that the mask could not hold; the
            message shows the call, the pointer and the reason.
    """
    read = collect(generation.events)
    calls = _mark(read.calls, generation, turn)
    for call in calls:
        _check(call, turn.tools)
    finish = "tool_calls" if calls else "stop"
    if generation.finish is not Finish.STOP:
        finish = generation.finish.value
    usage = Usage(
        len(turn.tokens),
        len(generation.tokens) + generation.discarded,
        generation.forward_passes,
        generation.reasoning_tokens,
        generation.discarded,
        generation.cached,
        generation.drafted,
        generation.accepted,
    )
    return Reply(
        content=read.content,
        reasoning=read.reasoning,
        calls=calls,
        finish_reason=finish,
        usage=usage,
        unfinished=read.unfinished,
        text=turn.prefix.strip(generation.text),
        parsed=_parse(read, generation, turn),
        refused=turn.refused,
        stop_sequence=generation.stopped,
        logprobs=generation.logprobs,
        timings=generation.timings,
    )


def _mark(
    calls: Sequence[ToolCall], generation: Generation, turn: CompiledTurn
) -> tuple[ToolCall, ...]:
    """The calls with ids, and with a mark on those that were closed for want of tokens.

    A call that the model had not even named is none of its own, and is left out, unless a call or
    an answer has to be there and there is no other.
    """
    at = len(generation.events) if generation.ended_at is None else generation.ended_at
    kept, ending = generation.events[:at], generation.events[at:]
    whole = sum(isinstance(event, CallRead) for event in kept)
    invented = sum(isinstance(event, CallOpened) for event in ending)
    needed = turn.policy.choice is Choice.REQUIRED or turn.policy.answer is not None
    fewest = 1 if needed else 0
    kept_calls = calls[: max(fewest, len(calls) - invented)]
    ids = _identify([call.id for call in kept_calls], turn)
    return tuple(
        replace(call, id=id, truncated=number >= whole)
        for number, (call, id) in enumerate(zip(kept_calls, ids, strict=True))
    )


def _identify(written: Sequence[str | None], turn: CompiledTurn) -> list[str]:
    """The ids of a turn's calls: what the model wrote, unless a call of the conversation has it."""
    ids: list[str] = []
    for number, id in enumerate(written):
        taken = turn.call_ids.union(ids)
        tries = (derive_id(turn.tokens, number, again) for again in itertools.count())
        ids.append(id if id and id not in taken else next(t for t in tries if t not in taken))
    return ids


def derive_id(prompt: Sequence[int], number: int, again: int = 0) -> str:
    """The id of call `number` of a turn: 9 letters and digits that depend on the prompt alone, so
    that a seed replays, and two turns of a conversation differ; `again` counts the tries."""
    digest = hashlib.sha256(f"{list(prompt)} {number} {again}".encode()).digest()
    value, letters = int.from_bytes(digest), list[str]()
    for _ in range(ID_LENGTH):
        value, letter = divmod(value, len(ID_LETTERS))
        letters.append(ID_LETTERS[letter])
    return "".join(letters)


def _check(call: ToolCall, tools: Sequence[Tool]) -> None:
    strict = next((t.strict for t in tools if t.name == call.name), True)
    if call.valid or not strict:
        return
    unfit = call.errors[0]
    raise ReplyError(
        f"the call {call.name}({_shorten(call.arguments)}) does not fit: {_shorten(unfit.message)}",
        where=unfit.pointer,
        hint="The schema has a keyword that is only checked: see the tool's report",
    )


def _parse(read: Turn, generation: Generation, turn: CompiledTurn) -> Json:
    """The value of the answer; None where there is none, or it was cut."""
    ends = generation.finish is Finish.STOP or generation.ended_at is not None
    is_whole = ends and generation.stopped is None
    if not isinstance(turn.policy.answer, JsonAnswer) or read.calls or not is_whole:
        return None
    return read_answer(turn.policy.answer, turn.prefix.content + read.content)
