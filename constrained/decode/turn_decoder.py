"""Decodes one turn, token by token: mask, steer, sample, take, follow. The loop is `advance`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from constrained.decode.drafts.decode_costs import DraftCosts
from constrained.decode.drafts.prompt_lookup import PromptLookup
from constrained.decode.kv.sequence_input import SequenceInput
from constrained.decode.kv.sequences import PrefixMatch, Sequences
from constrained.decode.parts.table import make_parts
from constrained.decode.request import Finish, Request
from constrained.decode.token_trace import Observation
from constrained.decode.transcript import (
    FORCED,
    INSERTED,
    ONLY,
    SAMPLED,
    WRITTEN,
    TokenOrigin,
)
from constrained.decode.turn import RunningTurn
from constrained.engine.protocol import Chunk
from constrained.engine.vocabulary.call_openings import CallOpenings
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


class TurnDecoder:
    """Decodes one turn on one sequence of the KV cache.

    The schedule gets the next chunk of `input`, decodes it together with those of other turns
    (`note_decoded`), and passes the logits on (`advance`), until the turn has a `finish`.
    """

    def __init__(self, sequences: Sequences, match: PrefixMatch, request: Request, *, clock: Clock):
        engine = sequences.engine
        self.input = SequenceInput(sequences, match, request.turn.prompt)
        self.turn = RunningTurn(
            self.input,
            request,
            vocabulary=engine.vocabulary,
            context_length=engine.context_length,
            make_sampler=engine.sampler,
            clock=clock,
        )
        self.turn.parts = make_parts(self.turn)
        options = request.options
        self._options = options
        self._ends = self.turn.end_tokens
        # The grammar has precedence over a ban. The sampler does not know these bans.
        self._ignored_ends = list(self._ends) if options.ignore_eos else []
        self._banned = [*options.sampling.banned, *self._ignored_ends]
        self._openings = None
        if options.trace is not None and request.turn.openings:
            self._openings = CallOpenings(request.turn.openings, engine.vocabulary)
        self._speculation = self.turn.parts.find(PromptLookup)
        self._is_observed = options.logprobs is not None or options.trace is not None
        self._is_greedy = options.sampling.is_argmax and not self._banned
        is_under_way = self._take_written()
        self.turn.send_progress()  # after `_take_written`, so its tokens do not count as discarded
        if is_under_way:
            self._follow()

    @property
    def drafts(self) -> bool:
        """True if the turn may have drafts at all."""
        return self._speculation is not None

    def propose_draft(self, max_tokens: int, costs: DraftCosts) -> Sequence[int]:
        """Returns tokens that are likely to come next; none if a draft does not pay, or the model
        cannot forget drafted tokens."""
        turn = self.turn
        # One more token is sampled after the draft.
        max_tokens = min(max_tokens, turn.limit - turn.count - 1)
        if self._speculation is None or max_tokens < 1:
            return ()
        if turn.transcript.is_healing or not self.input.can_draft:
            return ()
        return self._speculation.propose(turn.matcher, max_tokens, costs)

    def note_decoded(self, chunk: Chunk) -> None:
        """Notes that the model has decoded a chunk of this turn."""
        was_reading = self.input.is_reading
        drafted = self.input.note_decoded(chunk)
        if was_reading and not self.input.is_reading:
            self.turn.stopwatch.note_read()
        if was_reading:
            self.turn.send_progress()
        if self._speculation is not None:
            self._speculation.begin(drafted)

    def advance(self, rows: DecodedRows) -> None:
        """Takes the next token and the tokens that it forces, again after each accepted drafted
        token: the loop of a turn.

        Raises:
            GrammarError: the matcher failed, or the parts forbid all tokens.
        """
        while self.turn.finish is None and not self.input.pending:
            token, origin = self._choose(rows)
            if token in self._ends:
                self.turn.take_end(token, origin)
            elif self.turn.take([token], origin):
                self._follow()
        if self._speculation is not None:
            self._speculation.charge()
        if len(rows.logits) > 1:
            self.input.forget_draft(self.turn.tokens)

    def close(self) -> None:
        """Frees the sampler."""
        if self.turn.sampler is not None:
            self.turn.sampler.close()

    def _choose(self, rows: DecodedRows) -> tuple[int, TokenOrigin]:
        """Masks the logits of the next token and samples one; returns where it comes from, too."""
        row, options = self.input.row, self._options
        logits = rows.logits[row]
        if not self._is_observed:
            best = self._find_best(logits)
            if best is not None:
                return best
        # With log probabilities or a trace, the model is evaluated at each token, and its logits
        # are noted before the mask changes them.
        scores = None if options.logprobs is None else Scores(logits)
        seen = None if options.trace is None else Observation(logits)
        only = self._restrict(logits, seen)
        if seen is not None:
            count = options.trace or 0
            seen.note_allowed(logits, self.turn.vocabulary, count, self._find_openings())
        token, origin = only, ONLY
        if token is None:
            assert self.turn.sampler is not None
            token, origin = self.turn.sampler.sample(rows.first + row), SAMPLED
        if self._is_observed:
            origin = replace(origin, scores=scores, observation=seen)
        return token, origin

    def _find_best(self, logits: np.ndarray) -> tuple[int, TokenOrigin] | None:
        """Returns the next token if the logits can stay as they are: the only token that the
        grammar allows, or, if the turn is greedy, the most likely one. None: there is no such
        token."""
        turn = self.turn
        only = None if turn.matcher is None else turn.matcher.find_only()
        if only is not None:  # parts are not asked about an only token
            return only, ONLY
        if not self._is_greedy:
            return None
        for part in turn.parts.steering:
            if part.forbids(turn):
                return None
        best = int(logits.argmax())  # of a row with NaN, the first one
        if not logits[best] > -np.inf:  # true for NaN, too, which the sampler reports
            return None
        if turn.matcher is not None and not turn.matcher.allows(best):
            return None
        assert turn.sampler is not None
        turn.sampler.accept(best)
        return best, SAMPLED

    def _restrict(self, logits: np.ndarray, seen: Observation | None) -> int | None:
        """Forbids tokens, in place: the mask, then the parts, then bans. Returns the only choice,
        if there is only one, despite bans."""
        turn = self.turn
        if turn.matcher is not None:
            only = turn.matcher.apply(logits)
            if only is not None:  # parts are not asked about an only token
                return only
        if seen is not None:
            seen.note_steering("", logits)
        for part in turn.parts.steering:
            if part.forbids(turn):
                part.steer(logits, turn)
            if seen is not None:
                seen.note_steering(part.name, logits)
        unavoidable = find_unavoidable(logits, self._banned)
        if unavoidable is None:
            logits[self._ignored_ends] = -np.inf
        return unavoidable

    def _find_openings(self) -> np.ndarray | None:
        """Returns the tokens that begin or continue the opening of a call; None: no call can
        begin here."""
        transcript = self.turn.transcript
        if self._openings is None or transcript.is_reasoning or transcript.is_in_call:
            return None
        return self._openings.find(transcript.find_after_text())

    def _take_written(self) -> bool:
        return all(self.turn.take([token], WRITTEN) for token in self._options.written)

    def _follow(self) -> None:
        """Takes the tokens that need no logits. Ends the turn if it is complete, or has reached
        its limit of tokens."""
        turn = self.turn
        for insert in turn.parts.insert:
            inserted = insert(turn)
            if inserted and not turn.take(inserted, INSERTED):
                return
        forced = self._find_forced()
        if forced and not turn.take(forced, FORCED):
            return
        if turn.matcher is not None and turn.matcher.is_finished:
            turn.stop()
        elif turn.count >= turn.limit:
            turn.finish = Finish.LENGTH

    def _find_forced(self) -> Sequence[int]:
        turn = self.turn
        if turn.matcher is None or not self._options.force or self._options.logprobs is not None:
            return ()
        tokens = turn.matcher.forced()
        # A reserve replaces tokens beyond the limit by its ending. Without one, they are cut.
        if turn.reserve is None:
            tokens = tokens[: max(0, turn.limit - turn.count)]
        return tokens
