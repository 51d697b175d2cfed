"""The loop: mask, sample, commit, forced tokens, decode; for a list of sequences at once."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from constrained.engine.protocol import Chunk, Engine, Sampling
from constrained.errors import ContextError, RequestError
from constrained.mask import Matcher
from grammars.parse import Parser
from grammars.turn import Event

DEFAULT_SAMPLING = Sampling()


class Finish(StrEnum):
    """Why a generation ended: the turn was over, or the tokens were."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Request:
    """One turn to generate.

    Args:
        prompt: token ids.
        matcher: holds the turn to its grammar, from its first token; None: anything goes.
        parser: reads the text as it comes.
        sampling: how tokens are drawn.
        max_tokens: at most so many tokens are generated.
        force: take tokens that the grammar forces without asking the model, several at a time.
    """

    prompt: Sequence[int]
    matcher: Matcher | None
    parser: Parser
    sampling: Sampling = DEFAULT_SAMPLING
    max_tokens: int = 1024
    force: bool = True


@dataclass(frozen=True)
class Generation:
    """What came of a request.

    Args:
        tokens: the generated ids, without the end token.
        text: what they spell.
        events: what the parser read in it.
        finish: why it ended.
        forward_passes: decodes that this sequence took part in, that of the prompt included.
    """

    tokens: tuple[int, ...]
    text: str
    events: tuple[Event, ...]
    finish: Finish
    forward_passes: int


def generate(engine: Engine, requests: Sequence[Request]) -> list[Generation]:
    """Generates all turns together, one sequence each.

    Raises:
        ContextError: a prompt leaves no room for an answer.
        RequestError: more requests than the engine has sequences, or a limit below 1.
        GrammarError: a grammar or matcher failed; nothing is returned then.
    """
    if len(requests) > engine.max_sequences:
        hint = "Load the model with more sequences"
        raise RequestError(f"{len(requests)} turns, {engine.max_sequences} sequences", hint=hint)
    turns = [_Turn(engine, number, request) for number, request in enumerate(requests)]
    try:
        while active := [turn for turn in turns if turn.finish is None]:
            logits = engine.decode([turn.next_chunk() for turn in active])
            for slot, turn in enumerate(active):
                turn.advance(slot, logits[slot])
        return [turn.result() for turn in turns]
    finally:
        for turn in turns:
            turn.close()


class _Turn:
    """A sequence under way."""

    def __init__(self, engine: Engine, number: int, request: Request):
        room = engine.context_length - len(request.prompt)
        if not request.prompt or request.max_tokens < 1:
            raise RequestError("a turn needs a prompt and max_tokens of 1 or more")
        if room < 1:
            raise ContextError(
                f"the prompt has {len(request.prompt)} tokens, the context {engine.context_length}",
                hint="Shorten the conversation or the tools, or raise the context length (-c)",
            )
        self._engine = engine
        self._number = number
        self._request = request
        self._matcher = request.matcher
        self._sampler = engine.sampler(request.sampling)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._limit = min(request.max_tokens, room)
        self._ends = frozenset(engine.vocabulary.end)
        self._pending = list(request.prompt)
        self._position = 0
        self._passes = 0
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._events: list[Event] = []
        self.finish: Finish | None = None
        self._follow()

    def next_chunk(self) -> Chunk:
        """What the model has not seen yet."""
        chunk = Chunk(self._number, self._pending, self._position)
        self._position += len(self._pending)
        self._passes += 1
        self._pending = []
        return chunk

    def advance(self, slot: int, logits: np.ndarray) -> None:
        """Takes the next token, and all that it forces."""
        token = self._matcher.apply(logits) if self._matcher else None
        if token is None:
            token = self._sampler.sample(slot)
        else:
            self._sampler.accept(token)
        if self._matcher:
            self._matcher.commit(token)
        if self._matcher.ends(token) if self._matcher else token in self._ends:
            self.finish = Finish.STOP
            return
        self._take(token)
        self._follow()

    def _follow(self) -> None:
        """Takes forced tokens; ends the turn where nothing more can come, or the limit is met."""
        matcher = self._matcher
        for token in matcher.forced() if matcher and self._request.force else ():
            if matcher is None or len(self._tokens) >= self._limit or matcher.ends(token):
                break
            matcher.commit(token)
            self._sampler.accept(token)
            self._take(token)
        if matcher and matcher.is_finished:
            self.finish = Finish.STOP
        elif len(self._tokens) >= self._limit:
            self.finish = Finish.LENGTH

    def _take(self, token: int) -> None:
        self._tokens.append(token)
        self._pending.append(token)
        self._read(self._decoder.decode(self._engine.vocabulary.text([token])))

    def _read(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._events += self._request.parser.feed(text)

    def result(self) -> Generation:
        """The finished turn."""
        self._read(self._decoder.decode(b"", final=True))
        self._events += self._request.parser.close()
        assert self.finish is not None
        tokens, text = tuple(self._tokens), "".join(self._text)
        return Generation(tokens, text, tuple(self._events), self.finish, self._passes)

    def close(self) -> None:
        self._sampler.close()
        self._engine.release(self._number)
