"""A turn whose tokens come from elsewhere: each one is replayed on the local matcher.

An engine may drop a grammar, cut a text, or send a token twice. So a token counts only after the
local grammar has accepted it, and an end only where the turn may end.
"""

from collections.abc import Sequence
from dataclasses import replace

from constrained.decode.request import Finish, Generation, RemoteNote, Request
from constrained.decode.transcript import INSERTED, SAMPLED, TokenOrigin
from constrained.decode.turn_part import TurnParts
from constrained.decode.turn_state import TurnState
from constrained.decode.turn_writer import TurnWriter
from constrained.engine.vocabulary.vocabulary import ends_inside
from constrained.errors import RemoteError
from constrained.limits.deadline import Clock
from constrained.mask.logprobs import ReportedScores
from constrained.remote.sampler import (
    EndReason,
    Sampled,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SampleStart,
    TokenSampler,
)
from grammars.turn_grammar.ir.completion import TooLong

SHOWN = 60  # characters of the text before an error
HINT = "Try again; if it happens again, compare versions of llguidance, and look at its log"


class RemoteInput:
    """The token input of a turn whose tokens another process samples.

    Attributes:
        prompt: token ids.
        cached: the number of prompt tokens that the engine reports as cached.
        unread: the number of prompt tokens that it has not read: all, until the first token comes.
    """

    def __init__(self, prompt: Sequence[int]):
        self.prompt = list(prompt)
        self.cached = 0
        self.unread = len(self.prompt)
        self.passes = 0
        self.drafted = 0
        self.accepted = 0

    def append(self, token: int) -> bool:
        """Takes another token of the turn, which the engine knows."""
        return True

    def rewind(self, tokens: Sequence[int]) -> bool:
        """Returns False: the engine cannot continue from another place."""
        return False


