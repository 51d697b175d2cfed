"""The reasoning budget: how many tokens the model may think, and how its block is closed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from constrained.errors import GrammarError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import Reasoning

LONGEST_REST = 3  # bytes that can follow the first one of a UTF-8 character


@dataclass(frozen=True)
class Budget:
    """At most `tokens` tokens inside the reasoning block.

    Args:
        tokens: the bound; what closes the block is not counted.
        closings: what may close it, in tokens, the most complete one first.
    """

    tokens: int
    closings: tuple[tuple[int, ...], ...]

    def keep_whole(self, logits: np.ndarray, thought: int, vocabulary: Vocabulary) -> None:
        """Forbids, in place, to begin a character that the budget might cut.

        Args:
            logits: as the mask has left them.
            thought: how many tokens of the budget are spent.
            vocabulary: that of the logits.
        """
        if self.tokens - thought <= LONGEST_REST:
            others = np.where(vocabulary.beginnings, -np.inf, logits)
            if np.isfinite(others).any():
                logits[:] = others

    def find_closing(self, matcher: Matcher, room: int) -> Sequence[int]:
        """The first closing that the grammar takes and that has room; else the shortest.

        Raises:
            GrammarError: the grammar takes none of them.
        """
        legal = [c for c in self.closings if matcher.accepts(c) == len(c)]
        if not legal:
            raise GrammarError("the reasoning block cannot be closed here")
        return next((c for c in legal if 2 * len(c) <= room), min(legal, key=len))


def make_budget(
    tokens: int,
    block: Reasoning,
    vocabulary: Vocabulary,
    markers: Mapping[str, int],
    sentence: str = "",
) -> Budget:
    """The budget of a request.

    Args:
        tokens: how many tokens of reasoning, 0 or more.
        block: how the format writes it.
        vocabulary, markers: for the tokens of what closes the block.
        sentence: stands in front of the closing marker when the budget is spent.
    """
    pad, closer = block.pad_close, block.closer.text
    texts = dict.fromkeys([sentence + pad + closer, pad + closer, closer])
    closings = (tuple(vocabulary.encode_marked(text, markers)) for text in texts)
    return Budget(tokens, tuple(closings))
