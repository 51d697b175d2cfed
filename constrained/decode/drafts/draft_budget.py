"""The budget of drafts: accepted drafts save decodes, rejected ones cost time."""

# The costs of a draft, in decodes of one token: for the draft, and for each of its tokens. Fitted
# to decodes of 1 to 11 tokens on 2 cores (`python -m benchmarks.passes`); more cores make it less.
START, COST = 0.2, 0.3
# The decodes that drafts of one kind may lose: at first, more with each decode, and the maximum,
# however many they have saved.
CREDIT, ALLOWANCE, MAX_CREDIT = 1.5, 0.007, 8.0


def find_cost(drafted: int) -> float:
    """Returns the cost of verifying a draft of this many tokens, in decodes of one token."""
    return START + COST * drafted if drafted else 0.0


class DraftBudget:
    """How many decodes drafts may still lose: those that they have saved, and a small credit.

    Attributes:
        token_cost: the cost of drafting one token, in decodes of one token of the target model.
    """

    def __init__(self) -> None:
        self._credit = CREDIT
        self.token_cost = 0.0

    @property
    def affords(self) -> int:
        """The maximum number of tokens of the next draft."""
        return max(0, int((self._credit - START) / (COST + self.token_cost) + 1e-9))

    def charge(self, drafted: int, saved: float) -> None:
        """Charges a decode.

        Args:
            drafted: the number of its drafted tokens.
            saved: how many decodes the accepted ones have saved.
        """
        cost = find_cost(drafted) + self.token_cost * drafted
        credit = self._credit + ALLOWANCE + saved - cost
        self._credit = min(credit, MAX_CREDIT)
