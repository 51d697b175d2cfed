"""Chat Completions: the reply, as the chunks of a stream."""

import copy
import time
from collections.abc import Iterator, Sequence

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.mask.logprobs import MIN_LOGPROB, TokenDrawn
from constrained.model.reply import Reply, Usage
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta, ReasoningDelta
from server.dialects.common.replies import ReplyWriter
from server.http.ids import make_id
from server.http.sse import DONE
from server.settings import ReasoningField
from server.turns.active_request import TurnEvent
from server.turns.call_stream import (
    CallArguments,
    CallEvent,
    CallInput,
    CallStarted,
    CallStream,
)
from server.turns.compiled_request import CompiledRequest
from server.turns.unshown_tokens import UnshownTokens


class ChatWriter(ReplyWriter):
    """Writes the chunks of one reply, each of them with a part of a choice. `field` is the place of
    the reasoning. If it `shows_usage`, the last chunk has it; a whole reply always does."""

    end = DONE

    def __init__(
        self, compiled: CompiledRequest, field: ReasoningField, *, shows_usage: bool = True
    ):
        self._compiled = compiled
        self._shows_usage = shows_usage
        self._head: JsonObject = {
            "id": make_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": compiled.service.name,
            "system_fingerprint": f"constrained-{compiled.turn.format.name}",
        }
        self._replies: dict[int, Reply] = {}
        count = compiled.request.generation.choices
        self._choices = [_ChoiceWriter(compiled, field, number) for number in range(count)]

    def open(self) -> Iterator[JsonObject]:
        for number in range(len(self._choices)):
            yield self._chunk(number, {"role": "assistant", "content": ""})

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        choice = self._choices[number]
        if not isinstance(event, Reply):
            for delta in choice.take(event):
                yield self._chunk(number, delta, choice.show_logprobs(event))
            return
        for delta in choice.close():
            yield self._chunk(number, delta)
        last = self._chunk(number, {}, choice.show_logprobs(event), finish=event.finish_reason)
        if event.trace is not None:
            last["trace"] = event.trace.to_json()
        yield self._end_choice(number, event, last)

    def close(self) -> Iterator[JsonObject]:
        """Writes the chunk with the usage, if the request asks for it: other clients do not expect
        a chunk without a choice."""
        if self._shows_usage:
            yield {
                **self._head,
                "choices": [],
                **self._compiled.annotate(self._replies),
                "usage": count_usage([reply.usage for reply in self._replies.values()]),
                "timings": show_timings(self._replies[0]),
            }

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject:
        return fold(chunks)

    def _chunk(
        self,
        number: int,
        delta: JsonObject,
        logprobs: list[JsonObject] | None = None,
        finish: str = "",
    ) -> JsonObject:
        choice: JsonObject = {"index": number, "delta": delta, "finish_reason": finish or None}
        if logprobs:
            choice["logprobs"] = {"content": logprobs}
        return {**self._head, "choices": [choice]}

    def _end_choice(self, number: int, reply: Reply, last: JsonObject) -> JsonObject:
        """The very last chunk has the notes on the reply, if no chunk with the usage follows."""
        self._replies[number] = reply
        if len(self._replies) == len(self._choices) and not self._shows_usage:
            return last | self._compiled.annotate(self._replies)
        return last


