"""Speculative decoding of one turn: chooses drafts, and charges their budgets.

A draft is decoded together with the last certain token. Then the sampler draws token by token, and
the drafted tokens are accepted as long as they are the ones drawn. Decoding several tokens takes
little more time than one; the budgets limit the time that rejected drafts may cost.
"""

import logging
import time
from collections.abc import Sequence

from constrained.deadline import Clock
from constrained.decode.drafts.draft_budget import COST, find_cost
from constrained.decode.drafts.draft_model import ModelDrafter
from constrained.decode.drafts.prompt_lookup import PromptLookup
from constrained.decode.turn_part import TurnPart
from constrained.errors import Error, GrammarError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary

LOG = logging.getLogger("constrained.decode.drafts")


class Speculation(TurnPart):
    """Speculative decoding of one turn: drafts come from prompt lookup, or else from a draft model.

    Args:
        prompt: token ids.
        vocabulary: of the model.
        drafter: drafts with the draft model; None: there is none.
        clock: in seconds; for the time of decodes.
    """

    name = "speculation"

    def __init__(
        self,
        prompt: Sequence[int],
        vocabulary: Vocabulary,
        drafter: ModelDrafter | None = None,
        *,
        clock: Clock = time.monotonic,
    ):
        self._lookup: PromptLookup | None = PromptLookup(prompt, vocabulary)
        self._drafter = drafter
        self._is_of_model = False  # the last draft is of the draft model
        self._drafted = 0  # tokens of the last draft
        self._saved = 0.0  # decodes that the last draft has saved
        self._clock = clock
        self._proposed = clock()

    def propose(self, matcher: Matcher | None, max_tokens: int) -> list[int]:
        """Returns a draft of up to `max_tokens` tokens; it may be empty."""
        if self._lookup is None:
            return []
        self._is_of_model = False
        try:
            draft = self._lookup.propose(matcher, max_tokens)
            if not draft and self._drafter is not None:
                draft = self._ask_model(self._drafter, self._lookup.tokens, matcher, max_tokens)
        except GrammarError:  # a fork has failed; if the matcher has, its next use raises, too
            self._lookup = None
            return []
        self._proposed = self._clock()
        return draft

    def _ask_model(
        self, drafter: ModelDrafter, tokens: Sequence[int], matcher: Matcher | None, max_tokens: int
    ) -> list[int]:
        try:
            draft = drafter.propose(tokens, matcher, max_tokens)
        except GrammarError:
            raise
        except Error as error:  # the turn can continue without drafts
            LOG.warning("the draft model failed, the turn continues without it: %s", error)
            self._drafter = None
            return []
        self._is_of_model = bool(draft)
        return draft

    def begin(self, drafted: int, *, decoded: int | None) -> None:
        """Notes that a draft was decoded; the turn has not taken any of its tokens yet.

        Args:
            drafted: the number of its tokens.
            decoded: the number of all tokens of the chunk; None: prompt tokens are among them.
        """
        self._drafted, self._saved = drafted, 0.0
        if self._drafter is not None and decoded is not None:
            # An estimate for one token: a decode with more tokens takes longer.
            seconds = (self._clock() - self._proposed) / (1 + find_cost(decoded - 1))
            self._drafter.note_decode(seconds)

    def after_take(self, token: int, *, is_forced: bool, is_computed: bool) -> None:
        if self._lookup is not None:
            self._lookup.note(token, is_forced=is_forced)
        if is_computed:
            # Without the draft, a forced token would only have made the next decode longer.
            self._saved += COST if is_forced else 1.0

    def charge(self) -> None:
        """Charges the last draft to the budget of its kind, after the turn has taken its tokens."""
        copied, saved = self._drafted, self._saved
        if self._is_of_model:
            copied, saved = 0, 0.0
        if self._lookup is not None:
            self._lookup.charge(copied, saved)
        if self._drafter is not None:
            of_model = self._drafted - copied
            self._drafter.budget.charge(of_model, self._saved - saved)

    def rewind(self, count: int) -> None:
        if self._lookup is not None:
            self._lookup.cut(count)
