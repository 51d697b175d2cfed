"""Retry: a value that does not fit is written once more, differently.

A value that the mask cannot hold alone is checked when it is whole (`checked_values`). If it does
not fit, the turn goes back to where it began: nothing of it has been sent. On the way forward,
`RetryBan` sees to it that not the same text is written again.
"""

import numpy as np

from constrained.decode.filters.checked_values import CheckedPart, Fault
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.decode.turn_state import TurnState
from constrained.vocabulary.vocabulary import Vocabulary

_INSIGNIFICANT = b" \t\r\n\"'"  # bytes that can differ although the value is the same


class RetryBan:
    """Steers a turn off the text that it had before, where the mask first leaves a choice.

    There, all tokens are forbidden that go along that text (blanks and quotes apart), however it
    was cut into tokens; among the others, the sampler draws as it always does. So also the most
    likely token is another one, and the same seed gives the same.

    Args:
        text: the turn as it was.
        start: from this byte on, it is thrown away.
        vocabulary: that of the logits.
        must_go_on: the end of the turn is forbidden there as well.
    """

    def __init__(
        self, text: bytes, start: int, vocabulary: Vocabulary, *, must_go_on: bool = False
    ):
        self._must_go_on = must_go_on
        self._text = _squeeze(text[start:])
        self._start = start
        self._vocabulary = vocabulary

    def forbid(self, logits: np.ndarray, written: bytes | bytearray) -> bool:
        """Forbids, in place, what goes along the text; False if the turn is off it for good.

        Args:
            logits: as the mask has left them.
            written: the bytes of the turn so far.
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
    """Lets one turn go back, at most once for each value.

    Args:
        state: of the turn, which has nothing yet.
    """

    name = "retry"

    def __init__(self, state: TurnState):
        self._state = state
        self._retried: set[CheckedPart] = set()
        self._is_spoilt = False  # something does not fit, and cannot be written again
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
        """Goes back to the beginning of a value that does not fit, to write it once more.

        Returns:
            False if that was done before, or cannot be: the model keeps no past, or too few tokens
            are left. Then nothing has changed, and the turn is an error.
        """
        if self._is_spoilt or fault.what in self._retried or not self._go_back(fault.since):
            self._is_spoilt = True
            return False
        self._retried.add(fault.what)
        return True

    def leave(self, since: int) -> bool:
        """Goes back to the first tokens of the turn, so many, to go on otherwise; once.

        Returns:
            as of `try_again`.
        """
        if self._has_left or not self._go_back(since, must_go_on=True):
            return False
        self._has_left = True
        return True

    def _go_back(self, count: int | None, *, must_go_on: bool = False) -> bool:
        """Cuts the turn to its first `count` tokens; None: what does not fit was sent already."""
        state = self._state
        if state.matcher is None or count is None or count >= len(state.tokens):
            return False
        text = bytes(state.transcript.data)
        if not state.rewind(count):
            return False
        prefix = state.request.turn.prefix.rest  # which stays
        start = max(len(state.transcript.data), len(prefix))
        self._ban = RetryBan(text, start, state.vocabulary, must_go_on=must_go_on)
        return True


def _squeeze(text: bytes) -> bytes:
    return text.translate(None, _INSIGNIFICANT)
