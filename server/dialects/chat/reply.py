"""Chat Completions: the reply, as the chunks of a stream; one that is whole is made of them."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from constrained.logits import LEAST, TokenDrawn
from constrained.reply import Reply, Usage
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import ContentDelta, ReasoningDelta
from server.ids import make_id
from server.settings import ReasoningField
from server.turns.active_request import Begun, Told
from server.turns.call_stream import Arguments, Calls, Opened, Part

Json = dict[str, Any]


class ChatWriter:
    """Writes the chunks of one reply.

    Args:
        begun: the request under way.
        field: where reasoning goes.
        shows_usage: the last chunk has the usage; a whole reply always has it.
    """

    def __init__(self, begun: Begun, field: ReasoningField, *, shows_usage: bool = True):
        self._begun = begun
        self._shows_usage = shows_usage
        self._head: Json = {
            "id": make_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": begun.service.name,
            "system_fingerprint": f"constrained-{begun.turn.format.name}",
        }
        count = range(len(begun.streams))
        self._choices = [_ChoiceWriter(begun, field, number) for number in count]
        self._replies: list[Reply] = []

    def open(self) -> Iterator[Json]:
        """The first chunk of each choice."""
        for number in range(len(self._choices)):
            yield self._chunk(number, {"role": "assistant", "content": ""})

    def take(self, number: int, told: Told) -> Iterator[Json]:
        """The chunks that an event of a choice comes to."""
        choice = self._choices[number]
        if isinstance(told, Reply):
            for delta in choice.close():
                yield self._chunk(number, delta)
            self._replies.append(told)
            last = self._chunk(number, {}, choice.drain_logprobs(), told.finish_reason)
            is_over = len(self._replies) == len(self._choices) and not self._shows_usage
            yield {**last, **self._begun.notes()} if is_over else last
            return
        for delta in choice.take(told):
            yield self._chunk(number, delta, choice.drain_logprobs())

    def close(self) -> Iterator[Json]:
        """The last chunk, if it was asked for: what the reply took. Clients that have not asked do
        not expect a chunk without a choice."""
        if self._shows_usage:
            last: Json = {**self._head, "choices": [], **self._begun.notes()}
            last["usage"] = count_usage([reply.usage for reply in self._replies])
            last["timings"] = _show_timings(self._replies)
            yield last

    def _chunk(
        self, number: int, delta: Json, logprobs: list[Json] | None = None, finish: str = ""
    ) -> Json:
        choice: Json = {"index": number, "delta": delta}
        if logprobs:
            choice["logprobs"] = {"content": logprobs}
        if finish:
            choice["finish_reason"] = finish
        return {**self._head, "choices": [choice]}


class _ChoiceWriter:
    """The deltas of one choice."""

    def __init__(self, begun: Begun, field: ReasoningField, number: int):
        self._field = field
        self._calls = Calls(begun.turn, begun.service.call_ids, number)
        self._tags = _find_tags(begun)
        self._is_inside = False  # of the tags that stand in the content
        self._logprobs: list[Json] = []
        self._vocabulary = begun.service.model.engine.vocabulary

    def take(self, told: Told) -> Iterator[Json]:
        match told:
            case TokenDrawn():
                self._logprobs.append(show_token(told, self._vocabulary))
            case ReasoningDelta(text):
                yield self._reason(text)
            case ContentDelta(text):
                yield {"content": self._leave() + text}
            case _:
                for part in self._calls.take(told):
                    yield from self._show(part)

    def close(self) -> Iterator[Json]:
        """What is left to say."""
        if rest := self._leave():
            yield {"content": rest}

    def drain_logprobs(self) -> list[Json]:
        """Those of the tokens that were not told of yet."""
        logprobs, self._logprobs = self._logprobs, []
        return logprobs

    def _reason(self, text: str) -> Json:
        if self._field.names:
            return dict.fromkeys(self._field.names, text)
        opener, self._is_inside = "" if self._is_inside else self._tags[0], True
        return {"content": opener + text}

    def _leave(self) -> str:
        """Closes the tags, if they are open."""
        closer = self._tags[1] if self._is_inside else ""
        self._is_inside = False
        return closer

    def _show(self, part: Part) -> Iterator[Json]:
        if rest := self._leave():
            yield {"content": rest}
        match part:
            case Opened(index, id, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": f"call_{id}", "type": "function"}
                yield {"tool_calls": [{**call, "function": function}]}
            case Arguments(index, text):
                yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
            case _:
                pass


def _find_tags(begun: Begun) -> tuple[str, str]:
    block = begun.turn.format.reasoning
    return (block.opener.text, block.closer.text) if block else ("<think>", "</think>")


def fold(chunks: Iterable[Json]) -> Json:
    """The whole reply that chunks add up to."""
    body: Json = {}
    choices: dict[int, Json] = {}
    for chunk in chunks:
        rest = {key: value for key, value in chunk.items() if key != "choices"}
        body |= rest
        for part in chunk["choices"]:
            empty: Json = {"message": {}, "logprobs": None, "finish_reason": "stop"}
            choice = choices.setdefault(part["index"], {"index": part["index"], **empty})
            _add_delta(choice["message"], part["delta"])
            if "logprobs" in part:
                choice["logprobs"] = choice["logprobs"] or {"content": []}
                choice["logprobs"]["content"] += part["logprobs"]["content"]
            choice["finish_reason"] = part.get("finish_reason", choice["finish_reason"])
    body["object"] = "chat.completion"
    return body | {"choices": [choices[number] for number in sorted(choices)]}


def _add_delta(message: Json, delta: Json) -> None:
    for key, value in delta.items():
        if key == "role":
            message[key] = value
        elif key == "tool_calls":
            _add_calls(message.setdefault("tool_calls", []), value)
        else:
            message[key] = message.get(key, "") + value


def _add_calls(calls: list[Json], deltas: list[Json]) -> None:
    for delta in deltas:
        if "id" in delta:
            call = {key: value for key, value in delta.items() if key != "index"}
            calls.append({**call, "function": dict(delta["function"])})
        else:
            calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]


def count_usage(usages: list[Usage]) -> Json:
    """The tokens of all choices; their prompt counts once."""
    prompt = max((usage.prompt_tokens for usage in usages), default=0)
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": min((usage.cached_tokens for usage in usages), default=0)
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in usages),
            "accepted_prediction_tokens": sum(usage.accepted_tokens for usage in usages),
            "rejected_prediction_tokens": sum(
                usage.drafted_tokens - usage.accepted_tokens for usage in usages
            ),
        },
    }


def _show_timings(replies: list[Reply]) -> Json:
    """As llama-server writes them, milliseconds; of several choices, those of the first."""
    if not replies:
        return {}
    usage, timings = replies[0].usage, replies[0].timings
    computed = usage.prompt_tokens - usage.cached_tokens
    prompt_ms, predicted_ms = timings.prompt_seconds * 1e3, timings.generation_seconds * 1e3
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, computed),
        "prompt_per_second": computed / max(1e-9, timings.prompt_seconds),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / max(1, usage.completion_tokens),
        "predicted_per_second": usage.completion_tokens / max(1e-9, timings.generation_seconds),
    }


def show_token(drawn: TokenDrawn, vocabulary: Vocabulary) -> Json:
    """A token with its log probability, and those that were likely in its place."""
    top = [_show_logprob(vocabulary.tokens[token], logprob) for token, logprob in drawn.top]
    return {**_show_logprob(drawn.text, drawn.logprob), "top_logprobs": top}


def _show_logprob(text: bytes, logprob: float) -> Json:
    return {
        "token": text.decode("utf-8", "replace"),
        "bytes": [*text],
        "logprob": max(logprob, LEAST),
    }
