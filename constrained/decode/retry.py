"""Retry: a value that does not fit its schema is generated once more, differently.

A value that the mask cannot fully enforce is checked when it is complete (`checked_values`). If it
does not fit, the turn goes back to its beginning; nothing of it has been sent. `RetryBan` then
prevents that the same text is generated again.
"""

import numpy as np

from constrained.decode.filters.checked_values import CheckedPart, Fault
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.decode.turn_state import TurnState
from constrained.engine.vocabulary.vocabulary import Vocabulary

_INSIGNIFICANT = b" \t\r\n\"'"  # bytes that can differ although the value is the same


class RetryBan:
    """Prevents that a turn repeats a discarded text, at the first position with a choice.

    At this position, all tokens that continue the discarded text are forbidden, however it was cut
    into tokens; blanks and quotes do not count as a difference. The sampler chooses among the other
    tokens, so greedy turns change, too, and the same seed gives the same result.

    Args:
        text: the bytes of the turn before it went back.
        start: the number of bytes that the turn has kept.
        vocabulary: of the model.
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
    """Makes one turn go back, at most once for each value.

    Args:
        state: of the turn, still without tokens.
    """

    name = "retry"

    def __init__(self, state: TurnState):
        self._state = state
        self._retried: set[CheckedPart] = set()
        self._is_spoilt = False  # a value does not fit, and cannot be generated again
        self._ban: RetryBan | None = None
        self._has_left = False

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        if self._ban is None or turn.transcript.is_healing:
            return
        if not self._ban.forbid(logits, turn.transcript.data):
            self._ban = None

    def forbids(self, turn: TurnView) -> bool:
        return self._ban is not None

    def try_again(self, fault: Fault) -> bool:
        """Goes back to the beginning of a value that does not fit, to generate it once more.

        Returns:
            False if the value was already generated twice, the model cannot go back, or too few
            tokens are left. Then the turn has not changed, and its reply is an error.
        """
        if self._is_spoilt or fault.what in self._retried or not self._go_back(fault.since):
            self._is_spoilt = True
            return False
        self._retried.add(fault.what)
        return True

    def leave(self, since: int) -> bool:
        """Goes back to the first `since` tokens of the turn, to continue differently; only once.

        Returns:
            False if the turn cannot go back, or has done so before. Then it has not changed.
        """
        if self._has_left or not self._go_back(since, must_go_on=True):
            return False
        self._has_left = True
        return True

    def _go_back(self, count: int | None, *, must_go_on: bool = False) -> bool:
        """Cuts the turn to its first `count` tokens; None: the value was already sent."""
        state = self._state
        if state.matcher is None or count is None or count >= len(state.tokens):
            return False
        text = bytes(state.transcript.data)
        if not state.rewind(count):
            return False
        prefill = state.request.turn.prefill.rest  # the turn keeps it
        start = max(len(state.transcript.data), len(prefill))
        self._ban = RetryBan(text, start, state.vocabulary, must_go_on=must_go_on)
        return True


def _squeeze(text: bytes) -> bytes:
    return text.translate(None, _INSIGNIFICANT)
