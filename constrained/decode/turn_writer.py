"""Tokens of a turn are taken: committed, written, and what ends the turn is looked for.

Where they come from is another matter: `TurnDecoder` draws them from logits, and a turn of a remote
engine gets them over the network.
"""

from collections.abc import Sequence

from constrained.decode.endless_values import EndlessValues
from constrained.decode.filters.checked_values import Fault
from constrained.decode.request import Finish, Generation, Usage
from constrained.decode.retry import Retry
from constrained.decode.token_healing import TokenHealing
from constrained.decode.transcript import INSERTED, TokenOrigin
from constrained.decode.turn_part import TurnPart
from constrained.decode.turn_state import TurnState
from grammars.turn import ToolCall


class TurnWriter:
    """One turn under way, whatever draws its tokens.

    Args:
        state: of the turn, which has nothing yet.
    """

    def __init__(self, state: TurnState):
        self._state = state
        self._request = state.request
        self._ends = state.end_tokens
        self._retry = Retry(state)
        self._barred: list[ToolCall] = []
        self._healing: TokenHealing | None = None
        self._endless: EndlessValues | None = None
        self._parts: list[TurnPart] = []
        self._defers = False  # the text of tokens is written later
        self._has_verdict = False  # what was read in the text may end or change the turn

    def _list_parts(self) -> list[TurnPart]:
        """The parts that this turn has, in the order in which they steer."""
        return [] if self._state.reserve is None else [self._state.reserve]

    @property
    def finish(self) -> Finish | None:
        """The reason why the turn is over; None: it is not."""
        return self._state.finish

    @property
    def generated(self) -> int:
        """The number of generated tokens."""
        return self._state.generated

    def cancel(self) -> None:
        """Ends the turn where it is."""
        self._settle()
        if self._state.finish is None:
            self._state.finish = Finish.CANCELLED

    def note_failure(self) -> None:
        """Hands over what was traced of the turn, which fails and is not gone on with."""
        self._state.note_failure()

    def _take_end(self, token: int, origin: TokenOrigin) -> None:
        """Takes an end token, which is no part of the turn."""
        if self._state.trace is not None:
            self._state.trace.write(token, origin.source, origin.observation, is_end=True)
        if self._healing is not None:
            self._healing.before_commit([token], self._state)
        if self._state.matcher is not None:
            self._state.matcher.commit(token)
        self._stop()

    def _take(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Commits tokens and writes them, or ends the turn in front of them if it must not have
        them; False if the turn is over, or has gone back."""
        if not tokens:
            return True
        if not self._settle_for_parts(len(tokens)):
            return False
        # The parts judge by a matcher behind the tokens. If one refuses them, the turn is over: the
        # matcher need not go back.
        self._commit(tokens)
        for part in self._parts:
            if not part.after_commit(tokens, self._state):
                if self._settle():
                    self._complete()
                return False
        return self._write(tokens, origin)

    def _commit(self, tokens: Sequence[int]) -> None:
        state = self._state
        for part in self._parts:
            part.before_commit(tokens, state)
        if state.matcher is not None:
            for token in tokens:
                state.matcher.commit(token)

    def _complete(self) -> None:
        """The tokens run out: writes the ending that was kept for that, if there is one."""
        state = self._state
        suspect = state.transcript.suspect_call
        if suspect:  # half a call that the turn has often enough is no call
            self._write(state.end_behind_call(suspect - 1, ran_out=True), INSERTED)
            return
        state.finish = Finish.LENGTH
        if state.reserve is not None and state.reserve.ending is not None:
            state.run_out()
            self._write(state.reserve.ending, INSERTED)

    def _write(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Writes tokens; False if one of them completes what does not fit, and changed the turn, or
        a stop text or the last call, which ends it. Where the turn defers, that is found out when
        it is settled."""
        state = self._state
        for token in tokens:
            is_computed = state.take(token, origin)
            for part in self._parts:
                part.after_take(token, is_forced=not origin.is_drawn, is_computed=is_computed)
            is_deferred = self._defers and state.finish is None
            if not is_deferred and not self._settle():
                return False
        return True

    def _settle_for_parts(self, coming: int) -> bool:
        """Settles the turn if one of its parts has to see its text; see `_settle`, and
        `TurnPart.needs_text`."""
        if not self._state.has_unwritten:
            return True
        for part in self._parts:
            if part.needs_text(self._state, coming):
                return self._settle()
        return True

    def _settle(self) -> bool:
        """Writes the text of all tokens that the turn has taken; False if one of them has ended or
        changed it, and it does not have those behind."""
        while True:
            self.write_text()
            if not self._has_verdict:
                return True
            self._has_verdict = False
            if self._heeds_verdict():
                self._state.drop_unwritten()
                return False

    def write_text(self) -> None:
        """Writes the text of the tokens that the turn has taken, up to one that may end or change
        it; also in another thread, while the model decodes."""
        state = self._state
        while state.has_unwritten and not self._has_verdict:
            token = state.write_next()
            for part in self._parts:
                part.after_write(token)
            self._has_verdict = state.transcript.has_verdict

    def _heeds_verdict(self) -> bool:
        """True if what was read in the text has ended or changed the turn."""
        if self._ends_at_stop_text() or self._ends_at_call_limit():
            return True
        if self._changes_at_fault() or self._leaves_barred_call():
            return True
        if self._state.transcript.is_over:
            if self._state.finish is None:  # not where the tokens have run out
                self._stop()
            return True
        return False

    def _stop(self) -> None:
        """The turn is over, unless its answer does not fit and can be written again."""
        state = self._state
        state.close(is_whole=True)
        if self._ends_at_stop_text() or self._ends_at_call_limit():
            return
        fault = state.transcript.fault
        if fault is not None and self._try_again(fault):
            return
        if not self._leaves_barred_call():
            state.finish = Finish.STOP

    def _ends_at_stop_text(self) -> bool:
        """True if a stop text has ended the turn."""
        state = self._state
        if state.transcript.stopped is None:
            return False
        if state.finish is not Finish.CANCELLED:
            state.finish = Finish.STOP
            state.ended_at = None
        return True

    def _ends_at_call_limit(self) -> bool:
        """True if the turn has ended behind the last call that it may have."""
        state = self._state
        if state.transcript.last_call is None or state.finish is Finish.CANCELLED:
            return False
        self._write(state.end_behind_call(state.transcript.last_call), INSERTED)
        return True

    def _changes_at_fault(self) -> bool:
        """True if the turn has gone back for a value that does not fit, or ended with it."""
        state = self._state
        fault = state.transcript.fault
        if fault is None or state.finish is not None:
            return False
        if self._try_again(fault):
            return True
        if fault.is_final:  # the turn is an error: there is no use in what would follow
            state.finish = Finish.STOP
        return fault.is_final

    def _leaves_barred_call(self) -> bool:
        """True if the turn has gone back in front of a call that it should not have."""
        state = self._state
        call = state.transcript.barred_call
        if call is None:
            return False
        can_leave = state.finish is None and state.transcript.fault is None
        if can_leave and self._retry.leave(state.transcript.text_end):
            self._barred.append(call)
            self._begin_anew()
            return True
        state.send(state.transcript.admit_barred_call())
        return False

    def _try_again(self, fault: Fault) -> bool:
        if not self._retry.try_again(fault):
            return False
        self._begin_anew()
        return True

    def _begin_anew(self) -> None:
        """The turn has gone back: its parts have, too."""
        self._parts = self._list_parts()  # there is another reserve, for the tokens that are left
        for part in self._parts:
            part.rewind(len(self._state.tokens))

    def result(self) -> Generation:
        """The finished turn."""
        state = self._state
        assert state.finish is not None
        state.close(is_whole=state.finish is Finish.STOP or state.ended_at is not None)
        if not self._ends_at_stop_text() and self._ends_at_call_limit():
            state.close(is_whole=True)
        state.send_progress()  # of the last tokens, which may have brought no event
        transcript = state.transcript
        given = self._request.turn.prefix.reasoning_tokens
        usage = Usage(
            prompt_tokens=len(state.input.prompt),
            completion_tokens=self.generated,
            forward_passes=state.input.passes,
            reasoning_tokens=max(0, transcript.reasoning_tokens - given),
            discarded_tokens=state.discarded,
            cached_tokens=state.input.cached,
            drafted_tokens=state.input.drafted,
            accepted_tokens=state.input.accepted,
        )
        return Generation(
            tokens=tuple(transcript.tokens),
            text=transcript.data.decode("utf-8", "replace"),
            events=tuple(transcript.events),
            finish=state.finish,
            usage=usage,
            ended_at=state.ended_at,
            stopped=transcript.stopped,
            is_ended_by_text=transcript.is_over,
            logprobs=tuple(transcript.logprobs),
            barred_calls=tuple(self._barred),
            ended_values=self._endless.ended if self._endless else (),
            timings=state.watch.read(),
            trace=() if state.trace is None else tuple(state.trace.tokens),
        )

    def close(self) -> None:
        """Frees the sampler; the tokens of the sequence stay, for whoever goes on with them."""
        if self._state.sampler is not None:
            self._state.sampler.close()
