"""The state of one turn that is being generated, and the operations on it."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
from constrained.decode.request import DecodeInput, FailedTurn, Finish, Request
from constrained.decode.token_trace import TokenTrace
from constrained.decode.transcript import SAID, TokenOrigin, Transcript
from constrained.decode.turn_part import TurnProgress
from constrained.engine.protocol import Sampler, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError, TokenLimitError, check_count, make_overflow
from constrained.limits.deadline import Clock, Stopwatch
from constrained.mask.matcher import Matcher
from grammars.turn import ContentDelta
from grammars.turn_grammar.ir.completion import TooLong
from grammars.wire.envelopes import ForeignCall


class TurnInput(Protocol):
    """The tokens of a turn for the model, and how many of them it has read."""

    @property
    def prompt(self) -> Sequence[int]: ...

    @property
    def cached(self) -> int: ...

    @property
    def unread(self) -> int: ...

    @property
    def passes(self) -> int: ...

    @property
    def drafted(self) -> int: ...

    @property
    def accepted(self) -> int: ...

    def append(self, token: int) -> bool:
        """Adds a token to the turn; returns True if the model has already read it."""
        ...

    def rewind(self, tokens: Sequence[int]) -> bool:
        """Makes the model forget all but the prompt and these tokens; False if it cannot."""
        ...


class _TakenToken(NamedTuple):
    """A token of the turn whose text is not written yet. A tuple, which is made in a third of the
    time of a frozen dataclass.

    Args:
        token: its id.
        origin: where it comes from.
        is_computed: it was drafted, so the KV cache already has it.
    """

    token: int
    origin: TokenOrigin
    is_computed: bool


@dataclass(frozen=True)
class _Span:
    """A part of a turn with a grammar of its own.

    Args:
        turn: has this grammar.
        matcher: at its start.
        start: the number of tokens before it.
        since: the number of tokens from which on it counts.
    """

    turn: DecodeInput
    matcher: Matcher
    start: int
    since: int


class TurnState:
    """One turn, on one sequence: its transcript, its matcher, and its limit of tokens.

    The parts of the decoder see it as a `TurnView`.

    Args:
        input: passes the tokens on to the model.
        request: the request for this turn.
        vocabulary: of the model.
        context_length: of one sequence, in tokens.
        make_sampler: makes the sampler; returns None if another process samples the tokens.
        clock: for the timings of the turn.

    Attributes:
        stopwatch: the running stopwatch of the turn.
        limit: the maximum number of tokens of the turn.
        reserve: keeps an ending that fits into the limit; None: the turn is cut at the limit.
        finish: why the turn is over; None: it is not over.
        discarded: the number of tokens that were generated and then thrown away.
        ended_at: the number of events before the tokens ran out and the ending was written.
        trace: what decided each token; None: the request has no trace.

    Raises:
        RequestError: the prompt is empty, or a bias is for a token that does not exist.
        TokenLimitError: `max_tokens` is too small for the shortest turn.
        ContextError: the prompt fills the context, or leaves no room for the shortest turn.
    """

    def __init__(
        self,
        input: TurnInput,
        request: Request,
        *,
        vocabulary: Vocabulary,
        context_length: int,
        make_sampler: Callable[[Sampling], Sampler | None],
        clock: Clock,
    ):
        self.stopwatch = Stopwatch(clock)
        self.request = request
        self.vocabulary = vocabulary
        self.matcher = request.turn.matcher
        # It is not known in advance where the turn has to go back to. Instead of a fork for each
        # token there is one of the start, which commits the remaining tokens again.
        self._spans: list[_Span] = []
        if self.matcher is not None:
            self._spans.append(_Span(request.turn, self.matcher.fork(), start=0, since=0))
        self._room = find_room(request, context_length)
        self.limit = min(request.options.max_tokens, self._room)
        self.transcript = Transcript(request, vocabulary)
        self.reserve = self._start_reserve()
        self.input = input
        self.sampler = make_sampler(request.options.sampling)
        self.finish: Finish | None = None
        self._unwritten = deque[_TakenToken]()
        self.discarded = 0
        self._reported = 0  # the number of tokens that the progress events have reported
        self.ended_at: int | None = None
        self.trace = None if request.options.trace is None else TokenTrace(self.vocabulary, clock)
        self._recall()

    def _start_reserve(self) -> CompletionReserve | None:
        request = self.request
        if request.turn.matcher is None or request.turn.make_reserve is None:
            return None
        reserve = request.turn.make_reserve(self.limit)
        shortest = reserve.start(self.transcript.measure(request.turn.matcher))
        if shortest is None or shortest <= self.limit:
            return reserve
        or_more = "" if reserve.ending else " or more"  # the length was not counted to the end
        if self.limit < self._room:
            message = f"the shortest turn that this request allows has {shortest} tokens{or_more}"
            hint = f"Raise it to {shortest} or more"
            message = f"{message}, max_tokens is {self.limit}"
            raise TokenLimitError(message, where="/max_tokens", hint=hint)
        prompt = len(request.turn.prompt)
        problem = (
            f"you requested {prompt + shortest} tokens{or_more} ({prompt} in the messages, "
            f"{shortest} in the shortest turn that this request allows)"
        )
        raise make_overflow(prompt + self._room, problem, prompt + shortest)

    @property
    def tokens(self) -> list[int]:
        """The token ids whose text is written."""
        return self.transcript.tokens

    @property
    def count(self) -> int:
        """The number of tokens of the turn, including those whose text is not written yet."""
        return len(self.transcript.tokens) + len(self._unwritten)

    @property
    def has_unwritten(self) -> bool:
        """True if the turn has tokens whose text is not written yet."""
        return bool(self._unwritten)

    @property
    def all_tokens(self) -> list[int]:
        """The token ids of the turn, including those whose text is not written yet."""
        return [*self.transcript.tokens, *(taken.token for taken in self._unwritten)]

    @property
    def end_tokens(self) -> Collection[int]:
        """The tokens that end the turn; they are not part of it."""
        return self.vocabulary.end if self.matcher is None else self.matcher.end_tokens

    @property
    def generated(self) -> int:
        """The number of generated tokens, including those that were thrown away."""
        return self.discarded + len(self.tokens)

    def take(self, token: int, origin: TokenOrigin) -> bool:
        """Adds a token, whose text is written later; returns True if the KV cache has it."""
        # llama.cpp's sampler accepts by itself the tokens that it samples.
        if not origin.is_sampled and self.sampler is not None:
            self.sampler.accept(token)
        is_computed = self.input.append(token)
        self._unwritten.append(_TakenToken(token, origin, is_computed))
        return is_computed

    def write_next(self) -> int:
        """Writes the text of the next unwritten token and sends its events; returns the token."""
        taken = self._unwritten.popleft()
        origin = taken.origin
        self._trace(taken)
        events = self.transcript.write(taken.token, origin)
        if origin.is_said:
            events = [event for event in events if not isinstance(event, ContentDelta)]
        if origin.is_new:
            self.send(events)
        else:
            self._reported = len(self.tokens)
        return taken.token

    def _trace(self, taken: _TakenToken) -> None:
        if self.trace is not None:
            source, observation = taken.origin.source, taken.origin.observation
            self.trace.write(taken.token, source, observation, is_drafted=taken.is_computed)

    def note_failure(self) -> None:
        """Hands over the trace of the turn, which has failed, including its unwritten tokens."""
        if self.trace is None:
            return
        for taken in self._unwritten:
            self._trace(taken)
        events = tuple(self.transcript.events)
        self.request.note_failure(FailedTurn(tuple(self.trace.tokens), events))

    def drop_unwritten(self) -> None:
        """Drops the tokens whose text is not written: the turn ended or went back before them."""
        self._unwritten.clear()

    def send(self, events: Sequence[StreamEvent]) -> None:
        """Sends events to the caller."""
        if events and self.request.options.progress:
            self.request.sink([self._measure_progress(), *events])
        elif events:
            self.request.sink(events)

    def send_progress(self) -> None:
        """Sends the progress of the turn, if the request wants it."""
        if self.request.options.progress:
            self.request.sink([self._measure_progress()])

    def _measure_progress(self) -> ProgressMade:
        size = len(self.input.prompt)
        reported, self._reported = self._reported, len(self.tokens)
        return ProgressMade(
            prompt_tokens=size,
            cached_tokens=self.input.cached,
            read_tokens=size - self.input.unread,
            completion_tokens=self.generated,
            timings=self.stopwatch.read(),
            tokens=tuple(self.tokens[reported:]),
            position=reported,
        )

    def close(self, *, is_whole: bool) -> None:
        """Ends the transcript and sends the remaining events. A second call does nothing."""
        self.send(self.transcript.close(is_whole=is_whole))

    def run_out(self) -> None:
        """Notes that the tokens have run out: now the shortest completion is written."""
        self.ended_at = len(self.transcript.events)
        self.send([Exhausted()])

    def end_after_call(self, index: int, *, ran_out: bool = False) -> Sequence[int]:
        """Cuts the turn after a call, which ends the turn; returns the tokens of the ending.

        The KV cache is not changed, since nothing more of this turn is decoded.

        Args:
            index: the number of the call, from 0.
            ran_out: the tokens ran out in the next call.
        """
        head, rest = self.transcript.cut_after_call(index)
        self.discarded += len(self.tokens) - len(head.tokens)
        self._cut_to(head)
        self.finish = Finish.STOP
        if ran_out or self.ended_at is not None:
            self.finish = Finish.LENGTH
            self.ended_at = min(self.ended_at or len(head.events), len(head.events))
        if self.reserve is None:
            return ()
        self.matcher = self.replay(head.tokens)
        ending = self.reserve.find_ending(replace(head.measure(self.matcher), rest=rest))
        if ending is None or isinstance(ending, TooLong):
            return ()
        return ending

    def _cut_to(self, head: Transcript) -> None:
        """Replaces the transcript by one of the first tokens."""
        self.drop_unwritten()
        self.transcript = head
        self._reported = min(self._reported, len(head.tokens))
        if self.trace is not None:
            self.trace.rewind(len(head.tokens))

    @property
    def turn(self) -> DecodeInput:
        """The turn with the grammar that counts now."""
        return self._spans[-1].turn if self._spans else self.request.turn

    def _list_spans(self, count: int) -> list[_Span]:
        """Lists the spans that count after this many tokens."""
        spans = [span for span in self._spans if span.since <= count]
        assert spans, "the turn has a grammar"
        return spans

    def replay(self, tokens: Sequence[int]) -> Matcher:
        """Makes a matcher that has committed these first tokens of the turn.

        Raises:
            GrammarError: the grammar does not take them.
        """
        span = self._list_spans(len(tokens))[-1]
        matcher = span.matcher.fork()
        for token in tokens[span.start :]:
            matcher.commit(token)
        return matcher

    def rewind(self, count: int, *, then: Sequence[int] = ()) -> bool:
        """Cuts a turn that has a grammar to its first tokens.

        Args:
            count: the number of tokens to keep.
            then: tokens that will be taken after them, and need an ending, too.

        Returns:
            False if too few tokens would be left for the turn, or the model cannot forget tokens.
            Then nothing has changed.
        """
        head = self.transcript.cut(count)
        matcher = self.replay(head.tokens)
        spans = self._list_spans(count)
        limit = self._find_limit(count)
        reserve = self._make_reserve(spans[-1].turn, limit)
        if reserve is not None:
            after = matcher.fork()
            for token in then:
                after.commit(token)
            if not _fits(reserve, head.measure(after, then), limit):
                return False
        elif count + len(then) >= limit:
            return False
        if not self._forget_after(head):
            return False
        self._spans = spans
        self.matcher = matcher
        self.reserve = reserve
        self.limit = limit
        self._recall()
        return True

    def _find_limit(self, count: int) -> int:
        """Returns the maximum number of tokens if the turn is cut to its first `count` ones."""
        discarded = self.discarded + len(self.tokens) - count
        return min(self.request.options.max_tokens - discarded, self._room)

    def _make_reserve(self, turn: DecodeInput, limit: int) -> CompletionReserve | None:
        return None if turn.make_reserve is None else turn.make_reserve(limit)

    def go_on(
        self,
        rest: DecodeInput,
        found: ForeignCall,
        *,
        start: int,
        keep: int,
        then: Sequence[int] = (),
    ) -> bool:
        """Continues the turn with another grammar, in the envelope of a call.

        Args:
            rest: the rest of the turn.
            found: the call.
            start: the number of tokens before `rest`; the grammar takes those after them.
            keep: the number of tokens to keep.
            then: those that come next, in place of the others.

        Returns:
            False if too few tokens are left for the call, or the model cannot forget tokens. Then
            nothing has changed.
        """
        assert rest.matcher is not None
        matcher = rest.matcher.fork()
        for token in self.tokens[start:keep]:
            matcher.commit(token)
        count = keep + len(then)
        limit = self._find_limit(keep)
        reserve = self._make_reserve(rest, limit)
        text = self.vocabulary.text(self.tokens[start:keep])
        if reserve is not None and not _fits(reserve, TurnProgress(matcher, count, text), limit):
            return False
        if (keep < self.count) and not self._forget_after(self.transcript.cut(keep)):
            return False
        self.limit = limit
        for token in then:
            self.take(token, SAID)
            self.write_next()
        self._spans.append(_Span(rest, rest.matcher, start=start, since=count))
        self.matcher = matcher
        self.reserve = reserve
        self.send(self.transcript.go_on(found, start=start, drops_rest=start == count))
        self._recall()
        return True

    def _forget_after(self, head: Transcript) -> bool:
        """Cuts the turn to this head of its transcript; returns False if the model cannot forget
        the tokens after it."""
        if not self.input.rewind(head.tokens):
            return False
        self.discarded += len(self.tokens) - len(head.tokens)
        self._cut_to(head)
        return True

    def _recall(self) -> None:
        """Tells the sampler which tokens its penalties count: the prompt and the turn."""
        if self.sampler is not None and self.request.options.sampling.has_penalties:
            self.sampler.recall([*self.input.prompt, *self.tokens])


def find_room(request: Request, context_length: int) -> int:
    """The number of tokens that fit into the context after the prompt.

    Raises:
        RequestError: the prompt is empty, or `max_tokens` is less than 1.
        ContextError: the prompt fills the context.
    """
    prompt, max_tokens = request.turn.prompt, request.options.max_tokens
    if not prompt or type(max_tokens) is not int or max_tokens < 1:
        raise RequestError("a turn needs a prompt and max_tokens of 1 or more", where="/max_tokens")
    check_count(len(prompt), context_length)
    return context_length - len(prompt)


def _fits(reserve: CompletionReserve, progress: TurnProgress, limit: int) -> bool:
    """Returns whether a turn can end within this many tokens."""
    shortest = reserve.start(progress)
    return shortest is None or shortest <= limit
