"""The reply: content, reasoning and calls of a finished turn, and how it ended."""

import hashlib
import json
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from constrained.decode.endless.values import EndedValue
from constrained.decode.filters.events import StreamEvent
from constrained.decode.request import Finish, Generation, RemoteNote, Usage
from constrained.errors import ReplyError
from constrained.limits.deadline import Timings
from constrained.mask.logprobs import TokenDrawn
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.trace.confidence import measure_call_probability, measure_confidence
from constrained.model.trace.turn_trace import TurnTrace, make_trace, write_confidence
from constrained.prompt.answers import CHECKED_ONLY, read_answer
from constrained.prompt.template.conversation_forms import ConversationForm
from constrained.prompt.tools.offer import Refusal
from grammars.parse.parser import collect
from grammars.schema.json_values import Json
from grammars.turn import CallOpened, CallRead, Event, JsonAnswer, Tool, ToolCall, Turn
from grammars.wire.envelopes import EnvelopeKind

FinishReason: TypeAlias = Literal["tool_calls", "stop", "length", "cancelled"]

MAX_SHOWN_LENGTH = 500  # characters of a call in an error
ID_LETTERS = string.ascii_letters + string.digits
ID_LENGTH = 9  # what Mistral's templates insist on, and all others take


@dataclass(frozen=True, repr=False)
class Reply:
    """The reply of a model: one assistant turn. With `prefill`, only the new text.

    Args:
        content: the text for the user.
        reasoning: the text of the reasoning; "" if there is none.
        calls: the complete tool calls. Each names an offered tool, and its arguments fit the
            schema; for tools with `strict=False`, check `call.valid`. `call.truncated` marks a call
            that had to be closed because the tokens ran out.
        finish_reason: "stop", "tool_calls", "length" (the tokens ran out) or "cancelled".
        usage: how many tokens it took.
        unfinished: the text of a call that was cut off when the tokens ran out, and could not be
            closed; "" otherwise.
        text: everything that the model wrote, in its wire format.
        parsed: the value of the JSON answer that `response_format` asks for, prefill included; None
            if the reply has calls.
        refused: the tools that were dropped because their schemas cannot be enforced.
        message_forms: in which messages are in the prompt, since the chat template loses, moves or
            refuses them as they are.
        stop_sequence: the stop text that ended the turn, or None. `text` includes it.
        logprobs: the sampled tokens and their probabilities, up to the stop text; empty without
            the option `logprobs`.
        barred_calls: calls that the model began, and that `excluded_calls` did not allow.
        unsure_calls: calls that a run has taken back because the model was not sure of them; see
            `unsure` of `Model.run`.
        envelopes: in which form the model began calls, if it was not its own: "fence", "tag",
            "list", "object" or "function".
        ended_values: values that repeated themselves and were ended, and content that did and
            therefore ended the turn.
        remote: the engine that sampled the tokens and what it cannot do; None: the local one.
        resumed: numbers of tokens after which another process continued the turn, because the one
            before had ended.
        call_probability: how likely the model found a call, from 0 to 1, at the place of the first
            one; without calls, where the output begins. Among what the mask allowed, with the
            option `trace`; otherwise None, or if the turn can have none. Ignored by `==`.
        timings: how long the turn took. Ignored by `==`.
        trace: what decided each token; None without the option `trace`. Ignored by `==`.
    """

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    unfinished: str
    text: str
    parsed: Json = None
    refused: tuple[Refusal, ...] = ()
    message_forms: tuple[ConversationForm, ...] = ()
    stop_sequence: str | None = None
    logprobs: tuple[TokenDrawn, ...] = ()
    barred_calls: tuple[ToolCall, ...] = ()
    unsure_calls: tuple[ToolCall, ...] = ()
    envelopes: tuple[EnvelopeKind, ...] = ()
    ended_values: tuple[EndedValue, ...] = ()
    remote: RemoteNote | None = None
    resumed: tuple[int, ...] = ()
    call_probability: float | None = field(default=None, compare=False)
    timings: Timings = field(default=Timings(), compare=False)
    trace: TurnTrace | None = field(default=None, compare=False)

    @property
    def has_begun_calls(self) -> bool:
        """Whether the model has begun a call, also one that was cut off, barred or taken back."""
        return bool(self.calls or self.unfinished or self.barred_calls or self.unsure_calls)

    def __repr__(self) -> str:
        parts: list[str] = []
        for name in ("content", "reasoning", "calls", "unfinished", "parsed", "refused"):
            part = getattr(self, name)
            if part not in ("", (), None):
                parts.append(f"{name}={part!r}")
        parts.append(f"finish_reason={self.finish_reason!r}")
        return f"Reply({', '.join(parts)}, {self.usage.completion_tokens} tokens)"

    def _repr_markdown_(self) -> str:
        sections: list[str] = []
        if self.reasoning:
            sections.append(
                f"<details><summary>Reasoning</summary>\n\n{self.reasoning}\n</details>"
            )
        if self.content:
            sections.append(self.content)
        for call in self.calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False, indent=2)
            sections.append(f"**{call.name}**\n```json\n{arguments}\n```")
        counts = f"{self.usage.prompt_tokens} + {self.usage.completion_tokens} tokens"
        sections.append(f"*{self.finish_reason}, {counts}*")
        return "\n\n".join(sections)

    def to_json(self) -> dict[str, Json]:
        """Returns the reply as JSON, without empty fields."""
        parts: dict[str, Any] = {
            "reasoning_content": self.reasoning,
            "content": self.content,
            "tool_calls": [_show(call) for call in self.calls],
            "unfinished": self.unfinished,
            "refused_tools": [refusal.to_json() for refusal in self.refused],
            "message_forms": list(self.message_forms),
            "stop_sequence": self.stop_sequence,
            "logprobs": [one.to_json() for one in self.logprobs],
            "envelopes": list(self.envelopes),
            "ended_values": [value.to_json() for value in self.ended_values],
            "remote": None if self.remote is None else self.remote.to_json(),
            "resumed": list(self.resumed),
            "unsure_calls": [_show(call) for call in self.unsure_calls],
        }
        if self.call_probability is not None:
            parts["call_probability"] = self.call_probability
        kept = {key: part for key, part in parts.items() if part or key == "call_probability"}
        return kept | {"finish_reason": self.finish_reason, "usage": vars(self.usage)}

    def message(self) -> dict[str, Json]:
        """Returns the turn as a message in OpenAI's form, with arguments as objects."""
        message: dict[str, Json] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [_write_call(call) for call in self.calls]
        return message


