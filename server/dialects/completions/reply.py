"""Completions: the reply, as the chunks of a stream; one that is whole is made of them."""

import codecs
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from constrained.logits import TokenDrawn
from constrained.reply import Reply, Usage
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import ContentDelta
from server.dialects.chat.reply import count_usage, show_token
from server.ids import make_id
from server.turns.active_request import Begun, Told

Json = dict[str, Any]


class CompletionWriter:
    """Writes the chunks of one reply.

    Args:
        begun: the request under way; of each prompt, `asked.choices` streams.
        echoes: for each prompt, what stands in front of the replies to it.
        shows_usage: the last chunk has the usage; a whole reply always has it.
    """

    def __init__(self, begun: Begun, echoes: Sequence[str], *, shows_usage: bool = True):
        self._begun = begun
        self._echoes = echoes
        self._shows_usage = shows_usage
        self._head: Json = {
            "id": make_id("cmpl-"),
            "object": "text_completion",
            "created": int(time.time()),
            "model": begun.service.name,
            "system_fingerprint": f"constrained-{begun.turn.format.name}",
        }
        vocabulary = begun.service.model.engine.vocabulary
        self._tokens = [_Tokens(vocabulary) for _ in begun.streams]
        self._usages: dict[int, Usage] = {}

    def open(self) -> Iterator[Json]:
        """The prompts, where they are to stand in front."""
        for number in range(len(self._begun.streams)):
            if echo := self._echoes[number // self._begun.asked.choices]:
                yield self._chunk(number, echo)

    def take(self, number: int, told: Told) -> Iterator[Json]:
        """The chunks that an event of a choice comes to."""
        match told:
            case TokenDrawn():
                self._tokens[number].add(told)
            case ContentDelta(text):
                yield self._chunk(number, text)
            case Reply():
                self._usages[number] = told.usage
                last = self._chunk(number, "", told.finish_reason)
                is_over = len(self._usages) == len(self._tokens) and not self._shows_usage
                yield {**last, **self._begun.notes()} if is_over else last
            case _:
                pass

    def close(self) -> Iterator[Json]:
        """The last chunk: what the reply took."""
        if self._shows_usage:
            last: Json = {**self._head, "choices": [], **self._begun.notes()}
            yield {**last, "usage": self._count_usage()}

    def _chunk(self, number: int, text: str, finish: str | None = None) -> Json:
        logprobs = self._tokens[number].drain()
        choice = {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head, "choices": [choice]}

    def _count_usage(self) -> Json:
        """The tokens of all choices; each prompt counts once."""
        choices, usages = self._begun.asked.choices, self._usages
        groups = range(0, len(usages), choices)
        counted = [count_usage([usages[n] for n in range(at, at + choices)]) for at in groups]
        return _add_up(counted)


def _add_up(counted: Sequence[Json]) -> Json:
    return {
        key: _add_up([usage[key] for usage in counted])
        if isinstance(value, dict)
        else sum(usage[key] for usage in counted)
        for key, value in counted[0].items()
    }


class _Tokens:
    """The log probabilities of one choice, in OpenAI's legacy form."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0
        self._shown: Json | None = None

    def add(self, drawn: TokenDrawn) -> None:
        """A token was drawn; characters count where they end."""
        token = show_token(drawn, self._vocabulary)
        shown = self._shown = self._shown or _make_logprobs()
        shown["tokens"].append(token["token"])
        shown["token_logprobs"].append(token["logprob"])
        top = {other["token"]: other["logprob"] for other in reversed(token["top_logprobs"])}
        shown["top_logprobs"].append(top)
        shown["text_offset"].append(self._offset)
        self._offset += len(self._decoder.decode(drawn.text))

    def drain(self) -> Json | None:
        """Those that were not told of yet."""
        shown, self._shown = self._shown, None
        return shown


def _make_logprobs() -> Json:
    return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}


def fold(chunks: Iterable[Json]) -> Json:
    """The whole reply that chunks add up to."""
    body: Json = {}
    choices: dict[int, Json] = {}
    for chunk in chunks:
        body |= chunk
        for part in chunk["choices"]:
            empty: Json = {"index": part["index"], "text": "", "logprobs": None}
            choice = choices.setdefault(part["index"], empty)
            choice["text"] += part["text"]
            choice["finish_reason"] = part["finish_reason"]
            if part["logprobs"] is not None:
                choice["logprobs"] = choice["logprobs"] or _make_logprobs()
                for name, values in part["logprobs"].items():
                    choice["logprobs"][name] += values
    return body | {"choices": [choices[number] for number in sorted(choices)]}
