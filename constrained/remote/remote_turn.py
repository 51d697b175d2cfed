"""A turn whose tokens come from elsewhere: each one is replayed on the local matcher.

An engine may drop a grammar, cut a text, or send a token twice. So a token counts only after the
local grammar has accepted it, and an end only where the turn may end.
"""

from collections.abc import Sequence
from dataclasses import replace

from constrained.decode.endless.values import EndlessValues
from constrained.decode.parts.table import make_parts
from constrained.decode.request import Finish, Generation, RemoteNote, Request
from constrained.decode.transcript import INSERTED, SAMPLED, TokenOrigin
from constrained.decode.turn import RunningTurn, make_generation
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


class RemoteTurn:
    """One turn at a sampler."""

    def __init__(self, sampler: TokenSampler, request: Request, *, clock: Clock):
        self.input = RemoteInput(request.turn.prompt)
        self._turn = RunningTurn(
            self.input,
            request,
            vocabulary=sampler.vocabulary,
            context_length=sampler.limits.context_length,
            make_sampler=lambda sampling: None,
            clock=clock,
        )
        self._turn.parts = make_parts(self._turn)
        self._request = request
        self._endless = self._turn.parts.find(EndlessValues)
        self._sampler = sampler
        self._received = 0  # tokens of the current stream, with an end token
        self._room = self._turn.limit  # the maximum number of its tokens
        self._is_ended = False  # by an end token
        self._has_closed = False  # the reasoning was ended because of its budget
        self._turn.send_progress()

    @property
    def finish(self) -> Finish | None:
        """Why the turn is over; None: it is not over."""
        return self._turn.finish

    @property
    def generated(self) -> int:
        """The number of generated tokens."""
        return self._turn.generated

    def cancel(self) -> None:
        """Ends the turn where it is."""
        self._turn.cancel()

    @property
    def needs_closing(self) -> bool:
        """True if the reasoning budget is spent: the engine then continues with a grammar that
        closes the block."""
        budget, turn = self._request.turn.budget, self._turn
        if budget is None or self._has_closed or self.finish is not None:
            return False
        # A character is completed first, which takes at most three more tokens.
        return budget.is_spent(turn) and not ends_inside(bytes(turn.transcript.data[-4:]))

    def close_reasoning(self) -> None:
        """Ends the current stream; the next one continues after the reasoning so far and the
        sentence that ends it."""
        self._has_closed = True
        budget, matcher = self._request.turn.budget, self._turn.matcher
        assert budget is not None
        if matcher is not None and matcher.count_accepted(budget.sentence) == len(budget.sentence):
            self._turn.take(budget.sentence, INSERTED)

    def ask(self, request: SampleRequest) -> SampleRequest:
        """Returns the request for the rest of this turn."""
        tokens = self._turn.tokens
        self._received = 0
        self._room = self._turn.limit - len(tokens)
        return replace(request, prompt=[*request.prompt, *tokens], max_tokens=self._room)

    def take(self, sampled: Sampled) -> None:
        """Takes a token, or the end."""
        match sampled:
            case SampleStart():
                self._note_cached(sampled.cached)
            case SampledToken():
                self._take_token(sampled)
            case SampleEnd():
                self._end(sampled)

    def _take_token(self, sampled: SampledToken) -> None:
        turn, token = self._turn, sampled.token
        turn.stopwatch.note_read()
        self.input.unread = 0
        if not 0 <= token < len(turn.vocabulary.tokens):
            raise self._fail(f"there is no token {token}")
        if self._is_ended:
            raise self._fail(f"token {token} after the end")
        self._received += 1
        self.input.passes += 1
        if token in turn.end_tokens:
            if not self._may_end():
                raise self._fail("the end comes too early")
            self._is_ended = True
        elif self._received > self._room and turn.matcher is None:
            turn.finish = Finish.LENGTH  # invalid UTF-8 may have been split into more tokens
        elif self._received > self._room:
            raise self._fail(f"there are more than the {self._room} requested tokens")
        elif turn.matcher is not None and not turn.matcher.count_accepted([token]):
            named = repr(turn.vocabulary.text([token]))
            raise self._fail(f"the grammar does not allow token {token} ({named})")
        elif turn.take([token], self._describe(sampled)):
            self._end_endless_value()

    def _end_endless_value(self) -> None:
        """Ends the turn if a value repeats itself for too long. The engine cannot continue after
        the value, since its grammar begins with the turn."""
        turn, endless = self._turn, self._endless
        if endless is None or turn.matcher is None or turn.reserve is None:
            return
        if not endless.forbids(turn):
            return
        ending = turn.reserve.find_ending(turn.transcript.measure(turn.matcher))
        if ending is None or isinstance(ending, TooLong):
            endless.stay()
            return
        endless.leave()
        turn.reserve.ending = ending
        turn.run_out()

    def _describe(self, sampled: SampledToken) -> TokenOrigin:
        if self._request.options.logprobs is None or sampled.logprob is None:
            return SAMPLED
        size = len(self._turn.vocabulary.tokens)
        likely = [token for token in sampled.top if 0 <= token < size]
        known = {**sampled.top, sampled.token: sampled.logprob}
        return replace(SAMPLED, scores=ReportedScores(known, likely))

    def _may_end(self) -> bool:
        return self._turn.matcher is None or self._turn.matcher.is_complete

    def _end(self, end: SampleEnd) -> None:
        if end.count is not None and end.count != self._received:
            raise self._fail(f"{end.count} tokens were sent, {self._received} arrived")
        if end.cached is not None:
            self._note_cached(end.cached)
        match end.reason:
            case EndReason.STOP:
                if not self._may_end():
                    raise self._fail("the end comes too early")
                self._turn.stop()
            case EndReason.LENGTH if self._is_ended:
                self._turn.stop()
            case EndReason.LENGTH:
                sampled = self._received if end.sampled is None else end.sampled
                if sampled < self._room:
                    raise self._fail(f"it ends after {sampled} of the {self._room} tokens")
                self._turn.finish = Finish.LENGTH

    def _note_cached(self, cached: int) -> None:
        if not self._has_closed:  # the next stream finds what this one has computed in the cache
            self.input.cached = min(cached, len(self.input.prompt))

    def fail_cut(self) -> RemoteError:
        """Makes the error of a stream that stops before its end."""
        return self._fail("the stream is cut off")

    def _fail(self, problem: str) -> RemoteError:
        data = self._turn.transcript.data
        before = data.decode("utf-8", "replace")[-SHOWN:]
        count = self._turn.count
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
        return replace(make_generation(self._turn), remote=RemoteNote(self._sampler.name, lacks))