def _write_call(call: ToolCall) -> dict[str, Json]:
    function: dict[str, Json] = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _show(call: ToolCall) -> dict[str, Json]:
    shown: dict[str, Json] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if not call.valid:
        shown |= {"valid": False, "errors": [vars(e) for e in call.errors]}
    if call.truncated:
        shown["truncated"] = True
    if call.confidence is not None:
        shown["confidence"] = write_confidence(call.confidence)
    return shown


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + " ..."


def make_reply(generation: Generation, turn: CompiledTurn) -> Reply:
    """Makes the reply; ReplyError: a value does not fit what the mask cannot enforce."""
    read = collect(generation.events)
    calls = _mark(read.calls, generation, turn)
    for call in calls:
        _check(call, turn.tools)
    finish = generation.finish
    reply = Reply(
        content=read.content,
        reasoning=read.reasoning,
        calls=calls,
        finish_reason="tool_calls" if calls and finish is Finish.STOP else finish.value,
        usage=generation.usage,
        unfinished=read.unfinished,
        text=turn.prefill.strip(generation.text),
        parsed=_parse(read, generation, turn),
        refused=turn.refused,
        message_forms=turn.prompt.forms,
        stop_sequence=generation.stopped,
        logprobs=generation.logprobs,
        barred_calls=generation.barred_calls,
        envelopes=generation.envelopes,
        ended_values=generation.ended_values,
        remote=generation.remote,
        resumed=generation.resumed,
        timings=generation.timings,
    )
    return add_trace(reply, make_trace(generation, turn)) if generation.trace else reply


