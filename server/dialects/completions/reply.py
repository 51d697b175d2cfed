"""Completions: the reply, as the chunks of a stream."""

import codecs
from collections.abc import Iterator, Sequence

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.mask.logprobs import TokenDrawn
from constrained.model.reply import Reply
from grammars.schema.json_values import JsonObject
from grammars.turn import ContentDelta
from server.dialects.chat.reply import ChunkWriter, add_delta, count_usage, fold_choices, show_token
from server.turns.active_request import TurnEvent
from server.turns.compiled_request import CompiledRequest


class CompletionWriter(ChunkWriter):
    """Writes the chunks of one reply.

    Args:
        compiled: the request that is answered.
        echoes: for each prompt, the text before its replies.
        shows_usage: see `ChunkWriter`.
    """

    def __init__(
        self, compiled: CompiledRequest, echoes: Sequence[str], *, shows_usage: bool = True
    ):
        self._choices = compiled.request.generation.choices  # for each prompt
        count = len(echoes) * self._choices
        super().__init__(
            compiled, prefix="cmpl-", type="text_completion", count=count, shows_usage=shows_usage
        )
        self._echoes = echoes
        vocabulary = compiled.service.model.engine.vocabulary
        self._logprobs = [_LogprobsWriter(vocabulary) for _ in range(count)]

    def open(self) -> Iterator[JsonObject]:
        """Writes the prompts, if the replies begin with them."""
        for number in range(len(self._logprobs)):
            if echo := self._echoes[number // self._choices]:
                yield self._chunk(number, echo)

    def take(self, number: int, event: TurnEvent) -> Iterator[JsonObject]:
        match event:
            case TokenDrawn():
                self._logprobs[number].add(event)
            case ContentDelta(text):
                yield self._chunk(number, text)
            case Reply():
                last = self._chunk(number, "", event.finish_reason)
                yield self._end_choice(number, event, last)
            case _:
                pass

    def fold(self, chunks: Sequence[JsonObject]) -> JsonObject:
        return fold(chunks)

    def count_tokens(self) -> JsonObject:
        """Adds up the tokens of all choices; each prompt counts once."""
        total: JsonObject = {}
        for first in range(0, len(self._replies), self._choices):
            numbers = range(first, first + self._choices)
            _add_counts(total, count_usage([self._replies[number].usage for number in numbers]))
        return total

    def _chunk(self, number: int, text: str, finish: str | None = None) -> JsonObject:
        logprobs = self._logprobs[number].drain()
        return self._make_chunk(
            {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish}
        )


def _add_counts(total: JsonObject, counts: JsonObject) -> None:
    for key, value in counts.items():
        if isinstance(value, dict):
            _add_counts(total.setdefault(key, {}), value)
        else:
            total[key] = total.get(key, 0) + value


class _LogprobsWriter:
    """The log probabilities of one choice, in OpenAI's legacy form."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0
        self._shown: JsonObject | None = None

    def add(self, event: TokenDrawn) -> None:
        """Adds a token. A character of several tokens counts at its last token."""
        token = show_token(event, self._vocabulary)
        if self._shown is None:
            self._shown = {
                "tokens": [],
                "token_logprobs": [],
                "top_logprobs": [],
                "text_offset": [],
            }
        shown = self._shown
        shown["tokens"].append(token["token"])
        shown["token_logprobs"].append(token["logprob"])
        # If several tokens have the same text, the likeliest, which comes first, has to win.
        top = {other["token"]: other["logprob"] for other in reversed(token["top_logprobs"])}
        shown["top_logprobs"].append(top)
        shown["text_offset"].append(self._offset)
        self._offset += len(self._decoder.decode(event.text))

    def drain(self) -> JsonObject | None:
        """Returns the log probabilities of the tokens since the last call; None: there are none."""
        shown, self._shown = self._shown, None
        return shown


def fold(chunks: Sequence[JsonObject]) -> JsonObject:
    """Adds chunks up to the whole reply."""
    return fold_choices(chunks, lambda: {"text": "", "logprobs": None}, add_delta)
