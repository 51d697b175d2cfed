"""Healing: where a client's text ends, the model chooses how it is cut into tokens.

Text that was cut off inside a word ends with a token that the model would not have written there.
So the last token of such a text is not committed: the first tokens that are generated have to spell
its bytes, and the last of them may go beyond. Half a marker in the end of it stays text.
"""

from collections.abc import Iterable

import numpy as np

from constrained.decode.assistant_prefix import AssistantPrefix
from constrained.errors import GrammarError
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary


class Healing:
    """Holds the beginning of one turn to a text. Stateless: the turn may go back.

    Args:
        prefix: the text: what the first generated tokens have to spell, and what may not follow.
        vocabulary: that of the model.
    """

    def __init__(self, prefix: AssistantPrefix, vocabulary: Vocabulary):
        self._text = prefix.rest
        self._markers = [(prefix.healed + half).encode() for half in prefix.halves]
        self._vocabulary = vocabulary

    def is_over(self, written: bytes | bytearray) -> bool:
        """Is all of the text spelled by what was generated?"""
        return len(written) >= len(self._text)

    def steer(self, logits: np.ndarray, written: bytes | bytearray) -> None:
        """Forbids, in place, what does not spell the text, or makes a marker of it.

        Args:
            logits: as the mask has left them.
            written: what was generated so far.

        Raises:
            GrammarError: nothing is left.
        """
        if not self.is_over(written):
            fit = find_spellings(self._text[len(written) :], self._vocabulary)
            kept = logits[fit]
            logits[:] = -np.inf
            logits[fit] = kept
        halves = [m[len(written) :] for m in self._markers if m.startswith(written)]
        if halves := [half for half in halves if half]:
            logits[self._find_completing(tuple(halves))] = -np.inf
        elif self.is_over(written):
            return
        if not np.isfinite(logits).any():
            raise GrammarError("the text to go on with cannot be spelled here")

    def _find_completing(self, halves: tuple[bytes, ...]) -> list[int]:
        """The tokens that begin with one of these."""
        return [n for n, text in enumerate(self._vocabulary.tokens) if text.startswith(halves)]

    def check(self, tokens: Iterable[int], written: bytes | bytearray) -> None:
        """Makes sure that tokens spell the text, as far as it goes.

        Raises:
            GrammarError: they do not.
        """
        rest = self._text[len(written) :]
        for token in tokens:
            if not rest:
                return
            text = self._vocabulary.tokens[token]
            if not text or token in self._vocabulary.structural or not _is_along(text, rest):
                raise GrammarError("the turn deviates from the text that it has to go on with")
            rest = rest[len(text) :]


def find_spellings(rest: bytes, vocabulary: Vocabulary) -> np.ndarray:
    """The tokens of ordinary text that begin to spell these bytes, or go beyond them."""
    structural = vocabulary.structural
    fit = (n for n, text in enumerate(vocabulary.tokens) if text and _is_along(text, rest))
    return np.array([n for n in fit if n not in structural], np.intp)


def spell(matcher: Matcher, rest: bytes, vocabulary: Vocabulary) -> list[int] | None:
    """Few tokens that spell these bytes, and go beyond them only where the matcher takes no others:
    where it forces a text, it insists on the usual tokens of that. Commits them.

    Returns:
        None if the matcher knows no such tokens.
    """
    tokens: list[int] = []
    while rest:
        mask = matcher.mask()
        fit = [int(n) for n in find_spellings(rest, vocabulary) if mask[n]]
        sizes = {n: len(vocabulary.tokens[n]) for n in fit}
        inside = [n for n in fit if sizes[n] <= len(rest)]
        if not fit:
            return None
        token = max(inside, key=sizes.__getitem__) if inside else min(fit, key=sizes.__getitem__)
        matcher.commit(token)
        tokens.append(token)
        rest = rest[sizes[token] :]
    return tokens


def _is_along(text: bytes, rest: bytes) -> bool:
    return rest.startswith(text) or text.startswith(rest)
