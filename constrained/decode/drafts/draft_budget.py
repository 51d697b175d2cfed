"""What drafts may cost: one that is right saves decodes, one that is not is a loss."""

# The costs of a draft, in decodes of one token: once, and for each token. Fitted to decodes of 1 to
# 11 tokens on 2 cores (`python -m benchmarks.passes`); more cores make it less.
START, COST = 0.2, 0.3
# The decodes that drafts of one kind may lose: in the beginning, with each decode, and at most,
# however many they have saved.
CREDIT, ALLOWANCE, MAX_CREDIT = 1.5, 0.007, 8.0


def find_cost(drafted: int) -> float:
    """The cost of a draft of so many tokens, in decodes of one token."""
    return START + COST * drafted if drafted else 0.0


class DraftBudget:
    """The decodes that drafts may still lose: less than they have saved, and a bit.

    Attributes:
        token_cost: what it takes to find a token, in decodes of one token of the model that
            verifies it.
    """

    def __init__(self) -> None:
        self._credit = CREDIT
        self.token_cost = 0.0

    @property
    def affords(self) -> int:
        """The number of tokens that may be drafted now."""
        return max(0, int((self._credit - START) / (COST + self.token_cost) + 1e-9))

    def charge(self, drafted: int, saved: float) -> None:
        """A decode is over that had so many drafted tokens, which saved so many decodes."""
        cost = find_cost(drafted) + self.token_cost * drafted
        credit = self._credit + ALLOWANCE + saved - cost
        self._credit = min(credit, MAX_CREDIT)
