"""Which tokens of a turn the model has decoded, and which ones it gets next."""

from collections.abc import Sequence

from constrained.decode.kv.sequences import PrefixMatch, Sequences
from constrained.engine.protocol import Chunk


class SequenceInput:
    """The tokens of one sequence for the model: the rest of the prompt, then those of the turn.

    A chunk may have a draft after the certain tokens. Then the KV cache has tokens that are not in
    the turn, until they are accepted or forgotten.

    Attributes:
        cached: the number of prompt tokens that the sequence had at the start.
        position: the number of tokens of prompt and turn that are decoded.
        passes: the number of decodes with tokens of this turn.
        drafted: the number of drafted tokens that were decoded.
        accepted: the number of drafted tokens that the turn has taken.
    """

    def __init__(self, sequences: Sequences, match: PrefixMatch, prompt: Sequence[int]):
        self._sequences = sequences
        self.number = match.sequence
        self._pending = list(prompt[match.length :])
        self._has_draft = False  # the last chunk had one
        self._certain = match.length  # the position after the certain tokens of the last chunk
        self.prompt = list(prompt)
        self.cached = match.length
        self.position = match.length
        self.passes = 0
        self.drafted = 0
        self.accepted = 0

    @property
    def pending(self) -> int:
        """The number of tokens of prompt and turn that are not decoded yet."""
        return len(self._pending)

    @property
    def unread(self) -> int:
        """The number of prompt tokens that are not decoded yet."""
        return max(0, len(self.prompt) - self.position)

    @property
    def is_reading(self) -> bool:
        """True while prompt tokens are not decoded yet."""
        return self.position < len(self.prompt)

    @property
    def row(self) -> int:
        """The row of the next logits: the number of tokens of the last draft that were accepted."""
        return self.position - self._certain

    @property
    def can_draft(self) -> bool:
        """True if the prompt is decoded, and the model can forget a drafted token."""
        if self.is_reading:
            return False
        return self._sequences.engine.can_cut(self.number, self._count_computed() - 1)

    def _count_computed(self) -> int:
        return len(self._sequences.tokens(self.number))

    def next_chunk(self, max_tokens: int, draft: Sequence[int] = ()) -> Chunk:
        """Returns the next tokens for the model, `max_tokens` at most, followed by as much of the
        draft as fits."""
        if max_tokens < len(self._pending):
            return Chunk(self.number, self._pending[:max_tokens], self.position, wanted=0)
        draft = draft[: max_tokens - len(self._pending)]
        tokens = [*self._pending, *draft]
        return Chunk(self.number, tokens, self.position, wanted=1 + len(draft))

    def note_decoded(self, chunk: Chunk) -> int:
        """Notes that a chunk is decoded; returns how many of its tokens were drafted."""
        certain = min(len(chunk.tokens), len(self._pending))
        drafted = len(chunk.tokens) - certain
        del self._pending[:certain]
        self.position += certain
        self._certain = self.position
        self.passes += 1
        self.drafted += drafted
        self._has_draft = drafted > 0
        return drafted

    def append(self, token: int) -> bool:
        """Adds a token of the turn; True if it was drafted, so it is already decoded."""
        if self._has_draft and not self._pending:
            computed = self._sequences.tokens(self.number)
            if self.position < len(computed) and computed[self.position] == token:
                self.position += 1
                self.accepted += 1
                return True
        self._pending.append(token)
        return False

    def forget_draft(self, tokens: Sequence[int]) -> None:
        """Removes rejected drafted tokens from the KV cache."""
        if self._count_computed() == self.position:
            return
        if self._sequences.rollback(self.number, self.position):
            return
        # The last decode has moved a sliding window, so the model cannot go back any more: prompt
        # and turn are decoded again.
        self._sequences.release(self.number)
        self.position = 0
        self._pending = [*self.prompt, *tokens]

    def rewind(self, tokens: Sequence[int]) -> bool:
        """Cuts the sequence to the prompt and these tokens.

        The last of them is decoded again, for its logits.

        Returns:
            False if the model cannot go back; then nothing has changed.
        """
        wanted = [*self.prompt, *tokens]
        position = min(self.position, len(wanted) - 1)
        if position < self.position:
            kept = self._sequences.go_back(self.number, position)
            if kept is None:
                return False
            position = kept
        self.position = position
        self._pending = wanted[position:]
        return True
