"""A turn under way: the tokens it takes, and when it is over."""

import codecs
from collections.abc import Sequence

import numpy as np

from constrained.ending import Place, Reserve
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError, RequestError
from constrained.mask import Matcher
from constrained.request import Finish, Generation, Request
from grammars.turn import Event


class Progression:
    """One turn under way, on one sequence of the engine.

    Raises:
        ContextError, RequestError: see `find_limit` and `find_reserve`.
    """

    def __init__(self, engine: Engine, number: int, request: Request):
        self._limit = find_limit(engine, request)
        self._engine = engine
        self._number = number
        self._request = request
        self._matcher = request.matcher
        self._budget = request.budget
        self._reserve = find_reserve(engine, request, self._limit)
        self._sampler = engine.sampler(request.sampling)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ends = frozenset(engine.vocabulary.end)
        self._pending = list(request.prompt)
        self._position = 0
        self._passes = 0
        self._tokens: list[int] = []
        self._bytes = bytearray()
        self._events: list[Event] = []
        self._thought = 0
        self._ended_at: int | None = None
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
        if not self._request.is_wanted():
            self.finish = Finish.CANCELLED
            return
        token = self._matcher.apply(logits) if self._matcher else None
        if token is None:
            if self._budget and self._request.parser.is_reasoning:
                self._budget.keep_whole(logits, self._thought, self._engine.vocabulary)
            token = self._sampler.sample(slot)
            accepted = True
        else:
            accepted = False
        if self._matcher.ends(token) if self._matcher else token in self._ends:
            self._end(token)
        elif self._take([token], accepted=accepted):
            self._follow()

    def _end(self, token: int) -> None:
        if self._matcher:
            self._matcher.commit(token)
        self.finish = Finish.STOP

    def _follow(self) -> None:
        """Takes forced tokens; ends the turn where nothing more can come, or the limit is met."""
        if self._close_reasoning() and self._take_forced():
            if self._matcher and self._matcher.is_finished:
                self.finish = Finish.STOP
            elif len(self._tokens) >= self._limit:
                self.finish = Finish.LENGTH

    def _close_reasoning(self) -> bool:
        """Closes the reasoning block if its budget is spent; False if that ended the turn."""
        budget, parser = self._budget, self._request.parser
        if budget and self._matcher and parser.is_reasoning and self._thought >= budget.tokens:
            room = self._limit - len(self._tokens)
            return self._take(budget.find_closing(self._matcher, room), counted=False)
        return True

    def _take_forced(self) -> bool:
        if not (self._matcher and self._request.force):
            return True
        tokens = self._matcher.forced()
        ends = (n for n, token in enumerate(tokens) if self._matcher.ends(token))
        tokens = tokens[: next(ends, len(tokens))]
        if self._reserve is None:
            tokens = tokens[: max(0, self._limit - len(self._tokens))]
        return self._take(tokens)

    def _take(self, tokens: Sequence[int], *, accepted: bool = False, counted: bool = True) -> bool:
        """Takes these tokens, or ends the turn in the shortest way if it could not end behind them.

        Args:
            tokens: what comes next.
            accepted: the sampler has taken note of them.
            counted: they count as reasoning, if they are.
        """
        if not tokens:
            return True
        if self._matcher and not self._commit(self._matcher, tokens):
            return False
        self._write(tokens, accepted=accepted, counted=counted)
        return True

    def _commit(self, matcher: Matcher, tokens: Sequence[int]) -> bool:
        """Commits the tokens; if the turn could not end behind them, ends it before them."""
        count = len(self._tokens) + len(tokens)
        if self._reserve is None or self._reserve.needs_no_look(count):
            for token in tokens:
                matcher.commit(token)
            return True
        before = Place(matcher, len(self._tokens), bytes(self._bytes))
        self._matcher = matcher.fork()
        for token in tokens:
            self._matcher.commit(token)
        text = before.text + self._engine.vocabulary.text(tokens)
        if self._reserve.admits(before, Place(self._matcher, count, text)):
            return True
        self._finish_early()
        return False

    def _finish_early(self) -> None:
        """The tokens run out: writes the ending that was kept for that, if there is one."""
        assert self._reserve is not None
        if self._reserve.ending is not None:
            self._ended_at = len(self._events)
            self._write(self._reserve.ending, counted=False)
        self.finish = Finish.LENGTH

    def _write(
        self, tokens: Sequence[int], *, accepted: bool = False, counted: bool = True
    ) -> None:
        parser = self._request.parser
        for token in tokens:
            if not accepted:
                self._sampler.accept(token)
            self._tokens.append(token)
            self._pending.append(token)
            data = self._engine.vocabulary.text([token])
            self._bytes += data
            was_reasoning = parser.is_reasoning
            self._read(self._decoder.decode(data))
            if was_reasoning and counted:
                self._thought += 1 if parser.is_reasoning else -self._count_closer()

    def _count_closer(self) -> int:
        """How many tokens before the last one spell nothing but the marker that it completes."""
        closer = self._request.parser.closer.encode()
        start = self._bytes.rfind(closer)
        end, count = len(self._bytes), -1
        for token in reversed(self._tokens):
            end -= len(self._engine.vocabulary.text([token]))
            if end < start:
                break
            count += 1
        return max(0, count)

    def _read(self, text: str) -> None:
        if text:
            self._tell(self._request.parser.feed(text))

    def _tell(self, events: Sequence[Event]) -> None:
        self._events += events
        if events:
            self._request.sink(events)

    def result(self) -> Generation:
        """The finished turn."""
        self._read(self._decoder.decode(b"", final=True))
        self._tell(self._request.parser.close())
        assert self.finish is not None
        return Generation(
            tuple(self._tokens),
            self._bytes.decode("utf-8", "replace"),
            tuple(self._events),
            self.finish,
            self._passes,
            self._thought,
            self._ended_at,
        )

    def close(self) -> None:
        self._sampler.close()
        self._engine.release(self._number)


def find_limit(engine: Engine, request: Request) -> int:
    """How many tokens the turn may have: `max_tokens`, or what the context has left.

    Raises:
        RequestError: no prompt, or no tokens.
        ContextError: the prompt fills the context.
    """
    room = engine.context_length - len(request.prompt)
    if not request.prompt or type(request.max_tokens) is not int or request.max_tokens < 1:
        raise RequestError("a turn needs a prompt and max_tokens of 1 or more", where="/max_tokens")
    if room < 1:
        raise ContextError(
            f"the prompt has {len(request.prompt)} tokens, the context {engine.context_length}",
            hint="Shorten the conversation or the tools, or raise the context length (-c)",
        )
    return min(request.max_tokens, room)


def find_reserve(engine: Engine, request: Request, limit: int) -> Reserve | None:
    """The reserve of a request, if it has one.

    Raises:
        RequestError, ContextError: the shortest turn that the request allows does not fit.
    """
    if request.matcher is None or request.reserve is None:
        return None
    reserve = request.reserve(limit)
    shortest = reserve.start(request.matcher)
    if shortest is None or shortest <= limit:
        return reserve
    message = f"the shortest turn that this request allows has {shortest} tokens"
    if limit == request.max_tokens:
        hint = f"Raise it to {shortest} or more"
        raise RequestError(f"{message}, max_tokens is {limit}", where="/max_tokens", hint=hint)
    hint = "Shorten the conversation or the tools, or raise the context length (-c)"
    raise ContextError(f"{message}, the context has room for {limit}", hint=hint)
