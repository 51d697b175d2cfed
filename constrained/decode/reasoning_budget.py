"""The reasoning budget: a maximum number of reasoning tokens, after which the block is closed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from constrained.decode.turn_part import TurnPart, TurnView
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher
from grammars.wire.format import Reasoning

LONGEST_REST = 3  # bytes that can follow the first one of a UTF-8 character


@dataclass(frozen=True)
class ReasoningBudget(TurnPart):
    """Limits the tokens inside the reasoning block. Stateless: the turn counts them.

    Args:
        tokens: the maximum, without the tokens that close the block. None: half of the tokens that
            the turn may have, so that the other half is left for the reply.
        closings: the texts that can close the block, as tokens; the most complete one first.
        sentence: the tokens of a sentence before the closing marker; often none.
    """

    name = "reasoning budget"

    tokens: int | None
    closings: tuple[tuple[int, ...], ...]
    sentence: tuple[int, ...] = ()

    def find_bound(self, limit: int) -> int:
        """Returns the maximum number of reasoning tokens of a turn of up to `limit` tokens."""
        return limit // 2 if self.tokens is None else self.tokens

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        """Near the end of the budget, forbids tokens that do not end with a whole character: the
        budget might cut it."""
        others = np.where(turn.vocabulary.beginnings, -np.inf, logits)
        if np.isfinite(others).any():
            logits[:] = others

    def forbids(self, turn: TurnView) -> bool:
        so_far = turn.transcript
        if not so_far.is_reasoning:
            return False
        return self.find_bound(turn.limit) - so_far.reasoning_tokens <= LONGEST_REST

    def is_spent(self, turn: TurnView) -> bool:
        """True if the turn is inside its reasoning block, and the budget is spent."""
        so_far = turn.transcript
        return so_far.is_reasoning and so_far.reasoning_tokens >= self.find_bound(turn.limit)

    def insert(self, turn: TurnView) -> Sequence[int]:
        """Returns the tokens that close the block, if the budget is spent."""
        so_far = turn.transcript
        if not self.is_spent(turn):
            return ()
        if turn.matcher is None or so_far.is_healing:
            return ()
        return self._find_closing(turn.matcher, turn.limit - len(so_far.tokens))

    def _find_closing(self, matcher: Matcher, room: int) -> Sequence[int]:
        """Returns the first closing that the grammar allows and that fits; else the shortest."""
        legal: list[tuple[int, ...]] = []
        for closing in self.closings:
            if matcher.count_accepted(closing) == len(closing):
                legal.append(closing)
        if not legal:
            raise GrammarError("the reasoning block cannot be closed here")
        for closing in legal:
            if 2 * len(closing) <= room:
                return closing
        return min(legal, key=len)


def make_budget(
    tokens: int | None,
    block: Reasoning,
    vocabulary: Vocabulary,
    markers: Mapping[str, int],
    sentence: str,
) -> ReasoningBudget:
    """Makes the budget of a request."""
    pad, closer = block.pad_close, block.closer.text
    texts = dict.fromkeys([sentence + pad + closer, pad + closer, closer])
    closings = [tuple(vocabulary.encode_marked(text, markers)) for text in texts]
    return ReasoningBudget(tokens, tuple(closings), tuple(vocabulary.encode(sentence)))
