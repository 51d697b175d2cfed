"""A turn under way: the tokens it takes, and when it is over."""

import time
from collections.abc import Sequence

import numpy as np

from constrained.deadline import Clock, Stopwatch
from constrained.decode.checked_values import CheckedPart, Fault
from constrained.decode.drafts import Drafter
from constrained.decode.events import Exhausted, Sent
from constrained.decode.limits import find_limit, find_reserve
from constrained.decode.request import Finish, Generation, Request, Usage
from constrained.decode.retry import plan_retry
from constrained.decode.retry_ban import Deviation
from constrained.decode.speculation import Ahead
from constrained.decode.token_healing import Healing
from constrained.decode.transcript import Transcript
from constrained.engine.protocol import Chunk
from constrained.kv.sequences import Sequences
from constrained.logits import Scores, find_unavoidable
from constrained.mask import Matcher


class Progression:
    """One turn under way, on one sequence.

    Args:
        sequences: of the engine.
        number: of the sequence.
        request: what to generate.
        cached: how many tokens of the prompt the sequence holds already.
        clock: what the turn is timed with.

    Raises:
        ContextError, RequestError: see `find_limit` and `find_reserve`; a token has a bias that
            there is not.
    """

    def __init__(
        self,
        sequences: Sequences,
        number: int,
        request: Request,
        cached: int = 0,
        clock: Clock = time.monotonic,
    ):
        self._watch = Stopwatch(clock)
        self._limit = find_limit(sequences, request)
        self._sequences = sequences
        self._number = number
        self._request = request
        self._matcher = request.matcher
        self._start = request.matcher.fork() if request.matcher else None
        self._budget = request.budget
        self._reserve = find_reserve(request, self._limit)
        self._sampler = sequences.sampler(request.sampling)
        self._banned = request.sampling.banned
        self._ends = frozenset(sequences.vocabulary.end)
        self._cached = self._position = cached
        self.prompt = list(request.prompt)
        self._pending = self.prompt[cached:]
        self._passes = 0
        self._read = Transcript(request, sequences.vocabulary)
        self._ended_at: int | None = None
        self._healing = Healing(request.prefix, sequences.vocabulary)
        self._deviation: Deviation | None = None
        self._mended: set[CheckedPart] = set()
        self._is_spoilt = False  # what does not fit cannot be written again
        self._discarded = 0
        drafts = request.draft and request.logprobs is None
        self._ahead = Ahead(Drafter(self.prompt, sequences.vocabulary) if drafts else None)
        self.finish: Finish | None = None
        self._recall(self.prompt)
        self._follow()

    @property
    def pending(self) -> int:
        """How many tokens the model has not seen yet."""
        return len(self._pending)

    @property
    def position(self) -> int:
        """How many tokens the model has seen that are part of the turn."""
        return self._position

    @property
    def unread(self) -> int:
        """How many tokens of the prompt it has not."""
        return max(0, len(self.prompt) - self._position)

    @property
    def generated(self) -> int:
        """How many tokens were generated."""
        return self._discarded + len(self._read.tokens)

    def next_chunk(self, most: int, spare: int = 0) -> Chunk:
        """What the model has not seen yet, at most so many tokens of it, and perhaps a draft.

        Args:
            most: how many tokens at most, those drafted included.
            spare: how many tokens may be drafted.
        """
        if most < len(self._pending):
            return Chunk(self._number, self._pending[:most], self._position, wanted=0)
        draft = self._draft(min(spare, most - len(self._pending)))
        tokens = [*self._pending, *draft]
        return Chunk(self._number, tokens, self._position, wanted=1 + len(draft))

    def _draft(self, most: int) -> list[int]:
        """What may come next, at most so many tokens; none if the model could not forget them."""
        most = min(most, self._limit - len(self._read.tokens) - 1)
        held = len(self._sequences.tokens(self._number))
        if not self._ahead.may_draft or self.unread or most < 1 or self._is_healing:
            return []
        if not self._sequences.can_cut(self._number, held - 1):
            return []
        return self._ahead.propose(self._matcher, most)

    def note(self, chunk: Chunk) -> None:
        """The model has seen the chunk."""
        size = min(len(chunk.tokens), len(self._pending))
        self._position += size
        self._passes += 1
        self._ahead.see(chunk.tokens[size:])
        del self._pending[:size]

    def prepare(self) -> None:
        """Computes the mask of the next token; also in another thread, while the model decodes.

        Raises:
            GrammarError: the matcher fails, now and from then on.
        """
        if self._matcher:
            self._matcher.prepare()

    def cancel(self) -> None:
        """Ends the turn where it is."""
        self.finish = Finish.CANCELLED

    def advance(self, slot: int, rows: Sequence[np.ndarray]) -> None:
        """Takes the next token and all that it forces; the next ones too, as far as they were
        drafted.

        Args:
            slot: where the rows begin among those of the last decode.
            rows: the logits after the last token that is certain, and after each drafted one.
        """
        self._watch.note_read()
        while self.finish is None and not self._pending:
            at = self._ahead.place
            self._advance_one(slot + at, rows[at])
        if self._ahead.settle():
            self._forget_draft()

    def _advance_one(self, slot: int, logits: np.ndarray) -> None:
        scores = None if self._request.logprobs is None else Scores(logits)
        token = self._matcher.apply(logits) if self._matcher else None
        if token is None:
            self._steer(logits)
            token = find_unavoidable(logits, self._banned)
        accepted = token is None
        if token is None:
            token = self._sampler.sample(slot)
        if self._matcher.ends(token) if self._matcher else token in self._ends:
            self._heal([token])
            if self._matcher:
                self._matcher.commit(token)
            self._stop()
        elif self._take([token], accepted=accepted, scores=scores):
            self._follow()

    def _steer(self, logits: np.ndarray) -> None:
        """Forbids what the mask allows, but not this turn."""
        self._healing.steer(logits, self._read.data)
        if self._budget and self._read.is_reasoning:
            self._budget.keep_whole(logits, self._read.thought, self._sequences.vocabulary)
        if (
            self._deviation
            and not self._is_healing
            and not self._deviation.steer(logits, self._read.data)
        ):
            self._deviation = None

    def _follow(self) -> None:
        """Takes forced tokens; ends the turn where nothing more can come, or the limit is met."""
        if self._close_reasoning() and self._take_forced():
            if self._matcher and self._matcher.is_finished:
                self._stop()
            elif len(self._read.tokens) >= self._limit:
                self.finish = Finish.LENGTH

    def _stop(self) -> None:
        """The turn is over, unless its answer does not fit and can be written again."""
        self._send(self._read.close(is_whole=True))
        if self._ends_at_stop():
            return
        fault = self._read.fault
        if fault is None or not self._mend(fault):
            self.finish = Finish.STOP

    def _ends_at_stop(self) -> bool:
        """Has a stop text ended the turn?"""
        if self._read.stopped is None:
            return False
        if self.finish is not Finish.CANCELLED:
            self.finish, self._ended_at = Finish.STOP, None
        return True

    def _close_reasoning(self) -> bool:
        """Closes the reasoning block if its budget is spent; False if that ended the turn."""
        budget, read = self._budget, self._read
        is_spent = budget and read.is_reasoning and read.thought >= budget.tokens
        if budget and self._matcher and is_spent and not self._is_healing:
            room = self._limit - len(read.tokens)
            return self._take(budget.find_closing(self._matcher, room), counted=False)
        return True

    def _take_forced(self) -> bool:
        if not (self._matcher and self._request.force and self._request.logprobs is None):
            return True
        tokens = self._matcher.forced()
        ends = (n for n, token in enumerate(tokens) if self._matcher.ends(token))
        tokens = tokens[: next(ends, len(tokens))]
        if self._reserve is None:
            tokens = tokens[: max(0, self._limit - len(self._read.tokens))]
        return self._take(tokens)

    def _take(
        self,
        tokens: Sequence[int],
        *,
        accepted: bool = False,
        counted: bool = True,
        scores: Scores | None = None,
    ) -> bool:
        """Takes these tokens, or ends the turn in the shortest way if it could not end behind them.

        Args:
            tokens: what comes next.
            accepted: the sampler has taken note of them.
            counted: they count as reasoning, if they are.
            scores: how likely they were, if the request asks for that and the model knows.

        Returns:
            False if the turn is over, or has gone back.
        """
        if not tokens:
            return True
        self._heal(tokens)
        if self._matcher and not self._commit(self._matcher, tokens):
            return False
        return self._write(tokens, accepted=accepted, counted=counted, scores=scores)

    @property
    def _is_healing(self) -> bool:
        """Is the text of the client, which the turn goes on with, not whole yet?"""
        return not self._healing.is_over(self._read.data)

    def _heal(self, tokens: Sequence[int]) -> None:
        """Makes sure that the next tokens are along that text."""
        if self._is_healing:
            self._healing.check(tokens, self._read.data)

    def _commit(self, matcher: Matcher, tokens: Sequence[int]) -> bool:
        """Commits the tokens; if the turn could not end behind them, ends it before them."""
        count = len(self._read.tokens) + len(tokens)
        if self._reserve is None or self._reserve.needs_no_look(count):
            for token in tokens:
                matcher.commit(token)
            return True
        before = self._read.place(matcher)
        self._matcher = matcher.fork()
        for token in tokens:
            self._matcher.commit(token)
        if self._reserve.admits(before, self._read.place(self._matcher, tokens)):
            return True
        self._finish_early()
        return False

    def _finish_early(self) -> None:
        """The tokens run out: writes the ending that was kept for that, if there is one."""
        assert self._reserve is not None
        self.finish = Finish.LENGTH
        if self._reserve.ending is not None:
            self._ended_at = len(self._read.events)
            self._send([Exhausted()])
            self._write(self._reserve.ending, counted=False)

    def _write(
        self,
        tokens: Sequence[int],
        *,
        accepted: bool = False,
        counted: bool = True,
        scores: Scores | None = None,
    ) -> bool:
        """Writes tokens; False if one of them completes what does not fit, and changed the turn, or
        a stop text, which ends it."""
        for token in tokens:
            if not accepted:
                self._sampler.accept(token)
            self._append(token, is_forced=not accepted)
            self._send(self._read.write(token, counted=counted, scores=scores))
            if self._ends_at_stop():
                return False
            if (fault := self._read.fault) is None or self.finish is not None:
                continue
            if self._mend(fault):
                return False
            if fault.is_final:  # the turn is an error: there is no use in what would follow
                self.finish = Finish.STOP
                return False
        return True

    def _append(self, token: int, *, is_forced: bool) -> None:
        """The turn has a token more, which the model may have seen already."""
        if self._ahead.note(token, is_forced=is_forced):
            self._position += 1
        else:
            self._pending.append(token)

    def _forget_draft(self) -> None:
        """Makes the model forget what it has seen and the turn does not have."""
        held = len(self._sequences.tokens(self._number))
        if held == self._position or self._sequences.rollback(self._number, self._position):
            return
        # It could forget when that was asked, but a window has moved on: read all of it again.
        self._sequences.release(self._number)
        self._position, self._pending = 0, [*self.prompt, *self._read.tokens]

    def _send(self, events: Sequence[Sent]) -> None:
        if events:
            self._request.sink(events)

    def _recall(self, tokens: Sequence[int]) -> None:
        """Tells the sampler what is there, if that matters."""
        if self._request.sampling.has_penalties:
            self._sampler.recall(tokens)

    def _mend(self, fault: Fault) -> bool:
        """Goes back to where what does not fit began, so that it is written once more. False if
        that was done before, or cannot be: the model keeps no past, or too few tokens are left."""
        if not self._is_spoilt and fault.what not in self._mended and self._write_again(fault):
            self._mended.add(fault.what)
            return True
        self._is_spoilt = True
        return False

    def _write_again(self, fault: Fault) -> bool:
        turn = self._sequences, self._request, self._start, self._read
        retry = plan_retry(*turn, fault.since, self._discarded)
        if retry is None or not self._go_back(retry.head):
            return False
        self._read, self._matcher, self._reserve = retry.head, retry.matcher, retry.reserve
        self._discarded, self._limit = retry.discarded, retry.limit
        self._deviation = retry.deviation
        return True

    def _go_back(self, head: Transcript) -> bool:
        """Makes the model forget all but this; the last token of it has to be decoded again."""
        tokens = [*self.prompt, *head.tokens]
        position = min(self._position, len(tokens) - 1)
        if position < self._position:
            kept = self._sequences.go_back(self._number, position)
            if kept is None:
                return False
            position = kept
        self._position, self._pending = position, tokens[position:]
        self._ahead.cut(len(head.tokens))
        self._recall(tokens)
        return True

    def result(self) -> Generation:
        """The finished turn."""
        is_whole = self.finish is Finish.STOP or self._ended_at is not None
        self._send(self._read.close(is_whole=is_whole))
        self._ends_at_stop()
        assert self.finish is not None
        return Generation(
            tokens=tuple(self._read.tokens),
            text=self._read.data.decode("utf-8", "replace"),
            events=tuple(self._read.events),
            finish=self.finish,
            usage=Usage(
                prompt_tokens=len(self.prompt),
                completion_tokens=self.generated,
                forward_passes=self._passes,
                reasoning_tokens=max(0, self._read.thought - self._request.prefix.thought),
                discarded_tokens=self._discarded,
                cached_tokens=self._cached,
                drafted_tokens=self._ahead.drafted,
                accepted_tokens=self._ahead.accepted,
            ),
            ended_at=self._ended_at,
            stopped=self._read.stopped,
            logprobs=tuple(self._read.drawn),
            timings=self._watch.read(),
        )

    def close(self) -> None:
        """Frees the sampler; what the sequence holds stays, for whoever goes on with it."""
        self._sampler.close()
