"""Speculative decoding of one turn: chooses drafts, and charges their budgets.

A draft is decoded together with the last certain token. Then the sampler samples token by token,
and the drafted tokens are accepted as long as they are the sampled ones. Decoding several tokens
takes little more time than one; the budgets limit the time that rejected drafts may cost.
"""

from collections.abc import Sequence

from constrained.decode.drafts.decode_costs import ALONE, DraftCosts
from constrained.decode.drafts.prompt_lookup import PromptLookup
from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher


class Speculation(TurnPart):
    """Speculative decoding of one turn, with drafts by prompt lookup."""

    name = "speculation"

    def __init__(self, prompt: Sequence[int], vocabulary: Vocabulary):
        self._lookup: PromptLookup | None = PromptLookup(prompt, vocabulary)
        self._costs = ALONE  # of the last draft
        self._drafted = 0  # tokens of the last draft
        self._saved = 0.0  # decodes that the last draft has saved

    def propose(self, matcher: Matcher | None, max_tokens: int, costs: DraftCosts) -> Sequence[int]:
        """Returns a draft; it is empty if none pays."""
        self._costs = costs
        if self._lookup is None:
            return ()
        try:
            return self._lookup.propose(matcher, max_tokens, costs)
        except GrammarError:  # a fork has failed; if the matcher has, its next use raises, too
            self._lookup = None
            return ()

    def begin(self, drafted: int) -> None:
        """Notes that a draft of some tokens was decoded; the turn has not taken any of them yet."""
        self._drafted, self._saved = drafted, 0.0

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        if self._lookup is not None:
            self._lookup.note(token, is_forced=is_forced)
        if is_computed:
            # Without the draft, a forced token would only have made the next decode longer.
            self._saved += self._costs.token if is_forced else 1.0

    def charge(self) -> None:
        """Charges the last draft to its budget, after the turn has taken its tokens."""
        if self._lookup is not None:
            self._lookup.charge(self._costs.find(self._drafted), self._saved)

    def rewind(self, count: int) -> None:
        if self._lookup is not None:
            self._lookup.cut(count)
