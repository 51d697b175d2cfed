"""Decodes one turn, token by token: mask, sample, commit, write, follow.

The loop is `advance`. Rules besides the grammar are parts with one interface (`turn_part`): token
healing, the reasoning budget, retries, the end of endless values, the completion reserve and
speculation.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from constrained.decode.drafts.decode_costs import DraftCosts
from constrained.decode.drafts.speculation import Speculation
from constrained.decode.kv.sequences import PrefixMatch, Sequences
from constrained.decode.request import Finish, Request
from constrained.decode.sequence_input import SequenceInput
from constrained.decode.token_healing import TokenHealing
from constrained.decode.token_trace import Position
from constrained.decode.transcript import (
    FORCED,
    INSERTED,
    ONLY,
    SAMPLED,
    WRITTEN,
    TokenOrigin,
)
from constrained.decode.turn_part import TurnPart, TurnParts
from constrained.decode.turn_state import TurnState
from constrained.decode.turn_writer import TurnWriter
from constrained.engine.protocol import Chunk
from constrained.engine.vocabulary.call_openings import CallOpenings
from constrained.errors import GrammarError
from constrained.limits.deadline import Clock
from constrained.mask.logprobs import Scores, find_unavoidable


class DecodedRows(NamedTuple):
    """The logits of one turn in the last decode.

    Args:
        first: the index of the first row among all rows of the decode.
        logits: one row after the last certain token, and one after each drafted token.
    """

    first: int
    logits: np.ndarray


class TurnDecoder(TurnWriter):
    """Decodes one turn on one sequence of the KV cache.

    The scheduler gets the next chunk (`next_chunk`), decodes it together with those of other turns
    (`note_decoded`), and passes the logits on (`advance`), until the turn has a `finish`.

    Args:
        sequences: of the engine.
        match: the sequence, and how many tokens of the prompt it already has.
        request: the request for this turn.
        clock: in seconds; for the timings of the turn.

    Raises:
        ContextError, RequestError: see `TurnState`.
    """

    def __init__(
        self,
        sequences: Sequences,
        match: PrefixMatch,
        request: Request,
        *,
        clock: Clock,
    ):
        engine = sequences.engine
        self.input = SequenceInput(sequences, match, request.turn.prompt)
        state = TurnState(
            self.input,
            request,
            vocabulary=engine.vocabulary,
            context_length=engine.context_length,
            make_sampler=engine.sampler,
            clock=clock,
        )
        super().__init__(state)
        # The grammar has precedence over a ban. The sampler does not know these bans.
        self._ignored_ends = list(self._ends) if request.options.ignore_eos else []
        self._banned = [*request.options.sampling.banned, *self._ignored_ends]
        if request.turn.prefill.rest or request.turn.prefill.marker_suffixes:
            self._healing = TokenHealing(request.turn.prefill, state.vocabulary)
        if request.turn.make_endless_values is not None and request.turn.matcher is not None:
            self._endless = request.turn.make_endless_values()
        self._openings = None
        if request.options.trace is not None and request.turn.openings:
            self._openings = CallOpenings(request.turn.openings, state.vocabulary)
        self._speculation = None
        if request.options.draft and request.options.logprobs is None:
            self._speculation = Speculation(state.input.prompt, state.vocabulary)
        self._parts = TurnParts(self._list_parts())
        options = request.options
        self._is_observed = options.logprobs is not None or options.trace is not None
        self._is_greedy = options.sampling.is_argmax and not self._banned
        is_under_way = self._take_written()
        state.send_progress()  # after `_take_written`, so its tokens do not count as discarded
        if is_under_way:
            self._follow()

    def _list_parts(self) -> list[TurnPart]:
        """Returns the parts of this turn, in the order in which their hooks are called."""
        state = self._state
        parts = (
            self._healing,
            state.turn.budget,
            self._retry,
            self._endless,
            state.reserve,
            self._speculation,
        )
        return [part for part in parts if part is not None]

    def next_chunk(self, max_tokens: int, draft: Sequence[int] = ()) -> Chunk:
        """Returns the next tokens for the model, `max_tokens` at most, followed by as much of the
        draft as fits."""
        room = max(0, max_tokens - self.input.pending)
        return self.input.next_chunk(max_tokens, draft[:room])

    @property
    def drafts(self) -> bool:
        """True if the turn may have drafts at all."""
        return self._speculation is not None

    def propose_draft(self, max_tokens: int, costs: DraftCosts) -> Sequence[int]:
        """Returns tokens that are likely to come next; none if a draft does not pay, or the model
        cannot forget drafted tokens.

        Args:
            max_tokens: the maximum number of tokens of the draft.
            costs: of verifying it.
        """
        state = self._state
        # One more token is sampled after the draft.
        max_tokens = min(max_tokens, state.limit - state.count - 1)
        if self._speculation is None or max_tokens < 1:
            return ()
        if state.transcript.is_healing or not self.input.can_draft:
            return ()
        return self._speculation.propose(state.matcher, max_tokens, costs)

    def note_decoded(self, chunk: Chunk) -> None:
        """Notes that the model has decoded a chunk of this turn."""
        was_reading = self.input.is_reading
        drafted = self.input.note_decoded(chunk)
        if was_reading:
            self._state.send_progress()
        if self._speculation is not None:
            self._speculation.begin(drafted)

    def prepare(self) -> None:
        """Computes the mask of the next token, and whatever else does not need its logits. Another
        thread may call this during the decode. If the text may end the turn, nothing is computed.

        Raises:
            GrammarError: the matcher failed, or a part finds no way to continue.
        """
        state = self._state
        if self._has_verdict:
            return
        if state.matcher is not None and state.matcher.find_only() is not None:
            return  # if only one token is allowed, no part steers
        for prepare in self._parts.prepare:
            prepare(state)

    @property
    def has_verdict(self) -> bool:
        """True if the text may end or change the turn; `settle` has to be called then."""
        return self._has_verdict

    def settle(self) -> None:
        """Writes the deferred text, and ends or changes the turn if the text asks for it. Then the
        last decode has to be discarded (`forget_decode`)."""
        self._settle()

    def forget_decode(self) -> None:
        """Discards the last decode: the KV cache forgets its tokens of this turn."""
        self.input.forget_ahead(self._state.all_tokens)

    def advance(self, rows: DecodedRows, *, defers: bool = False) -> None:
        """Takes the next token and the tokens that it forces, again after each accepted drafted
        token: the loop of a turn.

        Args:
            rows: the logits of the last decode.
            defers: text is written later, by `write_text` or `settle`, unless something depends on
                it before the next decode.

        Raises:
            GrammarError: the matcher failed, or the parts forbid all tokens.
        """
        self._state.stopwatch.note_read()
        is_plain = len(rows.logits) == 1 and self._state.transcript.fault is None
        self._defers = defers and is_plain
        try:
            while self._state.finish is None and not self.input.pending:
                self._take_next(rows, self.input.row)
        except GrammarError:
            # The deferred text may end the turn before the tokens that failed.
            if self._settle():
                raise
        if self._speculation is not None:
            self._speculation.charge()
        if len(rows.logits) > 1:
            self.input.forget_ahead(self._state.tokens)

    def _take_next(self, rows: DecodedRows, row: int) -> None:
        """Masks the logits, samples a token, commits and writes it, and follows what it forces."""
        if not self._is_observed and self._take_obvious(rows, row):
            return
        logits = rows.logits[row]
        scores = None
        if self._request.options.logprobs is not None:
            scores = Scores(logits)  # before the mask changes the logits
        position = None
        if self._request.options.trace is not None:
            position = Position(logits)  # before the mask, too
        token = self._restrict(logits, position)
        observation = None
        if position is not None:
            count = self._request.options.trace or 0
            vocabulary = self._state.vocabulary
            observation = position.observe(logits, vocabulary, count, self._find_openings())
        origin = ONLY
        if token is None:
            assert self._state.sampler is not None
            token = self._state.sampler.sample(rows.first + row)
            origin = SAMPLED
        if scores is not None or observation is not None:
            origin = replace(origin, scores=scores, observation=observation)
        self._take_sampled(token, origin)

    def _take_obvious(self, rows: DecodedRows, row: int) -> bool:
        """Takes the next token if its logits can stay as they are: the only token that the grammar
        allows, or, if the turn is greedy, the most likely one. False: there is no such token."""
        state = self._state
        only = None if state.matcher is None else state.matcher.find_only()
        if only is not None:  # parts are not asked about an only token
            self._take_sampled(only, ONLY)
            return True
        if not self._is_greedy:
            return False
        for forbids in self._parts.forbids:
            if forbids(state):
                return False
        best = self._find_best(rows.logits[row])
        if best is None:
            return False
        assert state.sampler is not None
        state.sampler.accept(best)
        self._take_sampled(best, SAMPLED)
        return True

    def _find_best(self, logits: np.ndarray) -> int | None:
        """Returns the most likely token; None if the mask forbids it."""
        best = int(logits.argmax())  # of a row with NaN, the first one
        if not logits[best] > -np.inf:  # true for NaN, too, which the sampler reports
            return None
        matcher = self._state.matcher
        return best if matcher is None or matcher.allows(best) else None

    def _take_sampled(self, token: int, origin: TokenOrigin) -> None:
        if token in self._ends:
            self._take_end(token, origin)
        elif self._take([token], origin):
            self._follow()

    def _find_openings(self) -> np.ndarray | None:
        """Returns the tokens that begin or continue the opening of a call; None: no call can
        begin here."""
        transcript = self._state.transcript
        if self._openings is None or transcript.is_reasoning or transcript.is_in_call:
            return None
        return self._openings.find(transcript.find_after_text())

    def _restrict(self, logits: np.ndarray, position: Position | None) -> int | None:
        """Forbids tokens, in place: the mask, then the parts, then bans. Returns the only choice,
        if there is only one, despite bans."""
        if self._state.matcher is not None:
            only = self._state.matcher.apply(logits)
            if only is not None:  # parts are not asked about an only token
                return only
        if position is not None:
            position.note_steering("", logits)
        for part in self._parts.steering:
            part.steer(logits, self._state)
            if position is not None:
                position.note_steering(part.name, logits)
        unavoidable = find_unavoidable(logits, self._banned)
        if unavoidable is None:
            logits[self._ignored_ends] = -np.inf
        return unavoidable

    def _take_written(self) -> bool:
        """Takes the tokens that an earlier process has generated; False if they end the turn.

        Raises:
            GrammarError: the grammar does not take them.
        """
        return all(self._take([token], WRITTEN) for token in self._request.options.written)

    def _follow(self) -> None:
        """Takes the tokens that need no logits. Ends the turn if it is complete, or has reached
        its limit of tokens."""
        state = self._state
        if not self._settle_for_parts(0):
            return
        for insert in self._parts.insert:
            inserted = insert(state)
            if inserted and not self._take(inserted, INSERTED):
                return
        forced = self._find_forced()
        if forced and not self._take(forced, FORCED):
            return
        if state.matcher is not None and state.matcher.is_finished:
            if self._settle():
                self._stop()
        elif state.count >= state.limit and self._settle():
            state.finish = Finish.LENGTH

    def _find_forced(self) -> Sequence[int]:
        """Returns the tokens that the grammar forces (fast-forward tokens)."""
        state, options = self._state, self._request.options
        if state.matcher is None or not options.force or options.logprobs is not None:
            return ()
        tokens = state.matcher.forced()
        # A reserve replaces tokens beyond the limit by its ending. Without one, they are cut.
        if state.reserve is None:
            tokens = tokens[: max(0, state.limit - state.count)]
        return tokens
