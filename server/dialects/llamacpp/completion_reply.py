"""llama-server's completion and infill: the reply, as the chunks of a stream."""

from collections.abc import Iterator, Sequence
from typing import Any

from constrained.decode.filters.events import ProgressMade
from constrained.engine.sampling import Sampling
from constrained.errors import ContextError
from constrained.logits import TokenDrawn
from constrained.reply import Reply
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import ContentDelta
from server.dialects.chat.reply import show_token
from server.dialects.llamacpp.completion_request import NativeFields
from server.errors import HttpError, as_http_error, encode_openai_error
from server.http.replies import ReplyWriter
from server.turns.active_request import TurnEvent
from server.turns.compiled_request import CompiledRequest
from server.turns.progress import ChoiceProgress, show_reply_timings

Json = dict[str, Any]


def encode_native_error(error: HttpError) -> Json:
    """Returns the body of an error, with llama-server's type for a prompt that is too long."""
    body = encode_openai_error(error)
    if isinstance(error.__cause__, ContextError):
        body["type"] = body["error"]["type"] = "exceed_context_size_error"
    return body


class NativeCompletionWriter(ReplyWriter):
    """Writes the chunks of one reply.

    Args:
        compiled: the request that is answered.
        body: the client's request.
        prompts: as text.
    """

    def __init__(self, compiled: CompiledRequest, body: NativeFields, prompts: Sequence[str]):
        self._fields = body.response_fields
        self._choices: list[_CompletionChunks] = []
        for prompt in prompts:
            for _ in range(body.choices):
                writer = _CompletionChunks(compiled, body, prompt, number=len(self._choices))
                self._choices.append(writer)

    def take(self, number: int, event: TurnEvent) -> Iterator[Json]:
        for chunk in self._choices[number].take(event):
            if chunk["stop"]:
                yield select_fields(chunk, self._fields)
            else:
                yield chunk

    def fail(self, error: Exception) -> Iterator[Json]:
        yield encode_native_error(as_http_error(error))

    def fold(self, chunks: Sequence[Json]) -> Json | list[Json]:
        replies = [choice.reply for choice in self._choices]
        whole = [select_fields(reply, self._fields) for reply in replies]
        return whole if len(whole) > 1 else whole[0]


class _CompletionChunks:
    """Writes the chunks of one completion.

    Attributes:
        reply: the whole reply, once it is complete.
    """

    def __init__(self, compiled: CompiledRequest, body: NativeFields, prompt: str, *, number: int):
        self.reply: Json = {}
        self._number = number
        self._prompt = prompt
        self._compiled = compiled
        self._name = compiled.service.name
        self._engine = compiled.service.model.engine
        self._generation = compiled.request.generation
        self._settings = show_settings(compiled, is_streamed=body.stream is True)
        self._progress = ChoiceProgress(self._generation.progress)
        self._content: list[str] = []
        self._tokens: list[int] = []
        self._probabilities: list[Json] = []
        self._unsent: Json = {"tokens": [], "completion_probabilities": []}
        self._counts: Json = {"tokens_predicted": 0, "tokens_evaluated": 0}

    def take(self, event: TurnEvent) -> Iterator[Json]:
        """Yields the chunks of an event."""
        match event:
            case ProgressMade():
                self._note(event)
                if shown := self._progress.take(event):
                    yield self._chunk("") | shown
            case TokenDrawn():
                shown = show_probability(event, self._engine.vocabulary)
                self._probabilities.append(shown)
                self._unsent["completion_probabilities"].append(shown)
            case ContentDelta(text):
                self._content.append(text)
                yield self._chunk(text)
            case Reply():
                self._progress.finish(event)
                yield self._finish(event)
            case _:
                pass

    def _note(self, made: ProgressMade) -> None:
        self._tokens += made.tokens
        self._unsent["tokens"] += made.tokens
        self._counts = {
            "tokens_predicted": made.completion_tokens,
            "tokens_evaluated": made.prompt_tokens,
        }

    def _chunk(self, text: str) -> Json:
        unsent, self._unsent = self._unsent, {"tokens": [], "completion_probabilities": []}
        if self._generation.logprobs is None:
            del unsent["completion_probabilities"]
        return {
            "index": self._number,
            "content": text,
            "stop": False,
            "id_slot": -1,
            **self._counts,
            **unsent,
            **self._progress.fields,
        }

    def _finish(self, reply: Reply) -> Json:
        """Returns the last chunk; keeps the whole reply."""
        content = "".join(self._content)
        usage = reply.usage
        used = usage.prompt_tokens + usage.completion_tokens
        is_cut = reply.finish_reason == "length"
        last: Json = {
            "index": self._number,
            "content": "",
            "tokens": self._unsent["tokens"],
            "id_slot": -1,
            "stop": True,
            "model": self._name,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": self._settings,
            "prompt": self._prompt,
            "has_new_line": "\n" in content,
            "truncated": is_cut and used >= self._engine.context_length,
            "stop_type": _name_stop(reply),
            "stopping_word": reply.stop_sequence or "",
            "tokens_cached": usage.cached_tokens,
            "timings": show_reply_timings(reply),
            **self._compiled.annotate({0: reply}),
        }
        self.reply = {**last, "content": content, "tokens": self._tokens}
        if self._generation.logprobs is not None:
            self.reply["completion_probabilities"] = self._probabilities
        return last


def _name_stop(reply: Reply) -> str:
    if reply.stop_sequence is not None:
        return "word"
    return "limit" if reply.finish_reason == "length" else "eos"


def show_settings(compiled: CompiledRequest, *, is_streamed: bool) -> Json:
    """Returns llama-server's `generation_settings`, as far as they apply here."""
    generation = compiled.request.generation
    max_tokens = -1 if generation.max_tokens is None else generation.max_tokens
    return {
        "n_ctx": compiled.service.model.engine.context_length,
        "n_predict": max_tokens,
        "max_tokens": max_tokens,
        "stop": list(generation.stop),
        "stream": is_streamed,
        "n_probs": generation.logprobs or 0,
        "ignore_eos": generation.ignore_eos,
        "timings_per_token": generation.progress.timings,
        **show_sampling(generation.sampling),
    }


def show_sampling(sampling: Sampling) -> Json:
    """Returns the sampling in llama-server's names."""
    return {
        "seed": -1 if sampling.seed is None else sampling.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.penalty_last_n,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }


def show_probability(event: TokenDrawn, vocabulary: Vocabulary) -> Json:
    """Returns a token with its log probability and its likely alternatives, with ids."""
    shown = show_token(event, vocabulary)
    ranked = zip(event.top, shown["top_logprobs"], strict=True)
    top = [{"id": token, **other} for (token, _), other in ranked]
    return {"id": event.token, **shown, "top_logprobs": top}


def select_fields(body: Json, names: Sequence[str] | None) -> Json:
    """Selects fields of a reply by name; None: all. A name with slashes is the path of an inner
    field, which comes under the last part of the path."""
    if names is None:
        return body
    selected: Json = {}
    for name in names:
        *path, last = name.split("/")
        value: Any = body
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, dict) and last in value:
            selected[last] = value[last]
    return selected
