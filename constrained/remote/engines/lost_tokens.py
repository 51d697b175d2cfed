"""Finds the ids of tokens that an engine has sampled but not sent, by the bytes that they spell.

llama-server streams no event while the text ends inside a UTF-8 character: the ids of all tokens of
a character except the last are lost. The event that completes the character has their number and
their text. If several tokens spell the same bytes, any of them gives the same reply.
"""

from functools import cached_property

from constrained.engine.vocabulary.vocabulary import Vocabulary, ends_inside

MAX_BYTES = 256  # of a part without ids; a character has up to 4, several may come together


class LostTokens:
    """Finds tokens for bytes."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        ordinary: dict[bytes, int] = {}
        for token, data in enumerate(self._vocabulary.tokens):
            if data and token not in self._vocabulary.structural:
                ordinary.setdefault(data, token)
        return ordinary

    def find(self, data: bytes, count: int) -> list[int] | None:
        """Finds `count` tokens that spell these bytes, each ending inside a character; None: there
        are none."""
        if len(data) > MAX_BYTES or count > len(data):
            return None
        # For each offset: the tokens that lead to it, by their number.
        paths: list[dict[int, list[int]]] = [{} for _ in range(len(data) + 1)]
        paths[0][0] = []
        for start in range(len(data)):
            for used, tokens in paths[start].items():
                for end in range(start + 1, len(data) + 1):
                    token = self._ids.get(data[start:end])
                    if token is not None and used < count and ends_inside(data[:end]):
                        paths[end].setdefault(used + 1, [*tokens, token])
        return paths[-1].get(count)
