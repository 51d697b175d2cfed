"""How long the decodes of a model take, measured while turns run; and so, what a draft costs."""

from dataclasses import dataclass

import numpy as np

from constrained.engine.protocol import DecodeSize

# The parts of a decode of one token: of the decode, of a further pass, and of each token. Fitted to
# decodes on 2 cores; with more cores or a GPU, the last is less.
FITTED = np.array([0.6, 0.6, 0.4])
EXPECTED = (DecodeSize(1, 1), DecodeSize(1, 8), DecodeSize(2, 8))  # decodes that it expects
KEPT = 64  # decodes that the fit is made of
EVERY = 16  # decodes after which it is made again, at first after half as many as there were
OUTLIER = 8.0
"""A decode that takes so many times as long as is usual, or as short, does not count: another
process may have taken the cores. A GPU takes a fourth of what `FITTED` says of 8 turns."""
LEAST = 0.01  # of an expected time


def _list_parts(size: DecodeSize) -> np.ndarray:
    """Returns what a decode has: 1, the number of further passes, and the number of tokens."""
    return np.array([1.0, size.passes - 1.0, float(size.tokens)])


EXPECTED_PARTS = sum(np.outer(_list_parts(size), _list_parts(size)) for size in EXPECTED)


@dataclass(frozen=True)
class DraftCosts:
    """What verifying a draft costs, in decodes of a turn.

    A decode of a turn is the time of a decode without drafts, divided by the number of its turns.

    Args:
        start: for a draft of any length.
        token: for each of its tokens.
    """

    start: float
    token: float

    def find(self, drafted: int) -> float:
        """Returns the cost of verifying a draft of this many tokens."""
        return self.start + self.token * drafted if drafted else 0.0

    def pays(self, drafted: int) -> bool:
        """True if a draft of this many tokens saves time when all of them are accepted."""
        return self.find(drafted) < drafted


# Fitted to decodes of 1 to 11 tokens of one turn on 2 cores. The copied drafts of a turn that runs
# alone do not depend on measured times, so that its text is reproducible.
ALONE = DraftCosts(0.2, 0.3)


class DecodeCosts:
    """The times of a model's decodes: of any decode, of each further pass, and of each token.

    The three times are a least-squares fit over the last decodes, and a few that `FITTED` expects.

    Args:
        evens_out: chunks of different sizes are avoided, so a draft takes no further pass.
    """

    def __init__(self, *, evens_out: bool = False) -> None:
        self._evens_out = evens_out
        self._parts = np.zeros((KEPT, 3))  # of the last decodes
        self._seconds = np.zeros(KEPT)
        self._noted = 0  # decodes
        self._times = np.zeros(3)  # the result of the fit
        self._fitted = 0  # decodes before it

    def note(self, size: DecodeSize, seconds: float) -> None:
        """Notes a decode.

        Args:
            seconds: how long it took; 0, which a coarse clock may say, does not count.
        """
        if seconds <= 0:
            return
        place = self._noted % KEPT
        self._parts[place] = _list_parts(size)
        self._seconds[place] = seconds
        self._noted += 1

    def _fit(self) -> np.ndarray:
        """Returns the three times in seconds; at least one decode was noted."""
        if self._noted > self._fitted + min(EVERY, self._fitted // 2):
            self._fitted = self._noted
            parts, seconds = self._parts[: self._noted], self._seconds[: self._noted]
            ratios = seconds / (parts @ FITTED)
            scale = np.median(ratios)
            usual = (ratios < OUTLIER * scale) & (ratios > scale / OUTLIER)
            parts, seconds = parts[usual], seconds[usual]
            expected = FITTED * scale
            solved = np.linalg.solve(
                parts.T @ parts + EXPECTED_PARTS, parts.T @ seconds + EXPECTED_PARTS @ expected
            )
            self._times = np.maximum(solved, LEAST * expected)
        return self._times

    def estimate(self, turns: int) -> DraftCosts:
        """Returns what a draft costs while so many turns are decoded together."""
        if turns == 1:
            return ALONE
        decode, further, token = self._fit() if self._noted else FITTED
        a_turn = decode / turns + token
        # A draft makes the chunk of its turn longer than those of others.
        start = 0.0 if self._evens_out else further / a_turn
        return DraftCosts(float(start), float(token / a_turn))


# In decodes of a turn, those that drafts of one kind may lose: at first, more with each decode, and
# the maximum, however many they have saved.
CREDIT, ALLOWANCE, MAX_CREDIT = 1.5, 0.007, 8.0
FIRST = 4  # tokens of a draft that the credit at first is enough for, whatever drafts cost


class DraftBudget:
    """How many decodes drafts may still lose: those that they have saved, and a small credit."""

    def __init__(self) -> None:
        self._credit = CREDIT

    def count_affordable(self, costs: DraftCosts) -> int:
        """Returns the maximum number of tokens of the next draft; 0 if even one of this length
        could not save time."""
        # A decode that several turns share is a small one, so that more of them may be lost.
        dearer = max(0.0, costs.find(FIRST) - ALONE.find(FIRST))
        room = self._credit + dearer - costs.start
        tokens = int(room / costs.token + 1e-9)
        is_worth_it = tokens > 0 and costs.pays(tokens)
        return tokens if is_worth_it else 0

    def recover(self) -> None:
        """Notes a decode without a draft of this kind: drafts may lose a little more."""
        self.charge(spent=0.0, saved=0.0)

    def charge(self, spent: float, saved: float) -> None:
        """Charges a decode with a draft of this kind.

        Args:
            spent, saved: decodes of a turn, by verifying the draft and by its accepted tokens.
        """
        self._credit = min(self._credit + ALLOWANCE + saved - spent, MAX_CREDIT)
