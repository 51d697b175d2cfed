"""The budget of drafts: accepted drafts save decodes, rejected ones cost time."""

from constrained.decode.drafts.decode_costs import ALONE, DraftCosts

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
