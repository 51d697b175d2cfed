"""Tokens whose log probabilities wait for the text that they spell."""

from collections.abc import Sequence

from constrained.logits import TokenDrawn


class DrawnTokens:
    """The tokens that were drawn and are not shown yet, in order."""

    def __init__(self) -> None:
        self._waiting: list[TokenDrawn] = []

    def add(self, token: TokenDrawn) -> None:
        """Adds a token."""
        self._waiting.append(token)

    def take_all(self) -> Sequence[TokenDrawn]:
        """Returns all tokens."""
        taken, self._waiting = self._waiting, []
        return taken

    def take(self, text: str) -> Sequence[TokenDrawn]:
        """Returns the tokens that spell a piece of content. Tokens of the structure before it are
        left out; tokens after it wait for the text that they spell."""
        data = text.encode("utf-8", "surrogatepass")
        spelled = b"".join(token.text for token in self._waiting)
        start = max(0, spelled.find(data))
        end = start + len(data)
        kept = list[TokenDrawn]()
        waiting = list[TokenDrawn]()
        position = 0
        for token in self._waiting:
            if position >= end:
                waiting.append(token)
            elif position + len(token.text) > start:
                kept.append(token)
            position += len(token.text)
        self._waiting = waiting
        return kept
