"""What the model has seen ahead of a turn: drafted tokens, which the turn may not come to have."""

from collections.abc import Sequence

from constrained.decode.drafts import COST, Drafter
from constrained.errors import GrammarError
from constrained.mask import Matcher


class Ahead:
    """The drafts of one turn.

    Args:
        drafter: proposes them; None: there are none.

    Attributes:
        drafted: how many tokens the model has looked at that were drafted.
        accepted: how many of those the turn has come to have.
    """

    def __init__(self, drafter: Drafter | None):
        self._drafter = drafter
        self._tokens: list[int] = []
        self._size = 0
        self._saved = 0.0
        self.drafted = self.accepted = 0

    @property
    def place(self) -> int:
        """How many tokens of the last draft the turn has, if it has none but those."""
        return self._size - len(self._tokens)

    @property
    def may_draft(self) -> bool:
        """Is there any use in asking for a draft?"""
        return self._drafter is not None

    def propose(self, matcher: Matcher | None, most: int) -> list[int]:
        """Tokens that may come next, at most so many."""
        if self._drafter is None:
            return []
        try:
            return self._drafter.propose(matcher, most)
        except GrammarError:  # if the matcher itself has failed, it says so when it is needed
            self._drafter = None
            return []

    def see(self, draft: Sequence[int]) -> None:
        """The model has seen these tokens ahead of the turn."""
        self._tokens, self._size, self._saved = [*draft], len(draft), 0.0
        self.drafted += len(draft)

    def note(self, token: int, *, is_forced: bool) -> bool:
        """The turn goes on with this token; has the model seen it already?"""
        if self._drafter:
            self._drafter.note(token, is_forced=is_forced)
        if self._tokens[:1] == [token]:
            del self._tokens[0]
            self.accepted += 1
            self._saved += COST if is_forced else 1  # a forced one would have gone with the next
            return True
        self._tokens.clear()
        return False

    def settle(self) -> bool:
        """The turn has taken what it could of the last draft; was there one?"""
        if self._drafter:
            self._drafter.settle(self._size, self._saved)
        self._tokens.clear()
        return self._size > 0

    def cut(self, count: int) -> None:
        """The turn has only its first tokens, so many."""
        self._tokens.clear()
        if self._drafter:
            self._drafter.cut(count)
