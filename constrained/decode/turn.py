"""A turn that is being generated: what it is, what it has written, what steers it.

It does not matter where its tokens come from: `TurnDecoder` samples them from logits, `RemoteTurn`
gets them over the network. Tokens are committed and written when they are taken.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
from constrained.decode.request import DecodeInput, Finish, Generation, Request, Usage
from constrained.decode.token_trace import TokenTrace
from constrained.decode.transcript import INSERTED, TokenOrigin, Transcript
from constrained.decode.turn_part import TurnParts
from constrained.engine.protocol import Sampler, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import (
    GrammarError,
    RequestError,
    TokenLimitError,
    check_count,
    make_overflow,
)
from constrained.limits.deadline import Clock, Stopwatch
from constrained.mask.matcher import Matcher
from grammars.turn import ContentDelta
from grammars.turn_grammar.ir.completion import TooLong


@dataclass(frozen=True)
class _Span:
    """A part of a turn with a grammar of its own.

    Args:
        turn: its matcher is at the start of the part.
        start: the number of tokens before the part.
        since: the number of tokens from which on it counts.
    """

    turn: DecodeInput
    start: int
    since: int


class GrammarSpans:
    """The grammars of one turn, from which a matcher is made for any place in it.

    It is not known in advance where a turn has to go back to. Instead of a fork for each token
    there is one of the start of each grammar, which commits the remaining tokens again.
    """

    def __init__(self, turn: DecodeInput):
        self._spans = [_Span(turn, start=0, since=0)]

    def find(self, count: int) -> DecodeInput:
        """Returns the turn with the grammar that counts after this many tokens."""
        return self._list(count)[-1].turn

    def replay(self, tokens: Sequence[int]) -> Matcher:
        """Makes a matcher that has committed these first tokens of the turn."""
        span = self._list(len(tokens))[-1]
        assert span.turn.matcher is not None
        matcher = span.turn.matcher.fork()
        for token in tokens[span.start :]:
            matcher.commit(token)
        return matcher

    def cut(self, count: int) -> None:
        """Forgets the grammars that count only after more than these tokens."""
        self._spans = self._list(count)

    def add(self, rest: DecodeInput, *, start: int, since: int) -> None:
        """Adds the grammar of the rest of a turn, which counts from `since` tokens on."""
        self._spans.append(_Span(rest, start, since))

    def _list(self, count: int) -> list[_Span]:
        return [span for span in self._spans if span.since <= count]


class TurnInput(Protocol):
    """The tokens of a turn for the model, and how many of them it has read; the attributes are
    those of `SequenceInput`."""

    prompt: list[int]
    cached: int
    passes: int
    drafted: int
    accepted: int

    @property
    def unread(self) -> int: ...

    def append(self, token: int) -> bool: ...

    def rewind(self, tokens: Sequence[int]) -> bool: ...


class RunningTurn:
    """One turn: its transcript, its matcher, its limit of tokens, its parts.

    Methods that take or write tokens return whether the turn goes on behind them. The parts see it
    as a `TurnView`.

    Args:
        context_length: of one sequence, in tokens.
        make_sampler: makes the sampler; returns None if another process samples the tokens.

    Attributes:
        grammars: those of the turn, from which a matcher is made for any place in it.
        room: the number of tokens that fit into the context after the prompt.
        limit: the maximum number of tokens of the turn.
        reserve: keeps an ending that fits into the limit; None: the turn is cut at the limit.
        parts: the rules beside the grammar; whoever makes the turn sets them.
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
        self.input = input
        self.request = request
        self.vocabulary = vocabulary
        self.matcher = None if request.turn.matcher is None else request.turn.matcher.fork()
        self.grammars = GrammarSpans(request.turn)
        self.room = find_room(request, context_length)
        self.limit = min(request.options.max_tokens, self.room)
        self.transcript = Transcript(request, vocabulary)
        self.reserve = start_reserve(request, self.transcript, limit=self.limit, room=self.room)
        self.sampler = make_sampler(request.options.sampling)
        self.parts = TurnParts()
        self.finish: Finish | None = None
        self.discarded = 0
        self.ended_at: int | None = None
        self.trace = None if request.options.trace is None else TokenTrace(vocabulary, clock)
        self._reported = 0  # the number of tokens that the progress events have reported
        self.recall()

    @property
    def tokens(self) -> list[int]:
        """The token ids of the turn."""
        return self.transcript.tokens

    @property
    def count(self) -> int:
        """The number of tokens of the turn."""
        return len(self.transcript.tokens)

    @property
    def end_tokens(self) -> Collection[int]:
        """The tokens that end the turn; they are not part of it."""
        return self.vocabulary.end if self.matcher is None else self.matcher.end_tokens

    @property
    def generated(self) -> int:
        """The number of generated tokens, including those that were thrown away."""
        return self.discarded + len(self.tokens)

    def take(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Commits tokens and writes them. If a part refuses them, the turn ends before them.

        Raises:
            GrammarError: the grammar or a part does not allow them here.
        """
        if not tokens:
            return True
        for admits in self.parts.admits:
            if not admits(tokens, self):
                self.run_out()
                return False
        if self.matcher is not None:
            for token in tokens:
                self.matcher.commit(token)
        return self.write(tokens, origin)

    def take_end(self, token: int, origin: TokenOrigin) -> None:
        """Takes an end token, which is not part of the turn."""
        if self.trace is not None:
            self.trace.write(token, origin.source, origin.observation, is_end=True)
        if self.transcript.is_healing:
            raise GrammarError("the turn deviates from the prefill")
        if self.matcher is not None:
            self.matcher.commit(token)
        self.stop()

    def write(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Writes tokens, and ends or changes the turn if the text asks for it."""
        for token in tokens:
            self.append(token, origin)
            if self.react() or self._is_over():
                return False
        return True

    def append(self, token: int, origin: TokenOrigin) -> None:
        """Adds a token to the turn, and sends the events that were read in its text."""
        # llama.cpp's sampler accepts by itself the tokens that it samples.
        if not origin.is_sampled and self.sampler is not None:
            self.sampler.accept(token)
        is_computed = self.input.append(token)
        if self.trace is not None:
            self.trace.write(token, origin.source, origin.observation, is_drafted=is_computed)
        events = self.transcript.write(token, origin)
        if origin.is_said:
            events = [event for event in events if not isinstance(event, ContentDelta)]
        if origin.is_new:
            self.send(events)
        else:
            self._reported = self.count
        is_forced = not origin.is_sampled
        for after_take in self.parts.after_take:
            after_take(token, self, is_forced=is_forced, is_computed=is_computed)

    def react(self) -> bool:
        """Lets the parts end or change the turn if its text asks for it; True if one did."""
        return any(react() for react in self.parts.react)

    def _is_over(self) -> bool:
        """Ends the turn if a text of the template ends it; returns True if one does."""
        if self.transcript.is_over and self.finish is None:  # else the tokens have run out
            self.stop()
        return self.transcript.is_over

    def stop(self) -> None:
        """Ends a turn that is complete, unless a part changes it."""
        self.close(is_whole=True)
        if not self.react():
            self.finish = Finish.STOP

    def run_out(self) -> None:
        """Ends a turn whose tokens run out: writes the ending that the completion reserve found
        last, if any."""
        limiter = self.transcript.limiter
        if limiter is not None and limiter.suspect:  # half of a call that it has often enough
            self.end_after_call(limiter.suspect - 1, ran_out=True)
            return
        self.finish = Finish.LENGTH
        if self.reserve is not None and self.reserve.ending is not None:
            self.ended_at = len(self.transcript.events)
            self.send([Exhausted()])
            self.write(self.reserve.ending, INSERTED)

    def end_after_call(self, index: int, *, ran_out: bool = False) -> None:
        """Ends the turn after a call. The KV cache is not changed, since nothing more of this turn
        is decoded.

        Args:
            ran_out: the tokens ran out in the next call.
        """
        head, rest = self.transcript.cut_after_call(index)
        self.cut_to(head)
        self.finish = Finish.STOP
        if ran_out or self.ended_at is not None:
            self.finish = Finish.LENGTH
            self.ended_at = min(self.ended_at or len(head.events), len(head.events))
        if self.reserve is None:
            return
        self.matcher = self.grammars.replay(head.tokens)
        ending = self.reserve.find_ending(replace(head.measure(self.matcher), rest=rest))
        if ending is not None and not isinstance(ending, TooLong):
            self.write(ending, INSERTED)

    def cancel(self) -> None:
        """Ends the turn where it is."""
        if self.finish is None:
            self.finish = Finish.CANCELLED

    def cut_to(self, head: Transcript) -> None:
        """Replaces the transcript by one of the first tokens."""
        self.discarded += self.count - len(head.tokens)
        self.transcript = head
        self._reported = min(self._reported, self.count)
        if self.trace is not None:
            self.trace.rewind(self.count)

    def recall(self) -> None:
        """Tells the sampler which tokens its penalties count: the prompt and the turn."""
        if self.sampler is not None and self.request.options.sampling.has_penalties:
            self.sampler.recall([*self.input.prompt, *self.tokens])

    def send(self, events: Sequence[StreamEvent]) -> None:
        """Sends events to the caller, with the progress of the turn if the request wants it."""
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
        reported, self._reported = self._reported, self.count
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


def start_reserve(
    request: Request, transcript: Transcript, *, limit: int, room: int
) -> CompletionReserve | None:
    """Makes the completion reserve of a turn; None: the turn is cut at its limit.

    Raises:
        TokenLimitError, ContextError: the shortest turn does not fit into the limit.
    """
    if request.turn.matcher is None or request.turn.make_reserve is None:
        return None
    reserve = request.turn.make_reserve(limit)
    shortest = reserve.start(transcript.measure(request.turn.matcher))
    if shortest is None or shortest <= limit:
        return reserve
    or_more = "" if reserve.ending else " or more"  # the length was not counted to the end
    if limit < room:
        message = f"the shortest turn that this request allows has {shortest} tokens{or_more}"
        hint = f"Raise it to {shortest} or more"
        message = f"{message}, max_tokens is {limit}"
        raise TokenLimitError(message, where="/max_tokens", hint=hint)
    prompt = len(request.turn.prompt)
    problem = (
        f"you requested {prompt + shortest} tokens{or_more} ({prompt} in the messages, "
        f"{shortest} in the shortest turn that this request allows)"
    )
    raise make_overflow(prompt + room, problem, prompt + shortest)


def make_generation(turn: RunningTurn) -> Generation:
    """Closes a turn that is over, and returns all of it."""
    assert turn.finish is not None
    turn.close(is_whole=turn.finish is Finish.STOP or turn.ended_at is not None)
    if turn.react():  # to what was read in the last characters
        turn.close(is_whole=True)
    turn.send_progress()  # the last tokens may have had no events
    transcript = turn.transcript
    return Generation(
        tokens=tuple(transcript.tokens),
        text=transcript.data.decode("utf-8", "replace"),
        events=tuple(transcript.events),
        finish=turn.finish,
        usage=_count_usage(turn),
        ended_at=turn.ended_at,
        stopped=transcript.stopped,
        is_ended_by_text=transcript.is_over,
        logprobs=tuple(transcript.logprobs),
        timings=turn.stopwatch.read(),
        trace=() if turn.trace is None else tuple(turn.trace.tokens),
        **_collect_reports(turn),
    )


def make_cancelled(request: Request) -> Generation:
    """Makes the result of a request that is cancelled before it has begun."""
    usage = Usage(len(request.turn.prompt), 0, 0)
    return Generation((), "", (), finish=Finish.CANCELLED, usage=usage)


def _count_usage(turn: RunningTurn) -> Usage:
    given = turn.request.turn.prefill.reasoning_tokens
    return Usage(
        prompt_tokens=len(turn.input.prompt),
        completion_tokens=turn.generated,
        forward_passes=turn.input.passes,
        reasoning_tokens=max(0, turn.transcript.reasoning_tokens - given),
        discarded_tokens=turn.discarded,
        cached_tokens=turn.input.cached,
        drafted_tokens=turn.input.drafted,
        accepted_tokens=turn.input.accepted,
    )


def _collect_reports(turn: RunningTurn) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for report in turn.parts.report:
        for field, values in report().items():
            fields[field] = (*fields.get(field, ()), *values)
    return fields
