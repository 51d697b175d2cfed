"""Speculative decoding of one turn: where drafts come from, and the account of what they save.

The next tokens that are likely are decoded together with the last one that is certain, and then
checked one by one: they are kept as far as they are what would have been drawn anyway. Several
tokens then cost little more than one; but those that were drafted in vain are a loss, which is kept
small.
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
    """Speculative decoding of one turn. What repeats a text is copied; a draft model, if there is
    one, is asked about the rest.

    Args:
        prompt: in front of the turn.
        vocabulary: that of the model.
        drafter: asks the draft model; None: there is none.
        clock: for the time of decodes.
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
        self._is_of_model = False  # the last draft
        self._drafted = 0  # tokens of the last draft
        self._saved = 0.0  # decodes that it has saved
        self._clock = clock
        self._proposed = clock()

    def propose(self, matcher: Matcher | None, max_tokens: int) -> list[int]:
        """Tokens that may come next, at most so many."""
        if self._lookup is None:
            return []
        self._is_of_model = False
        try:
            draft = self._lookup.propose(matcher, max_tokens)
            if not draft and self._drafter is not None:
                draft = self._ask_model(self._drafter, self._lookup.tokens, matcher, max_tokens)
        except GrammarError:  # if the matcher itself has failed, it says so when it is needed
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
        except Error as error:  # the turn does not need drafts
            LOG.warning("the draft model failed, the turn goes on without it: %s", error)
            self._drafter = None
            return []
        self._is_of_model = bool(draft)
        return draft

    def begin(self, drafted: int, *, decoded: int | None) -> None:
        """The model has seen so many drafted tokens; the turn has none of them yet.

        Args:
            drafted: the number of these tokens.
            decoded: that of all tokens of the decode; None: some of the prompt were among them.
        """
        self._drafted, self._saved = drafted, 0.0
        if self._drafter is not None and decoded is not None:
            # About what a decode of one token takes: further ones make it longer.
            seconds = (self._clock() - self._proposed) / (1 + find_cost(decoded - 1))
            self._drafter.note_decode(seconds)

    def after_take(self, token: int, *, is_forced: bool, is_computed: bool) -> None:
        if self._lookup is not None:
            self._lookup.note(token, is_forced=is_forced)
        if is_computed:
            # Without the draft, a forced token would have been one more of the next decode.
            self._saved += COST if is_forced else 1.0

    def charge(self) -> None:
        """The turn has taken what it could of the last draft."""
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