class RemoteTurn(TurnWriter):
    """One turn at a sampler.

    Args:
        sampler: samples its tokens.
        request: for this turn.
        clock: for its timings.

    Raises:
        ContextError, RequestError: see `TurnState`.
    """

    def __init__(self, sampler: TokenSampler, request: Request, *, clock: Clock):
        self.input = RemoteInput(request.turn.prompt)
        state = TurnState(
            self.input,
            request,
            vocabulary=sampler.vocabulary,
            context_length=sampler.limits.context_length,
            make_sampler=lambda sampling: None,
            clock=clock,
        )
        super().__init__(state)
        self._foreign = None  # the engine cannot go back, and its grammar begins with the turn
        self._sampler = sampler
        self._received = 0  # tokens of the current stream, with an end token
        self._room = state.limit  # the maximum number of its tokens
        self._is_ended = False  # by an end token
        self._has_closed = False  # the reasoning was ended because of its budget
        if request.turn.make_endless_values is not None and state.reserve is not None:
            self._endless = request.turn.make_endless_values()
        self._parts = TurnParts(self._list_parts())
        state.send_progress()

    @property
    def needs_closing(self) -> bool:
        """True if the reasoning budget is spent: the engine then continues with a grammar that
        closes the block."""
        budget, state = self._request.turn.budget, self._state
        if budget is None or self._has_closed or self.finish is not None:
            return False
        # A character is completed first, which takes at most three more tokens.
        return budget.is_spent(state) and not ends_inside(bytes(state.transcript.data[-4:]))

    def close_reasoning(self) -> None:
        """Ends the current stream; the next one continues after the reasoning so far and the
        sentence that ends it."""
        self._has_closed = True
        budget, matcher = self._request.turn.budget, self._state.matcher
        assert budget is not None
        if matcher is not None and matcher.count_accepted(budget.sentence) == len(budget.sentence):
            self._take(budget.sentence, INSERTED)

    def ask(self, request: SampleRequest) -> SampleRequest:
        """Returns the request for the rest of this turn."""
        tokens = self._state.tokens
        self._received = 0
        self._room = self._state.limit - len(tokens)
        return replace(request, prompt=[*request.prompt, *tokens], max_tokens=self._room)

    def take(self, sampled: Sampled) -> None:
        """Takes a token, or the end.

        Raises:
            RemoteError: the grammar does not allow it here.
        """
        match sampled:
            case SampleStart():
                self._note_cached(sampled.cached)
            case SampledToken():
                self._take_token(sampled)
            case SampleEnd():
                self._end(sampled)

    def _take_token(self, sampled: SampledToken) -> None:
        state, token = self._state, sampled.token
        state.stopwatch.note_read()
        self.input.unread = 0
        if not 0 <= token < len(state.vocabulary.tokens):
            raise self._fail(f"there is no token {token}")
        if self._is_ended:
            raise self._fail(f"token {token} after the end")
        self._received += 1
        self.input.passes += 1
        if token in self._ends:
            if not self._may_end():
                raise self._fail("the end comes too early")
            self._is_ended = True
        elif self._received > self._room and state.matcher is None:
            state.finish = Finish.LENGTH  # invalid UTF-8 may have been split into more tokens
        elif self._received > self._room:
            raise self._fail(f"there are more than the {self._room} requested tokens")
        elif self._take([token], self._describe(sampled)):
            self._end_endless_value()

    def _end_endless_value(self) -> None:
        """Ends the turn if a value repeats itself for too long. The engine cannot continue after
        the value, since its grammar begins with the turn."""
        state, endless = self._state, self._endless
        if endless is None or state.matcher is None or not endless.is_to_be_left(state):
            return
        assert state.reserve is not None
        ending = state.reserve.find_ending(state.transcript.measure(state.matcher))
        if ending is None or isinstance(ending, TooLong):
            endless.stay()
            return
        endless.leave()
        state.reserve.ending = ending
        self._complete()

    def _describe(self, sampled: SampledToken) -> TokenOrigin:
        if self._request.options.logprobs is None or sampled.logprob is None:
            return SAMPLED
        size = len(self._state.vocabulary.tokens)
        likely = [token for token in sampled.top if 0 <= token < size]
        known = {**sampled.top, sampled.token: sampled.logprob}
        return replace(SAMPLED, scores=ReportedScores(known, likely))

    def _commit(self, tokens: Sequence[int]) -> None:
        state = self._state
        for before_commit in self._parts.before_commit:
            before_commit(tokens, state)
        if state.matcher is not None and not state.matcher.try_commit(tokens):
            named = ", ".join(repr(state.vocabulary.text([token])) for token in tokens)
            raise self._fail(f"the grammar does not allow token {tokens[0]} ({named})")

    def _may_end(self) -> bool:
        return self._state.matcher is None or self._state.matcher.is_complete

    def _end(self, end: SampleEnd) -> None:
        state = self._state
        if end.count is not None and end.count != self._received:
            raise self._fail(f"{end.count} tokens were sent, {self._received} arrived")
        if end.cached is not None:
            self._note_cached(end.cached)
        match end.reason:
            case EndReason.STOP:
                if not self._may_end():
                    raise self._fail("the end comes too early")
                self._stop()
            case EndReason.LENGTH if self._is_ended:
                self._stop()
            case EndReason.LENGTH:
                sampled = self._received if end.sampled is None else end.sampled
                if sampled < self._room:
                    raise self._fail(f"it ends after {sampled} of the {self._room} tokens")
                state.finish = Finish.LENGTH

    def _note_cached(self, cached: int) -> None:
        if not self._has_closed:  # the next stream finds what this one has computed in the cache
            self.input.cached = min(cached, len(self.input.prompt))

    def fail_cut(self) -> RemoteError:
        """Makes the error of a stream that stops before its end."""
        return self._fail("the stream is cut off")

    def _fail(self, problem: str) -> RemoteError:
        state = self._state
        data = state.transcript.data
        before = data.decode("utf-8", "replace")[-SHOWN:]
        count = len(state.tokens)
        place = f"at token {count}, byte {len(data)}"
        if before:
            place = f"{place}, behind {before!r}"
        return RemoteError(
            f"{self._sampler.name} sent something unexpected: {problem}, {place}",
            hint=HINT,
            token=count,
            offset=len(data),
            before=before,
        )

    def result(self) -> Generation:
        """Returns the finished turn."""
        lacks = tuple(map(str, self._sampler.limits.lacks))
        return replace(super().result(), remote=RemoteNote(self._sampler.name, lacks))