def add_trace(reply: Reply, trace: TurnTrace) -> Reply:
    measured = measure_confidence(trace.tokens, trace.places)
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.calls):
        confidence = measured[index] if index < len(measured) else None
        calls.append(replace(call, confidence=confidence))
    probability = measure_call_probability(trace.tokens, trace.places)
    return replace(reply, calls=tuple(calls), trace=trace, call_probability=probability)


def _mark(
    calls: Sequence[ToolCall], generation: Generation, turn: CompiledTurn
) -> tuple[ToolCall, ...]:
    """Adds ids to calls, and marks those that were closed because the tokens ran out. Calls without
    a whole name are left out, unless the turn requires one and has no other."""
    ended_at = generation.ended_at
    if ended_at is None:
        ended_at = len(generation.events)
    whole = _count(generation.events[:ended_at], CallRead)
    invented = _count(generation.events[ended_at:], CallOpened)
    fewest = int(turn.policy.requires_output)
    kept_calls = calls[: max(fewest, len(calls) - invented)]
    ids = TurnCallIds(turn)
    marked: list[ToolCall] = []
    for number, call in enumerate(kept_calls):
        id = ids.choose(number, call.id)
        marked.append(replace(call, id=id, truncated=number >= whole))
    return tuple(marked)


def _count(events: Sequence[Event], kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in events)


class TurnCallIds:
    """Chooses ids of calls, unique in the conversation; `choice`: which reply of several."""

    def __init__(self, turn: CompiledTurn, choice: int | None = None):
        self._prompt = turn.tokens if choice is None else (*turn.tokens, choice)
        self._taken = set(turn.plan.call_ids)

    def choose(self, number: int, written: str | None = None) -> str:
        """Chooses the id of a call: the one that the model has written, if it is free."""
        id = written
        tries = 0
        while not id or id in self._taken:
            id = derive_id(self._prompt, number, tries)
            tries += 1
        self._taken.add(id)
        return id

    def name_calls(
        self, sink: Callable[[Sequence[StreamEvent]], None]
    ) -> Callable[[Sequence[StreamEvent]], None]:
        def send(events: Sequence[StreamEvent]) -> None:
            named: list[StreamEvent] = []
            for event in events:
                if isinstance(event, CallRead):
                    id = self.choose(event.index, event.call.id)
                    event = replace(event, call=replace(event.call, id=id))
                named.append(event)
            sink(named)

        return send


def has_own_ids(generation: Generation, reply: Reply) -> bool:
    """Returns whether each id that the model wrote was still free."""
    written = [event.call.id for event in generation.events if isinstance(event, CallRead)]
    return all(id in (None, call.id) for id, call in zip(written, reply.calls, strict=False))


def derive_id(prompt: Sequence[int], number: int, again: int = 0) -> str:
    """Derives 9 letters and digits from the prompt, so that the same request gets the same ids, and
    two turns of a conversation different ones. `again`: tries before."""
    digest = hashlib.sha256(f"{list(prompt)} {number} {again}".encode()).digest()
    value, letters = int.from_bytes(digest), list[str]()
    for _ in range(ID_LENGTH):
        value, letter = divmod(value, len(ID_LETTERS))
        letters.append(ID_LETTERS[letter])
    return "".join(letters)


def _check(call: ToolCall, tools: Sequence[Tool]) -> None:
    if call.valid or any(tool.name == call.name and not tool.strict for tool in tools):
        return
    unfit = call.errors[0]
    raise ReplyError(
        f"the call {call.name}({_shorten(call.arguments)}) does not fit: {_shorten(unfit.message)}",
        where=unfit.pointer,
        hint=CHECKED_ONLY,
    )


def _parse(read: Turn, generation: Generation, turn: CompiledTurn) -> Json:
    """Returns the value of a JSON answer; None if there is none, or it was cut."""
    ends = generation.finish is Finish.STOP or generation.ended_at is not None
    is_whole = ends and generation.stopped is None
    if not isinstance(turn.policy.answer, JsonAnswer) or read.calls or not is_whole:
        return None
    return read_answer(turn.policy.answer, turn.prefill.message.content + read.content)
