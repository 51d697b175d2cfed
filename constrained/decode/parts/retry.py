"""Retry: a value that does not fit its schema is generated once more, differently.

A value that the mask cannot fully enforce is checked when it is complete (`checked_values`). If it
does not fit, the turn goes back to its beginning; nothing of it has been sent. `RetryBan` then
prevents that the same text is generated again.
"""

from collections.abc import Mapping

import numpy as np

from constrained.decode.filters.checked_values import CheckedPart, Fault
from constrained.decode.request import Finish
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_changes import rewind
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary
from grammars.turn import ToolCall

_INSIGNIFICANT = b" \t\r\n\"'"  # bytes that can differ although the value is the same


class RetryBan:
    """Prevents that a turn repeats a discarded text, at the first position with a choice.

    At this position, all tokens that continue the discarded text are forbidden, however it was cut
    into tokens; blanks and quotes do not count as a difference. The sampler chooses among the other
    tokens, so greedy turns change, too, and the same seed gives the same result.

    Args:
        text: the bytes of the turn before it went back.
        start: the number of bytes that the turn has kept.
        must_go_on: the end of the turn is forbidden at this position, too.
    """

    def __init__(self, text: bytes, start: int, vocabulary: Vocabulary, *, must_go_on: bool):
        self._must_go_on = must_go_on
        self._text = _squeeze(text[start:])
        self._start = start
        self._vocabulary = vocabulary

    def forbid(self, logits: np.ndarray, written: bytes | bytearray) -> bool:
        """Forbids, in place, tokens that continue the discarded text.

        Args:
            logits: after the mask.
            written: the bytes of the turn so far.

        Returns:
            False if the turn already differs from the discarded text.
        """
        done = _squeeze(bytes(written[self._start :]))
        if len(done) >= len(self._text) or not self._text.startswith(done):
            return False
        rest = self._text[len(done) :]
        allowed = np.flatnonzero(np.isfinite(logits))
        along = np.array([self._goes_along(token, rest) for token in allowed.tolist()], bool)
        if not along.all():
            logits[allowed[along]] = -np.inf
        return True

    def _goes_along(self, token: int, rest: bytes) -> bool:
        if token in self._vocabulary.end:
            return self._must_go_on
        text = _squeeze(self._vocabulary.tokens[token])
        return rest.startswith(text) or text.startswith(rest)


class Retry(TurnPart):
    """Makes a turn go back, to continue differently: at most once for each value that does not fit,
    and once for an excluded call."""

    name = "retry"

    def __init__(self, turn: RunningTurn):
        self._turn = turn
        self._retried: set[CheckedPart] = set()
        self._is_spoilt = False  # a value does not fit, and cannot be generated again
        self._ban: RetryBan | None = None
        self._has_left = False
        self._barred: list[ToolCall] = []

    def forbids(self, turn: TurnView) -> bool:
        return self._ban is not None and not turn.transcript.is_healing

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        if self._ban is not None and not self._ban.forbid(logits, turn.transcript.data):
            self._ban = None

    def react(self) -> bool:
        transcript = self._turn.transcript
        checks, limiter = transcript.checks, transcript.limiter
        fault = None if checks is None else checks.fault
        if fault is not None and self._turn.finish is None and self._handle(fault):
            return True
        if limiter is None or limiter.barred is None:
            return False
        if fault is None and self._leave(limiter.barred):
            return True
        self._turn.send(transcript.admit_barred_call(limiter))
        return False

    def report(self) -> Mapping[str, tuple[object, ...]]:
        return {"barred_calls": tuple(self._barred)}

    def _handle(self, fault: Fault) -> bool:
        """Handles a value that does not fit; returns True if the turn went back or ended."""
        if self._try_again(fault):
            return True
        if fault.is_final:  # the turn is an error: what would follow is of no use
            self._turn.finish = Finish.STOP
        return fault.is_final

    def _try_again(self, fault: Fault) -> bool:
        """Goes back to the beginning of a value that does not fit, to generate it once more.

        Returns False if the value was already generated twice, the model cannot go back, or too few
        tokens are left. Then the turn has not changed, and its reply is an error.
        """
        if self._is_spoilt or fault.what in self._retried or not self._go_back(fault.since):
            self._is_spoilt = True
            return False
        self._retried.add(fault.what)
        return True

    def _leave(self, barred: ToolCall) -> bool:
        """Goes back to before an excluded call; False if the turn has done so before, or cannot."""
        if self._turn.finish is not None or self._has_left:
            return False
        if not self._go_back(self._turn.transcript.text_end, must_go_on=True):
            return False
        self._has_left = True
        self._barred.append(barred)
        return True

    def _go_back(self, count: int | None, *, must_go_on: bool = False) -> bool:
        """Cuts the turn to its first `count` tokens; None: the value was already sent."""
        turn = self._turn
        if turn.matcher is None or count is None or count >= turn.count:
            return False
        text = bytes(turn.transcript.data)
        if not rewind(turn, count):
            return False
        prefill = turn.request.turn.prefill.rest  # the turn keeps it
        start = max(len(turn.transcript.data), len(prefill))
        self._ban = RetryBan(text, start, turn.vocabulary, must_go_on=must_go_on)
        return True


def _squeeze(text: bytes) -> bytes:
    return text.translate(None, _INSIGNIFICANT)
