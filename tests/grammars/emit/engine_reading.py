"""A turn under way in the grammar of another engine, token by token."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence


class EngineReading(ABC):
    """What an engine says to the tokens of a turn."""

    @abstractmethod
    def allowed(self, tokens: Sequence[int]) -> list[int]:
        """Returns those of the tokens that may come next."""

    @abstractmethod
    def commit(self, token: int) -> None:
        """Goes on after a token that is allowed."""

    @abstractmethod
    def reset(self) -> None:
        """Goes back in front of the turn."""

    @property
    @abstractmethod
    def may_end(self) -> bool:
        """May the turn end here?"""

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Are these tokens a whole turn?"""
        self.reset()
        for token in tokens:
            if not self.allowed([token]):
                return False
            self.commit(token)
        return self.may_end

    def walk(
        self,
        tokens: Sequence[int],
        closers: Sequence[Sequence[int]],
        draw: random.Random,
        steps: int = 300,
    ) -> list[int] | None:
        """Returns a random turn; None if it finds no end.

        Args:
            tokens: those that it may have in it.
            closers: texts that bring a turn to its end; they are tried first once it is long.
            draw: the source of chance.
            steps: how long a turn may be.
        """
        self.reset()
        turn: list[int] = []
        patience = draw.randint(0, 40)
        while len(turn) < steps:
            hurry = len(turn) > patience
            if draw.random() < (0.9 if hurry else 0.3) and self.may_end:
                return turn
            token = self._draw(tokens, closers if hurry else (), draw)
            if token is None:
                return turn if self.may_end else None
            self.commit(token)
            turn.append(token)
        return None

    def _draw(
        self, tokens: Sequence[int], closers: Sequence[Sequence[int]], draw: random.Random
    ) -> int | None:
        for closer in closers:
            if self.allowed(closer[:1]):
                return closer[0]
        allowed = self.allowed(tokens)
        return draw.choice(allowed) if allowed else None
