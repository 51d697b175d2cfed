"""The tokens that can begin a call: their total probability is how likely the model finds one."""

from collections.abc import Sequence

import numpy as np

from constrained.engine.vocabulary.vocabulary import Vocabulary

_LEADS = (b"", b" ", b"\n", b"\n\n")  # white space that a token may have before an opening


class CallOpenings:
    """Finds the tokens that go along a text that opens a call, however it is cut into tokens."""

    def __init__(self, openings: Sequence[str], vocabulary: Vocabulary):
        self._openings = [opening.encode() for opening in openings]
        self._vocabulary = vocabulary
        self._known: dict[bytes, np.ndarray | None] = {}

    def find(self, written: bytes) -> np.ndarray | None:
        """Finds the ids of the tokens that begin or continue the opening of a call, after the bytes
        since the last reasoning or content; None: these are not the beginning of an opening, or
        already have a whole one."""
        written = written.lstrip()
        if written not in self._known:
            self._known[written] = self._find_along(written)
        return self._known[written]

    def _find_along(self, written: bytes) -> np.ndarray | None:
        found: set[int] = set()
        is_along = False
        for opening in self._openings:
            if not opening.startswith(written) or opening == written:
                continue
            is_along = True
            rest = opening[len(written) :]
            for lead in (b"",) if written else _LEADS:
                found.update(self._vocabulary.find_along(lead + rest, least=len(lead) + 1))
        return np.array(sorted(found), dtype=np.int64) if is_along else None