class _ChoiceWriter:
    def __init__(self, compiled: CompiledRequest, field: ReasoningField, number: int):
        self._fields = field.names
        tools = compiled.request.tools
        self._calls = CallStream(compiled.turn, compiled.service.call_ids, number, tools)
        self._opener, self._closer = "<think>", "</think>"
        if block := compiled.turn.format.reasoning:
            self._opener, self._closer = block.head, block.foot
        self._is_inside = False  # of the tags around reasoning in the content
        self._unshown = UnshownTokens()
        self._vocabulary = compiled.service.model.engine.vocabulary

    def take(self, event: TurnEvent) -> Iterator[JsonObject]:
        match event:
            case TokenDrawn():
                self._unshown.add(event)
            case ReasoningDelta(text):
                yield self._reason(text)
            case ContentDelta(text):
                yield {"content": self._leave() + text}
            case _:
                for call_event in self._calls.take(event):
                    yield from self._show_call(call_event)

    def close(self) -> Iterator[JsonObject]:
        if closer := self._leave():
            yield {"content": closer}

    def show_logprobs(self, event: TurnEvent) -> list[JsonObject]:
        """Returns the log probabilities of the tokens of an event. With content come those that
        spell it, and not the end of the reasoning: clients put the content together from them."""
        if self._fields and isinstance(event, ContentDelta):
            tokens = self._unshown.take(event.text)
        else:
            tokens = self._unshown.take_all()
        return [show_token(token, self._vocabulary) for token in tokens]

    def _reason(self, text: str) -> JsonObject:
        if self._fields:
            return dict.fromkeys(self._fields, text)
        if not self._is_inside:
            self._is_inside = True
            text = self._opener + text
        return {"content": text}

    def _leave(self) -> str:
        if not self._is_inside:
            return ""
        self._is_inside = False
        return self._closer

    def _show_call(self, event: CallEvent) -> Iterator[JsonObject]:
        yield from self.close()
        match event:
            case CallStarted(index, id, tool):
                call: JsonObject = {"index": index, "id": f"call_{id}"}
                if tool.is_custom:
                    call |= {"type": "custom", "custom": {"name": tool.name, "input": ""}}
                else:
                    call |= {"type": "function", "function": {"name": tool.name, "arguments": ""}}
                yield {"tool_calls": [call]}
            case CallArguments(index, text):
                yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
            case CallInput(index, text):
                yield {"tool_calls": [{"index": index, "custom": {"input": text}}]}
            case _:
                pass


def fold(chunks: Sequence[JsonObject]) -> JsonObject:
    body: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    for chunk in chunks:
        body |= chunk
        for part in chunk["choices"]:
            number = part["index"]
            if number not in choices:
                empty = {"message": {}, "logprobs": None, "finish_reason": None}
                choices[number] = {"index": number, **empty}
            added = dict(part)
            add_delta(choices[number]["message"], added.pop("delta"))
            add_delta(choices[number], added)
    for choice in choices.values():
        message = choice["message"]
        if "tool_calls" in message and not message.get("content"):
            message["content"] = None
        for call in message.get("tool_calls", ()):
            del call["index"]  # only streams have this field
    ordered = [choices[number] for number in sorted(choices)]
    return {**body, "choices": ordered, "object": "chat.completion"}


def add_delta(whole: JsonObject, delta: JsonObject) -> None:
    """Adds a delta as OpenAI's SDKs do: texts and lists are appended, objects are merged, and so
    are calls with the same `index`; other values are replaced."""
    for key, value in delta.items():
        before = whole.get(key)
        match before, value:
            case str(), str():
                whole[key] = before + value
            case dict(), dict():
                add_delta(before, value)
            case list(), list() if key == "tool_calls":
                for call in value:
                    _add_call(before, call)
            case list(), list():
                before += value
            case _, None:
                whole.setdefault(key, None)
            case _:
                whole[key] = copy.deepcopy(value)


def _add_call(calls: list[JsonObject], delta: JsonObject) -> None:
    for call in calls:
        if call["index"] == delta["index"]:
            add_delta(call, delta)
            return
    calls.append(copy.deepcopy(delta))


def count_usage(usages: Sequence[Usage]) -> JsonObject:
    """Adds up the tokens of all choices; their prompt counts once."""
    prompt = max((usage.prompt_tokens for usage in usages), default=0)
    cached = min((usage.cached_tokens for usage in usages), default=0)
    completion = sum(usage.completion_tokens for usage in usages)
    drafted = sum(usage.drafted_tokens for usage in usages)
    accepted = sum(usage.accepted_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in usages),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }


def show_timings(reply: Reply) -> JsonObject:
    """Returns llama-server's `timings` of a whole reply, in milliseconds."""
    usage, timings = reply.usage, reply.timings
    computed = usage.prompt_tokens - usage.cached_tokens
    completion = usage.completion_tokens
    prompt_ms = timings.prompt_seconds * 1e3
    predicted_ms = timings.generation_seconds * 1e3
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, computed),
        "prompt_per_second": computed / max(1e-9, timings.prompt_seconds),
        "predicted_n": completion,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / max(1, completion),
        "predicted_per_second": completion / max(1e-9, timings.generation_seconds),
    }


def show_token(event: TokenDrawn, vocabulary: Vocabulary) -> JsonObject:
    top = [_show_logprob(vocabulary.tokens[token], logprob) for token, logprob in event.top]
    return {**_show_logprob(event.text, event.logprob), "top_logprobs": top}


def _show_logprob(text: bytes, logprob: float) -> JsonObject:
    return {
        "token": text.decode("utf-8", "replace"),
        "bytes": list(text),
        "logprob": max(logprob, MIN_LOGPROB),  # JSON has no infinity
    }
