"""How long the decodes of a model take, measured while turns run; and so, what a draft costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

# The parts of a decode of one token: of the decode, of a further pass, and of each token. Fitted to
# decodes on 2 cores (`python -m benchmarks.attention`); with more cores or a GPU, the last is less.
FITTED = np.array([0.6, 0.6, 0.4])
EXPECTED = ((1,), (1,) * 8, (1, 1, 1, 5))  # the sizes of the chunks of some decodes that it expects
KEPT = 0.98  # of the weight of earlier decodes with each decode
MAX_ERROR = 2.0  # a decode counts as at most this many times as long as was expected, or as short
LEAST = 0.01  # of an expected time


def _count(sizes: Sequence[int]) -> np.ndarray:
    """Returns what a decode has: 1, the number of further passes, and the number of tokens."""
    return np.array([1, len(set(sizes)) - 1, sum(sizes)])


EXPECTED_COUNTS = sum(np.outer(_count(sizes), _count(sizes)) for sizes in EXPECTED)


@dataclass(frozen=True)
class DraftCosts:
    """What verifying a draft costs, in decodes of a turn.

    A decode of a turn is the time of a decode without drafts, divided by the number of its turns.

    Args:
        start: for a draft of any length.
        token: for each of its tokens.
        turns: the number of turns that are decoded together.
        turn_seconds: a decode of a turn in seconds; None: not known.
    """

    start: float
    token: float
    turns: int = 1
    turn_seconds: float | None = None

    def find(self, drafted: int) -> float:
        """Returns the cost of verifying a draft of this many tokens."""
        return self.start + self.token * drafted if drafted else 0.0

    def pays(self, drafted: int) -> bool:
        """True if a draft of this many tokens saves time when all of them are accepted."""
        return self.find(drafted) < drafted


# Fitted to decodes of 1 to 11 tokens of one turn on 2 cores (`python -m benchmarks.passes`). The
# drafts of a turn that runs alone do not depend on measured times, so its text is reproducible.
ALONE = DraftCosts(0.2, 0.3)


class DecodeCosts:
    """The times of a model's decodes: of any decode, of each further pass, and of each token.

    llama.cpp may run one pass for each distinct number of tokens that sequences have in a batch.
    The three times are a least-squares fit over the last decodes, and a few that `FITTED` expects.

    Args:
        evens_out: chunks of different sizes are avoided, so a draft takes no further pass.
    """

    def __init__(self, *, evens_out: bool = False) -> None:
        self._evens_out = evens_out
        # The weighted sums of the fit: (pass, further pass, tokens) with themselves, and with the
        # seconds.
        self._counts = np.zeros((3, 3))
        self._seconds = np.zeros(3)
        self._scale: float | None = None  # seconds of a decode of one token, by `FITTED`
        self._times: np.ndarray | None = None  # the result; None: to be computed

    def note(self, sizes: Sequence[int], seconds: float) -> None:
        """Notes a decode.

        Args:
            sizes: the number of tokens of each chunk.
            seconds: how long the decode took.
        """
        counts = _count(sizes)
        scale = seconds / float(FITTED @ counts)
        if self._scale is None:
            self._scale = scale
        else:
            expected = float(self._fit() @ counts)
            seconds = min(max(seconds, expected / MAX_ERROR), expected * MAX_ERROR)
            self._scale += (1 - KEPT) * (seconds / float(FITTED @ counts) - self._scale)
        self._counts = KEPT * self._counts + np.outer(counts, counts)
        self._seconds = KEPT * self._seconds + counts * seconds
        self._times = None

    def _fit(self) -> np.ndarray:
        """Returns the three times in seconds."""
        if self._times is None:
            assert self._scale is not None
            expected = FITTED * self._scale
            solved = np.linalg.solve(
                self._counts + EXPECTED_COUNTS, self._seconds + EXPECTED_COUNTS @ expected
            )
            self._times = np.maximum(solved, LEAST * expected)
        return self._times

    def find_turn_seconds(self, turns: int) -> float | None:
        """Returns the seconds of a decode with a token of each of some turns, divided by their
        number; None: not known."""
        if self._scale is None:
            return None
        decode, _, token = self._fit()
        return float(decode / turns + token)

    def estimate(self, turns: int) -> DraftCosts:
        """Returns what a draft costs while so many turns are decoded together."""
        turn_seconds = self.find_turn_seconds(turns)
        if turns == 1:
            return replace(ALONE, turn_seconds=turn_seconds)
        decode, further, token = self._fit() if turn_seconds else FITTED
        a_turn = decode / turns + token
        # A draft makes the chunk of its turn longer than those of others.
        start = 0.0 if self._evens_out else further / a_turn
        return DraftCosts(float(start), float(token / a_turn), turns, turn_seconds)
