"""The state of one turn under way, and what can be done to it."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from constrained.deadline import Clock, Stopwatch
from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
from constrained.decode.request import FailedTurn, Finish, Request
from constrained.decode.token_trace import TokenTrace
from constrained.decode.transcript import TokenOrigin, Transcript
from constrained.engine.protocol import Sampler, Sampling
from constrained.errors import SHORTEN, ContextError, RequestError, check_count
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.ir.completion import TooLong


class TurnInput(Protocol):
    """The tokens of a turn on their way to the model, and how far that has read them."""

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
        """The turn has a token more; true if the model has seen it already."""
        ...

    def rewind(self, tokens: Sequence[int]) -> bool:
        """Makes the model forget all but the prompt and these tokens; False if it cannot."""
        ...


@dataclass(frozen=True)
class _TakenToken:
    """A token that the turn has, and the model gets; its text is written later.

    Args:
        token: its id.
        origin: where it is from.
        is_computed: it was drafted, and the KV cache has it already.
    """

    token: int
    origin: TokenOrigin
    is_computed: bool


class TurnState:
    """One turn, on one sequence: its transcript, its matcher, the tokens that it may still have.

    It is the `TurnView` of the parts of the decoder.

    Args:
        input: takes the tokens on to the model.
        request: for this turn.
        vocabulary: that of the model.
        context_length: that of its sequences.
        make_sampler: makes what draws the tokens; None of it where another process draws them.
        clock: for the timings of the turn.

    Attributes:
        watch: times it; it is running.
        limit: the number of tokens that the turn may have.
        reserve: keeps an ending that fits into these; None: the turn is cut where they run out.
        finish: why the turn is over; None: it is not.
        discarded: the number of tokens that were written in vain, and thrown away.
        ended_at: the number of events before the tokens ran out and the ending was written.
        trace: what decided about each token; None: nobody asked.

    Raises:
        RequestError: no prompt, no tokens, a limit that the shortest turn does not fit into, or a
            bias for a token that there is not.
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
        self.watch = Stopwatch(clock)
        self.request = request
        self.vocabulary = vocabulary
        self.matcher = request.turn.matcher
        # The position to go back to is known only afterwards. No fork is kept for each token: one
        # of the start commits those that stay once more.
        self._start = None if self.matcher is None else self.matcher.fork()
        self._room = find_room(request, context_length)
        self.limit = min(request.options.max_tokens, self._room)
        self.transcript = Transcript(request, vocabulary)
        self.reserve = self._start_reserve()
        self.input = input
        self.sampler = make_sampler(request.options.sampling)
        self.finish: Finish | None = None
        self._unwritten = deque[_TakenToken]()
        self.discarded = 0
        self._told = 0  # tokens that the progress was told of
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
        or_more = "" if reserve.ending else " or more"  # it is so long that nobody counts
        message = f"the shortest turn that this request allows has {shortest} tokens{or_more}"
        if self.limit == request.options.max_tokens:
            hint = f"Raise it to {shortest} or more"
            message = f"{message}, max_tokens is {self.limit}"
            raise RequestError(message, where="/max_tokens", hint=hint)
        raise ContextError(f"{message}, the context has room for {self.limit}", hint=SHORTEN)

    @property
    def tokens(self) -> list[int]:
        """The tokens whose text is written."""
        return self.transcript.tokens

    @property
    def count(self) -> int:
        """The number of tokens that the turn has, those included whose text is not written yet."""
        return len(self.transcript.tokens) + len(self._unwritten)

    @property
    def has_unwritten(self) -> bool:
        """True if the turn has tokens whose text is not written yet."""
        return bool(self._unwritten)

    @property
    def all_tokens(self) -> list[int]:
        """The tokens of the turn, those included whose text is not written yet."""
        return [*self.transcript.tokens, *(taken.token for taken in self._unwritten)]

    @property
    def end_tokens(self) -> Collection[int]:
        """The tokens that end the turn, and are no part of it."""
        return self.vocabulary.end if self.matcher is None else self.matcher.end_tokens

    @property
    def generated(self) -> int:
        """The number of generated tokens, those thrown away included."""
        return self.discarded + len(self.tokens)

    def take(self, token: int, origin: TokenOrigin) -> bool:
        """The turn has a token more, whose text is to be written; true if the KV cache has it
        already."""
        # One that it has drawn, llama.cpp's sampler has accepted itself.
        if not origin.is_drawn and self.sampler is not None:
            self.sampler.accept(token)
        is_computed = self.input.append(token)
        self._unwritten.append(_TakenToken(token, origin, is_computed))
        return is_computed

    def write_next(self) -> int:
        """Writes the text of the next token that the turn has taken, and sends the events that it
        brings; returns the token."""
        taken = self._unwritten.popleft()
        origin = taken.origin
        self._trace(taken)
        events = self.transcript.write(taken.token, origin)
        if origin.is_new:
            self.send(events)
        else:
            self._told = len(self.tokens)
        return taken.token

    def _trace(self, taken: _TakenToken) -> None:
        if self.trace is not None:
            source, observation = taken.origin.source, taken.origin.observation
            self.trace.write(taken.token, source, observation, is_drafted=taken.is_computed)

    def note_failure(self) -> None:
        """Hands over what was traced of the turn, which fails and is not gone on with: of the
        tokens, too, whose text is not written."""
        if self.trace is None:
            return
        for taken in self._unwritten:
            self._trace(taken)
        events = tuple(self.transcript.events)
        self.request.note_failure(FailedTurn(tuple(self.trace.tokens), events))

    def drop_unwritten(self) -> None:
        """The turn does not have the tokens whose text is not written: it has ended, or gone back,
        in front of them."""
        self._unwritten.clear()

    def send(self, events: Sequence[StreamEvent]) -> None:
        """Hands events to whoever waits for them."""
        if events and self.request.options.progress:
            self.request.sink([self._measure_progress(), *events])
        elif events:
            self.request.sink(events)

    def send_progress(self) -> None:
        """Says how far the turn is, to whoever has asked for that."""
        if self.request.options.progress:
            self.request.sink([self._measure_progress()])

    def _measure_progress(self) -> ProgressMade:
        size = len(self.input.prompt)
        told, self._told = self._told, len(self.tokens)
        return ProgressMade(
            prompt_tokens=size,
            cached_tokens=self.input.cached,
            read_tokens=size - self.input.unread,
            completion_tokens=self.generated,
            timings=self.watch.read(),
            tokens=tuple(self.tokens[told:]),
            position=told,
        )

    def close(self, *, is_whole: bool) -> None:
        """Nothing more is written; sends the rest of the events. A second time does nothing."""
        self.send(self.transcript.close(is_whole=is_whole))

    def run_out(self) -> None:
        """The tokens have run out: from here on, the shortest completion is written."""
        self.ended_at = len(self.transcript.events)
        self.send([Exhausted()])

    def end_behind_call(self, index: int, *, ran_out: bool = False) -> Sequence[int]:
        """Cuts the turn behind a call, which ends it; returns the tokens of that ending.

        The KV cache keeps what it has: nothing of this turn is decoded any more.

        Args:
            index: of the call.
            ran_out: the tokens have run out in the call behind it.
        """
        head, rest = self.transcript.cut_behind_call(index)
        self.discarded += len(self.tokens) - len(head.tokens)
        self._cut_to(head)
        self.finish = Finish.STOP
        if ran_out or self.ended_at is not None:
            self.finish = Finish.LENGTH
            self.ended_at = min(self.ended_at or len(head.events), len(head.events))
        if self.reserve is None:
            return ()
        self.matcher = self._replay(head.tokens)
        ending = self.reserve.find_ending(replace(head.measure(self.matcher), rest=rest))
        if ending is None or isinstance(ending, TooLong):
            return ()
        return ending

    def _cut_to(self, head: Transcript) -> None:
        """The turn has only its first tokens now."""
        self.drop_unwritten()
        self.transcript = head
        self._told = min(self._told, len(head.tokens))
        if self.trace is not None:
            self.trace.rewind(len(head.tokens))

    def _replay(self, tokens: Sequence[int]) -> Matcher:
        """The matcher behind these first tokens of the turn."""
        assert self._start is not None, "the turn has a grammar"
        matcher = self._start.fork()
        for token in tokens:
            matcher.commit(token)
        return matcher

    def rewind(self, count: int) -> bool:
        """Cuts a turn that has a grammar to its first tokens.

        Args:
            count: the number of tokens that stay.

        Returns:
            False if too few tokens would be left for the turn, or the model keeps no past. Then
            nothing has changed.
        """
        head = self.transcript.cut(count)
        matcher = self._replay(head.tokens)
        discarded = self.discarded + len(self.tokens) - count
        limit = min(self.request.options.max_tokens - discarded, self._room)
        reserve, shortest = None, None
        if self.request.turn.make_reserve is not None:
            reserve = self.request.turn.make_reserve(limit)
            shortest = reserve.start(head.measure(matcher))
        if shortest is None:
            shortest = count + 1
        if shortest > limit or not self.input.rewind(head.tokens):
            return False
        self._cut_to(head)
        self.matcher = matcher
        self.reserve = reserve
        self.limit = limit
        self.discarded = discarded
        self._recall()
        return True

    def _recall(self) -> None:
        """Penalties count the tokens that are there, the prompt included, and no others."""
        if self.sampler is not None and self.request.options.sampling.has_penalties:
            self.sampler.recall([*self.input.prompt, *self.tokens])


def find_room(request: Request, context_length: int) -> int:
    """The number of tokens that fit into the context behind the prompt.

    Raises:
        RequestError: no prompt, or no tokens.
        ContextError: the prompt fills the context.
    """
    prompt, max_tokens = request.turn.prompt, request.options.max_tokens
    if not prompt or type(max_tokens) is not int or max_tokens < 1:
        raise RequestError("a turn needs a prompt and max_tokens of 1 or more", where="/max_tokens")
    check_count(len(prompt), context_length)
    return context_length - len(prompt)
