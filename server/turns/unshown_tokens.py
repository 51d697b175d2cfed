"""Tokens whose log probabilities wait for the text that they spell."""

from collections.abc import Sequence

from constrained.mask.logprobs import TokenDrawn


class UnshownTokens:
    """The tokens that are not shown yet, in order."""

    def __init__(self) -> None:
        self._waiting: list[TokenDrawn] = []
        self._rest = b""  # the end of the token that was shown last, after the content
        self._is_inside = False  # the piece before was content, too

    def add(self, token: TokenDrawn) -> None:
        self._waiting.append(token)

    def take_all(self) -> Sequence[TokenDrawn]:
        """They spell no content."""
        taken, self._waiting = self._waiting, []
        self._rest, self._is_inside = b"", False
        return taken

    def take(self, text: str) -> Sequence[TokenDrawn]:
        """Returns the tokens that spell a piece of content. Tokens of the structure before it are
        left out; tokens after it wait for the text that they spell. If they spell it in another
        form, as with bytes that are no UTF-8, all tokens are returned."""
        data = text.encode("utf-8", "surrogatepass")
        if not data:
            return []
        start = self._find(data)
        if start is None:
            taken = self.take_all()
            self._is_inside = True
            return taken
        end = start + len(data)
        kept = list[TokenDrawn]()
        waiting = list[TokenDrawn]()
        position = len(self._rest)
        rest = self._rest[end:]
        for token in self._waiting:
            after = position + len(token.text)
            if position >= end:
                waiting.append(token)
            elif after > start:
                kept.append(token)
                rest = token.text[end - position :]
            position = after
        self._waiting, self._rest, self._is_inside = waiting, rest, True
        return kept

    def _find(self, data: bytes) -> int | None:
        """Returns where a piece of content begins in the text that is not shown yet; None: it is
        not there.

        Content that goes on is the first of that. Otherwise structure comes before it, which may
        contain the same text (`<final>` before an `a`), so the search begins at the end.
        """
        spelled = self._rest + b"".join(token.text for token in self._waiting)
        if self._is_inside and spelled.startswith(data):
            return 0
        place = spelled.rfind(data)
        return None if place < 0 else place
