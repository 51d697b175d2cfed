"""One turn, token by token: mask, sample, commit, write, follow.

The loop is `advance`. Rules beside the grammar are parts with one interface (`turn_part`): token
healing, the reasoning budget, retries, the end of endless values, the completion reserve and
speculation.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from constrained.deadline import Clock
from constrained.decode.drafts.draft_model import DraftModel, ModelDrafter
from constrained.decode.drafts.speculation import Speculation
from constrained.decode.request import Finish, Request
from constrained.decode.sequence_input import SequenceInput
from constrained.decode.token_healing import TokenHealing
from constrained.decode.token_trace import Position
from constrained.decode.transcript import (
    DRAWN,
    FORCED,
    INSERTED,
    ONLY,
    WRITTEN,
    TokenOrigin,
)
from constrained.decode.turn_part import TurnPart
from constrained.decode.turn_state import TurnState
from constrained.decode.turn_writer import TurnWriter
from constrained.engine.protocol import Chunk
from constrained.errors import GrammarError
from constrained.kv.sequences import PrefixMatch, Sequences
from constrained.logits import Scores, find_unavoidable
from constrained.vocabulary.call_openings import CallOpenings


@dataclass(frozen=True)
class DecodedRows:
    """The logits of one turn in the last decode.

    Args:
        first: the number of the first row among all of that decode.
        logits: after the last token that is certain, and after each drafted one.
        find_likeliest: takes the number of a row; returns the most likely token behind it, of NaN
            the first one. What was changed in the row meanwhile may count or not.
    """

    first: int
    logits: np.ndarray
    find_likeliest: Callable[[int], int]


class TurnDecoder(TurnWriter):
    """One turn under way, on one sequence.

    The scheduler asks for the next chunk (`next_chunk`), decodes it with those of other turns
    (`note_decoded`), and hands over the logits (`advance`), until there is a `finish`.

    Args:
        sequences: of the engine.
        match: the sequence, and how many tokens of the prompt it has already.
        request: for this turn.
        draft_model: drafts for all turns; None: there is none.
        clock: for the timings of the turn.

    Raises:
        ContextError, RequestError: see `TurnState`.
    """

    def __init__(
        self,
        sequences: Sequences,
        match: PrefixMatch,
        request: Request,
        *,
        draft_model: DraftModel | None = None,
        clock: Clock = time.monotonic,
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
        # A grammar goes before a ban. These bans are not known to the sampler, unlike biases.
        self._ignored_ends = list(self._ends) if request.options.ignore_eos else []
        self._banned = [*request.options.sampling.banned, *self._ignored_ends]
        if request.turn.prefix.rest or request.turn.prefix.marker_suffixes:
            self._healing = TokenHealing(request.turn.prefix, state.vocabulary)
        if request.turn.make_endless_values is not None and request.turn.matcher is not None:
            self._endless = request.turn.make_endless_values()
        self._openings = None
        if request.options.trace is not None and request.turn.openings:
            self._openings = CallOpenings(request.turn.openings, state.vocabulary)
        self._speculation = None
        if request.options.draft and request.options.logprobs is None:
            drafter = None
            if draft_model is not None:
                drafter = ModelDrafter(draft_model, match.sequence, self._ends)
            self._speculation = Speculation(
                state.input.prompt, state.vocabulary, drafter, clock=clock
            )
        self._parts = self._list_parts()
        options = request.options
        self._is_observed = options.logprobs is not None or options.trace is not None
        self._is_greedy = options.sampling.is_argmax and not self._banned
        is_under_way = self._take_written()
        state.send_progress()  # behind what was written elsewhere, which is not discarded by that
        if is_under_way:
            self._follow()

    def _list_parts(self) -> list[TurnPart]:
        """The parts that this turn has, in the order in which they steer."""
        request, state = self._request, self._state
        parts = (
            self._healing,
            request.turn.budget,
            self._retry,
            self._endless,
            state.reserve,
            self._speculation,
        )
        return [part for part in parts if part is not None]

    def next_chunk(self, max_tokens: int, spare: int = 0) -> Chunk:
        """The tokens that the model has not seen yet, and perhaps a draft behind them.

        Args:
            max_tokens: tokens of the chunk, at most, those drafted included.
            spare: tokens of the draft, at most.
        """
        draft = self._draft(min(spare, max_tokens - self.input.pending))
        return self.input.next_chunk(max_tokens, draft)

    def _draft(self, max_tokens: int) -> Sequence[int]:
        """Tokens that may come next, at most so many; none if the model could not forget them."""
        state = self._state
        max_tokens = min(
            max_tokens, state.limit - state.count - 1
        )  # one token is drawn behind the draft
        if self._speculation is None or max_tokens < 1:
            return ()
        if state.transcript.is_healing or not self.input.can_draft:
            return ()
        return self._speculation.propose(state.matcher, max_tokens)

    def note_decoded(self, chunk: Chunk) -> None:
        """The model has seen the chunk."""
        was_read = not self.input.unread
        drafted = self.input.note_decoded(chunk)
        if not was_read:
            self._state.send_progress()
        if self._speculation is not None:
            decoded = len(chunk.tokens) if was_read else None
            self._speculation.begin(drafted, decoded=decoded)

    def prepare(self) -> None:
        """Computes the mask of the next token, and what else can be known before its logits; also
        in another thread, while the model decodes. Nothing is, where the text may end the turn.

        Raises:
            GrammarError: the matcher fails, or a part finds no way to go on; the turn has to fail.
        """
        state = self._state
        if self._has_verdict:
            return
        if state.matcher is not None and state.matcher.find_only() is not None:
            return  # no part is asked there
        for part in self._parts:
            part.prepare(state)

    @property
    def takes_likeliest(self) -> bool:
        """True if it takes the most likely token wherever that is allowed."""
        return self._is_greedy and not self._is_observed

    @property
    def has_verdict(self) -> bool:
        """True if the text may end or change the turn: it is to be settled before it goes on."""
        return self._has_verdict

    def settle(self) -> None:
        """Writes all text that is not written yet, and ends or changes the turn if that asks for
        it. A decode that was started meanwhile counts for nothing then: see `forget_decode`."""
        self._settle()

    def forget_decode(self) -> None:
        """The model forgets what it has seen of this turn since `note_decoded` was last called."""
        self.input.forget_ahead(self._state.all_tokens)

    def advance(self, rows: DecodedRows, *, defers: bool = False) -> None:
        """Takes the next token and all that it forces; the next ones too, as far as they were
        drafted: the loop of a turn.

        Args:
            rows: of the last decode.
            defers: the text of the tokens is written later, by `write_text` or `settle`, as far as
                nothing depends on it before the next decode.

        Raises:
            GrammarError: the matcher fails, or a part finds no token that it allows.
        """
        self._state.stopwatch.note_read()
        is_plain = len(rows.logits) == 1 and self._state.transcript.fault is None
        self._defers = defers and is_plain
        try:
            while self._state.finish is None and not self.input.pending:
                self._take_next(rows, self.input.row)
        except GrammarError:
            # Of tokens that the turn may not even have: its text decides first.
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
            scores = Scores(logits)  # those of the model: the mask is about to change the logits
        position = None
        if self._request.options.trace is not None:
            position = Position(logits)  # likewise
        token = self._mask(logits, position)
        observation = None
        if position is not None:
            count = self._request.options.trace or 0
            vocabulary = self._state.vocabulary
            observation = position.observe(logits, vocabulary, count, self._find_openings())
        origin = ONLY
        if token is None:
            assert self._state.sampler is not None
            token = self._state.sampler.sample(rows.first + row)
            origin = DRAWN
        if scores is not None or observation is not None:
            origin = replace(origin, scores=scores, observation=observation)
        self._take_drawn(token, origin)

    def _take_obvious(self, rows: DecodedRows, row: int) -> bool:
        """Takes the next token where it is known before all others are forbidden: the only one that
        the grammar allows, or the most likely one, if nothing forbids that; False elsewhere."""
        state = self._state
        only = None if state.matcher is None else state.matcher.find_only()
        if only is not None:  # no rule may forbid it
            self._take_drawn(only, ONLY)
            return True
        if not self._is_greedy or any(part.forbids(state) for part in self._parts):
            return False
        best = self._find_best(rows, row)
        if best is None:
            return False
        assert state.sampler is not None
        state.sampler.accept(best)
        self._take_drawn(best, DRAWN)
        return True

    def _find_best(self, rows: DecodedRows, row: int) -> int | None:
        """The most likely token, if the mask allows it."""
        best = rows.find_likeliest(rows.first + row)
        if not rows.logits[row, best] > -np.inf:  # also NaN, which the sampler reports
            return None
        matcher = self._state.matcher
        return best if matcher is None or matcher.allows(best) else None

    def _take_drawn(self, token: int, origin: TokenOrigin) -> None:
        if token in self._ends:
            self._take_end(token, origin)
        elif self._take([token], origin):
            self._follow()

    def _find_openings(self) -> np.ndarray | None:
        """The tokens that a call would begin with, or go on to its name with; None: none can."""
        transcript = self._state.transcript
        if self._openings is None or transcript.is_reasoning or transcript.is_in_call:
            return None
        return self._openings.find(transcript.find_behind_text())

    def _mask(self, logits: np.ndarray, position: Position | None) -> int | None:
        """Forbids tokens, in place; returns the one that need not be drawn, if there is one."""
        if self._state.matcher is not None:
            only = self._state.matcher.apply(logits)
            if only is not None:  # no rule may forbid the only token that the grammar allows
                return only
        if position is not None:
            position.note_steering("", logits)
        for part in self._parts:
            part.steer(logits, self._state)
            if position is not None:
                position.note_steering(part.name, logits)
        unavoidable = find_unavoidable(logits, self._banned)
        if unavoidable is None:
            logits[self._ignored_ends] = -np.inf
        return unavoidable

    def _take_written(self) -> bool:
        """Takes the tokens that the turn has already; False if it is over with them.

        Raises:
            GrammarError: the grammar does not take them.
        """
        return all(self._take([token], WRITTEN) for token in self._request.options.written)

    def _follow(self) -> None:
        """Takes the tokens that need no logits; ends the turn where nothing more can come, or the
        limit is met."""
        state = self._state
        if not self._settle_for_parts(0):
            return
        for part in self._parts:
            inserted = part.insert(state)
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
        """The tokens that the grammar leaves no choice about (fast-forward tokens)."""
        state, options = self._state, self._request.options
        if state.matcher is None or not options.force or options.logprobs is not None:
            return ()
        tokens = state.matcher.forced()
        for position, token in enumerate(tokens):
            if token in self._ends:  # which is no part of the turn
                tokens = tokens[:position]
                break
        # A reserve writes its ending in place of tokens beyond the limit; else they are cut.
        if state.reserve is None:
            tokens = tokens[: max(0, state.limit - state.count)]
        return tokens
