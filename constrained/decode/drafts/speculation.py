"""Speculative decoding of one turn: chooses drafts, and charges their budgets.

A draft is decoded together with the last certain token. Then the sampler samples token by token,
and the drafted tokens are accepted as long as they are the sampled ones. Decoding several tokens
takes little more time than one; the budgets limit the time that rejected drafts may cost.
"""

from collections.abc import Sequence
from typing import NamedTuple

from constrained.decode.drafts.decode_costs import ALONE, DraftCosts
from constrained.decode.drafts.draft_model import DraftAsk, ModelDrafter
from constrained.decode.drafts.prompt_lookup import PromptLookup
from constrained.decode.turn_part import TurnPart
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher


class Draft(NamedTuple):
    """A draft, or what to ask the draft model for.

    Args:
        tokens: may be empty.
        ask: for the draft model; None: it is not asked.
    """

    tokens: Sequence[int]
    ask: DraftAsk | None


NO_DRAFT = Draft((), None)


class Speculation(TurnPart):
    """Speculative decoding of one turn: drafts come from prompt lookup, or else from a draft model.

    Args:
        prompt: token ids.
        vocabulary: of the model.
        drafter: drafts with the draft model; None: there is none.
    """

    name = "speculation"

    def __init__(
        self,
        prompt: Sequence[int],
        vocabulary: Vocabulary,
        drafter: ModelDrafter | None = None,
    ):
        self._lookup: PromptLookup | None = PromptLookup(prompt, vocabulary)
        self._drafter = drafter
        self._costs = ALONE  # of the last draft
        self._ask: DraftAsk | None = None  # the draft model was asked for the last draft
        self._drafted = 0  # tokens of the last draft
        self._saved = 0.0  # decodes that the last draft has saved

    def propose(self, matcher: Matcher | None, max_tokens: int, costs: DraftCosts) -> Draft:
        """Returns a draft by prompt lookup, or else what to ask the draft model for.

        Args:
            matcher: of the turn; it is not changed.
            max_tokens: the maximum number of tokens of the draft.
            costs: of verifying it.
        """
        self._costs, self._ask = costs, None
        if self._lookup is None:
            return NO_DRAFT
        try:
            tokens = self._lookup.propose(matcher, max_tokens, costs)
        except GrammarError:  # a fork has failed; if the matcher has, its next use raises, too
            self._lookup = None
            return NO_DRAFT
        if not tokens and self._drafter is not None:
            self._ask = self._drafter.ask(self._lookup.tokens, matcher, max_tokens, costs)
        return Draft(tokens, self._ask)

    def take_answer(self, ask: DraftAsk) -> list[int]:
        """Returns the draft that the draft model has made."""
        if ask.has_failed:  # as in `propose`
            self._lookup = None
            return []
        if ask.has_no_room:
            self._drafter = None
        return ask.draft

    def leave_model(self) -> None:
        """Goes on without the draft model, which has failed."""
        self._drafter = None

    def begin(self, drafted: int) -> None:
        """Notes that a draft of some tokens was decoded; the turn has not taken any of them yet."""
        self._drafted, self._saved = drafted, 0.0

    def after_take(self, token: int, *, is_forced: bool, is_computed: bool) -> None:
        if self._lookup is not None:
            self._lookup.note(token, is_forced=is_forced)
        if is_computed:
            # Without the draft, a forced token would only have made the next decode longer.
            self._saved += self._costs.token if is_forced else 1.0

    def charge(self) -> None:
        """Charges the last draft to the budget of its kind, after the turn has taken its tokens."""
        verifying = self._costs.find(self._drafted)
        is_of_model = self._ask is not None
        if self._lookup is not None:
            if is_of_model:
                self._lookup.recover()
            else:
                self._lookup.charge(verifying, self._saved)
        if self._drafter is not None:
            if is_of_model:
                self._drafter.budget.charge(verifying + self._count_drafting(), self._saved)
            else:
                self._drafter.budget.recover()
        self._ask = None

    def _count_drafting(self) -> float:
        """Returns what drafting the last draft has cost, in decodes of the turn."""
        if self._ask is None or not self._costs.turn_seconds:
            return 0.0
        return self._ask.drafting_seconds / self._costs.turn_seconds

    def rewind(self, count: int) -> None:
        if self._lookup is not None:
            self._lookup.cut(count)
