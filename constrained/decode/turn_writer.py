"""Takes the tokens of a turn: commits them, writes their text, and finds the end of the turn.

It does not matter where the tokens come from: `TurnDecoder` samples them from logits, `RemoteTurn`
gets them over the network.
"""

from collections.abc import Sequence

from constrained.decode.endless.content import EndlessContent
from constrained.decode.endless.values import EndedValue, EndlessValues
from constrained.decode.filters.checked_values import Fault
from constrained.decode.foreign_calls import ForeignCalls
from constrained.decode.request import Finish, Generation, Usage
from constrained.decode.retry import Retry
from constrained.decode.token_healing import TokenHealing
from constrained.decode.transcript import INSERTED, SAID, TokenOrigin
from constrained.decode.turn_part import TurnPart, TurnParts
from constrained.decode.turn_state import TurnState
from grammars.turn import ToolCall


class TurnWriter:
    """One turn that is being generated, wherever its tokens come from.

    Methods that take or write tokens return whether the turn goes on behind them. Methods that are
    named after what they do if something calls for it, such as `_end_at_stop_text`, return whether
    they did.

    Args:
        state: of the turn, still without tokens.
    """

    def __init__(self, state: TurnState):
        self._state = state
        self._request = state.request
        self._ends = state.end_tokens
        self._retry = Retry(state)
        self._barred: list[ToolCall] = []
        self._healing: TokenHealing | None = None
        self._endless: EndlessValues | None = None
        self._foreign: ForeignCalls | None = None
        if state.turn.envelopes is not None:
            self._foreign = ForeignCalls(state, state.turn.envelopes)
        self._content: EndlessContent | None = None
        max_repetition = state.request.turn.max_content_repetition
        if max_repetition is not None and not state.request.options.ignore_eos:
            self._content = EndlessContent(max_repetition)
        self._parts = TurnParts([])
        self._defers = False  # the text of tokens is written later
        self._has_verdict = False  # what was read in the text may end or change the turn

    def _list_parts(self) -> list[TurnPart]:
        """Returns the parts of this turn, in the order in which they steer."""
        return [] if self._state.reserve is None else [self._state.reserve]

    @property
    def finish(self) -> Finish | None:
        """The reason why the turn is over; None: it is not over."""
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
        """Hands over the trace of the turn, which has failed."""
        self._state.note_failure()

    def _take_end(self, token: int, origin: TokenOrigin) -> None:
        """Takes an end token, which is not part of the turn."""
        if self._state.trace is not None:
            self._state.trace.write(token, origin.source, origin.observation, is_end=True)
        if self._healing is not None:
            self._healing.before_commit([token], self._state)
        if self._state.matcher is not None:
            self._state.matcher.commit(token)
        self._stop()

    def _take(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Commits tokens and writes them. If a part refuses them, the turn ends before them.

        Returns:
            False if the turn is over, or has gone back.
        """
        if not tokens:
            return True
        if not self._settle_for_parts(len(tokens)):
            return False
        # The parts need a matcher that has committed the tokens. If a part refuses them, the turn
        # is over, so the matcher need not go back.
        self._commit(tokens)
        for after_commit in self._parts.after_commit:
            if not after_commit(tokens, self._state):
                if self._settle():
                    self._complete()
                return False
        return self._write(tokens, origin)

    def _commit(self, tokens: Sequence[int]) -> None:
        state = self._state
        for before_commit in self._parts.before_commit:
            before_commit(tokens, state)
        if state.matcher is not None:
            for token in tokens:
                state.matcher.commit(token)

    def _complete(self) -> None:
        """Ends a turn whose tokens run out: writes the ending of the completion reserve, if any."""
        state = self._state
        suspect = state.transcript.suspect_call
        if suspect:  # half of a call that the turn has often enough is dropped
            self._write(state.end_after_call(suspect - 1, ran_out=True), INSERTED)
            return
        state.finish = Finish.LENGTH
        if state.reserve is not None and state.reserve.ending is not None:
            state.run_out()
            self._write(state.reserve.ending, INSERTED)

    def _write(self, tokens: Sequence[int], origin: TokenOrigin) -> bool:
        """Takes tokens whose text is written at once, or later if the turn defers it.

        Returns:
            False if the text has ended the turn or made it go back.
        """
        state = self._state
        for token in tokens:
            is_computed = state.take(token, origin)
            for after_take in self._parts.after_take:
                after_take(token, is_forced=not origin.is_sampled, is_computed=is_computed)
            is_deferred = self._defers and state.finish is None
            if not is_deferred and not self._settle():
                return False
        return True

    def _settle_for_parts(self, coming: int) -> bool:
        """Calls `_settle` if a part needs the text; see `TurnPart.needs_text`."""
        if not self._state.has_unwritten:
            return True
        for needs_text in self._parts.needs_text:
            if needs_text(self._state, coming):
                return self._settle()
        return True

    def _settle(self) -> bool:
        """Writes the text of all tokens that the turn has taken.

        Returns:
            False if the text of one of them has ended the turn or made it go back. Then the tokens
            after it are dropped.
        """
        while True:
            self.write_text()
            if not self._has_verdict:
                return True
            self._has_verdict = False
            if not self._act_on_verdict():
                self._state.drop_unwritten()
                return False

    def write_text(self) -> None:
        """Writes the text of the tokens that the turn has taken, up to one that may end the turn or
        make it go back. May run in another thread, while the model decodes."""
        state = self._state
        while state.has_unwritten and not self._has_verdict:
            token = state.write_next()
            for after_write in self._parts.after_write:
                after_write(token)
            self._has_verdict = state.transcript.has_verdict
            if self._content is not None and self._content.note(token, state.transcript):
                self._has_verdict = True

    def _act_on_verdict(self) -> bool:
        """Acts on what the text says.

        Returns:
            False if the turn ended or went back.
        """
        if self._end_at_stop_text() or self._end_at_call_limit():
            return False
        if self._deliver_foreign_call():
            return False
        if self._go_back_for_fault() or self._leave_barred_call():
            return False
        if self._state.transcript.is_over:
            if self._state.finish is None:  # else the tokens have run out
                self._stop()
            return False
        return not self._end_endless_content()

    def _end_endless_content(self) -> bool:
        """Ends the turn if its content repeats itself; returns True if so."""
        if self._content is None or self._content.ended is None:
            return False
        if self._state.finish is None:
            self._state.finish = Finish.LENGTH
        return True

    def _list_ended(self) -> tuple[EndedValue, ...]:
        values = () if self._endless is None else self._endless.ended
        if self._content is None or self._content.ended is None:
            return values
        return (*values, self._content.ended)

    def _stop(self) -> None:
        """Ends the turn, unless its answer does not fit its schema and can be generated again."""
        state = self._state
        state.close(is_whole=True)
        if self._end_at_stop_text() or self._end_at_call_limit():
            return
        fault = state.transcript.fault
        if fault is not None and self._try_again(fault):
            return
        if not self._leave_barred_call():
            state.finish = Finish.STOP

    def _end_at_stop_text(self) -> bool:
        """Ends the turn if it has a stop text; returns True if so."""
        state = self._state
        if state.transcript.stopped is None:
            return False
        if state.finish is not Finish.CANCELLED:
            state.finish = Finish.STOP
            state.ended_at = None
        return True

    def _end_at_call_limit(self) -> bool:
        """Ends the turn after the last call that it may have; returns True if so."""
        state = self._state
        if state.transcript.last_call is None or state.finish is Finish.CANCELLED:
            return False
        self._write(state.end_after_call(state.transcript.last_call), INSERTED)
        return True

    def _go_back_for_fault(self) -> bool:
        """Handles a value that does not fit; returns True if the turn went back or ended."""
        state = self._state
        fault = state.transcript.fault
        if fault is None or state.finish is not None:
            return False
        if self._try_again(fault):
            return True
        if fault.is_final:  # the turn is an error: what would follow is of no use
            state.finish = Finish.STOP
        return fault.is_final

    def _deliver_foreign_call(self) -> bool:
        """Handles a call in another envelope; returns True if the turn goes on with a call."""
        found = self._state.transcript.foreign_call
        if found is None:
            return False
        delivery = None if self._foreign is None else self._foreign.deliver(found)
        if delivery is None:
            self._state.send(self._state.transcript.decline_foreign_call())
            return False
        self._defers = False  # what comes next is written at once
        turn = self._state.turn
        if self._endless is not None and turn.make_endless_values is not None:
            self._endless = turn.make_endless_values()  # the turn may have another grammar now
        self._begin_anew(delivery.kept)
        if self._take(delivery.said, SAID):
            self._take(delivery.opening, INSERTED)
        return True

    def _leave_barred_call(self) -> bool:
        """Handles an excluded call; returns True if the turn went back to before it."""
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

    def _begin_anew(self, kept: int | None = None) -> None:
        """After the turn went back, makes its parts go back, too.

        Args:
            kept: how many tokens the turn went back to, if it has got others since.
        """
        count = len(self._state.tokens) if kept is None else kept
        # The reserve is a new one, for the remaining tokens.
        self._parts = TurnParts(self._list_parts())
        for rewind in self._parts.rewind:
            rewind(count)
        for token in self._state.tokens[count:]:
            for after_take in self._parts.after_take:
                after_take(token, is_forced=True, is_computed=False)
        if self._content is not None:
            self._content.forget()

    def result(self) -> Generation:
        """The finished turn."""
        state = self._state
        assert state.finish is not None
        state.close(is_whole=state.finish is Finish.STOP or state.ended_at is not None)
        if not self._end_at_stop_text() and self._end_at_call_limit():
            state.close(is_whole=True)
        state.send_progress()  # the last tokens may have had no events
        transcript = state.transcript
        given = self._request.turn.prefill.reasoning_tokens
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
            envelopes=() if self._foreign is None else tuple(self._foreign.delivered),
            ended_values=self._list_ended(),
            timings=state.stopwatch.read(),
            trace=() if state.trace is None else tuple(state.trace.tokens),
        )

    def close(self) -> None:
        """Frees the sampler. The tokens stay in the KV cache, for the next turn."""
        if self._state.sampler is not None:
            self._state.sampler.close()
