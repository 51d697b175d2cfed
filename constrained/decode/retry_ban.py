"""Away from what did not fit: the text that was thrown away is not written again."""

import numpy as np

from constrained.vocabulary.vocabulary import Vocabulary

_IDLE = b" \t\r\n\"'"  # what can differ although the value is the same


class Deviation:
    """Steers a turn off the text that it had before, where the mask first leaves a choice.

    There, all tokens are forbidden that go along that text (blanks and quotes apart), however it
    was cut into tokens; among the others, the sampler draws as it always does. So also the most
    likely token is another one, and the same seed gives the same.

    Args:
        text: the turn as it was.
        start: from this byte on, it is thrown away.
        vocabulary: that of the logits.
    """

    def __init__(self, text: bytes, start: int, vocabulary: Vocabulary):
        self._text = _squeeze(text[start:])
        self._start = start
        self._vocabulary = vocabulary

    def steer(self, logits: np.ndarray, written: bytes | bytearray) -> bool:
        """Forbids, in place, what goes along the text; False if the turn is off it for good.

        Args:
            logits: as the mask has left them.
            written: the turn so far.
        """
        done = _squeeze(bytes(written[self._start :]))
        if len(done) >= len(self._text) or not self._text.startswith(done):
            return False
        rest = self._text[len(done) :]
        allowed = np.flatnonzero(np.isfinite(logits))
        along = np.array([self._goes_along(int(token), rest) for token in allowed], bool)
        if not along.all():
            logits[allowed[along]] = -np.inf
        return True

    def _goes_along(self, token: int, rest: bytes) -> bool:
        text = _squeeze(self._vocabulary.tokens[token])
        is_end = token in self._vocabulary.end
        return not is_end and (rest.startswith(text) or text.startswith(rest))


def _squeeze(text: bytes) -> bytes:
    return text.translate(None, _IDLE)
