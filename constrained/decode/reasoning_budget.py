"""The reasoning budget: at most so many tokens inside the reasoning block, which is then closed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from constrained.decode.turn_part import TurnPart, TurnView
from constrained.errors import GrammarError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import Reasoning

LONGEST_REST = 3  # bytes that can follow the first one of a UTF-8 character


@dataclass(frozen=True)
class ReasoningBudget(TurnPart):
    """At most `tokens` tokens inside the reasoning block. Stateless: the turn counts them.

    Args:
        tokens: the bound; what closes the block is not counted. None: half of the tokens that the
            turn may have, so that the other half is left for what has to follow.
        closings: the texts that may close it, in tokens, the most complete one first.
        sentence: that stands in front of the closing marker, in tokens; often none.
    """

    name = "reasoning budget"

    tokens: int | None
    closings: tuple[tuple[int, ...], ...]
    sentence: tuple[int, ...] = ()

    def find_bound(self, limit: int) -> int:
        """How many tokens of reasoning a turn of at most so many tokens may have."""
        return limit // 2 if self.tokens is None else self.tokens

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids to begin a character that the budget might cut: one token may be one byte."""
        if not self.forbids(turn):
            return
        others = np.where(turn.vocabulary.beginnings, -np.inf, logits)
        if np.isfinite(others).any():
            logits[:] = others

    def forbids(self, turn: TurnView) -> bool:
        so_far = turn.transcript
        if not so_far.is_reasoning:
            return False
        return self.find_bound(turn.limit) - so_far.reasoning_tokens <= LONGEST_REST

    def is_spent(self, turn: TurnView) -> bool:
        """True if the turn is inside its reasoning block, and may have no more of it."""
        so_far = turn.transcript
        return so_far.is_reasoning and so_far.reasoning_tokens >= self.find_bound(turn.limit)

    def needs_text(self, turn: TurnView, coming: int) -> bool:
        so_far = turn.transcript
        if so_far.is_in_call:  # a block opens at the head of a turn alone: none begins behind it
            return False
        unwritten = turn.count - len(so_far.tokens)
        return so_far.reasoning_tokens + unwritten >= self.find_bound(turn.limit)

    def insert(self, turn: TurnView) -> Sequence[int]:
        """The tokens that close the block, once the budget is spent."""
        so_far = turn.transcript
        if not self.is_spent(turn):
            return ()
        if turn.matcher is None or so_far.is_healing:
            return ()
        return self._find_closing(turn.matcher, turn.limit - len(so_far.tokens))

    def _find_closing(self, matcher: Matcher, room: int) -> Sequence[int]:
        """The first closing that the grammar takes and that has room; else the shortest.

        Raises:
            GrammarError: the grammar takes none of them.
        """
        legal: list[tuple[int, ...]] = []
        for closing in self.closings:
            if matcher.accepts(closing) == len(closing):
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
    sentence: str = "",
) -> ReasoningBudget:
    """The budget of a request.

    Args:
        tokens: of reasoning, 0 or more; None: half of those of the turn.
        block: the reasoning block of the format.
        vocabulary, markers: for the tokens of the closings.
        sentence: stands in front of the closing marker when the budget is spent.
    """
    pad, closer = block.pad_close, block.closer.text
    texts = dict.fromkeys([sentence + pad + closer, pad + closer, closer])
    closings = [tuple(vocabulary.encode_marked(text, markers)) for text in texts]
    return ReasoningBudget(tokens, tuple(closings), tuple(vocabulary.encode(sentence)))
