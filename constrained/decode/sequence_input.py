"""The tokens of one turn on their way into the KV cache of its sequence."""

from collections.abc import Sequence

from constrained.engine.protocol import Chunk
from constrained.kv.sequences import PrefixMatch, Sequences


class SequenceInput:
    """The tokens that the model has to see: the rest of the prompt, then those of the turn.

    Behind the tokens that are certain, a chunk may have a draft. The KV cache then has tokens that
    the turn does not have, until they are verified or forgotten.

    Args:
        sequences: of the engine.
        match: the sequence, and how many tokens of the prompt it has already.
        prompt: token ids.

    Attributes:
        number: of the sequence.
        cached: the number of tokens of the prompt that the sequence had at first.
        position: the number of tokens that the model has seen and the turn has.
        passes: decodes that the sequence took part in.
        drafted: the number of drafted tokens that the model has seen.
        accepted: the number of those that the turn has come to have.
    """

    def __init__(self, sequences: Sequences, match: PrefixMatch, prompt: Sequence[int]):
        self._sequences = sequences
        self.number = match.sequence
        self._pending = list(prompt[match.length :])
        self._certain = match.length  # the position behind the certain tokens of the last chunk
        self.prompt = list(prompt)
        self.cached = match.length
        self.position = match.length
        self.passes = 0
        self.drafted = 0
        self.accepted = 0

    @property
    def pending(self) -> int:
        """The number of tokens that the model has not seen yet."""
        return len(self._pending)

    @property
    def unread(self) -> int:
        """The number of tokens of the prompt that it has not."""
        return max(0, len(self.prompt) - self.position)

    @property
    def row(self) -> int:
        """The index of the next logits: how many tokens of the last draft the turn has."""
        return self.position - self._certain

    @property
    def can_draft(self) -> bool:
        """True if the prompt is read, and the model could forget a token drafted in vain."""
        if self.unread:
            return False
        return self._sequences.engine.can_cut(self.number, self._count_computed() - 1)

    def _count_computed(self) -> int:
        return len(self._sequences.tokens(self.number))

    def next_chunk(self, max_tokens: int, draft: Sequence[int]) -> Chunk:
        """The tokens that the model has to see next.

        Args:
            max_tokens: tokens of the chunk, at most.
            draft: follows those that are certain, if these fit; then it has to fit as well.
        """
        if max_tokens < len(self._pending):
            return Chunk(self.number, self._pending[:max_tokens], self.position, wanted=0)
        tokens = [*self._pending, *draft]
        return Chunk(self.number, tokens, self.position, wanted=1 + len(draft))

    def note_decoded(self, chunk: Chunk) -> int:
        """The model has seen the chunk; returns how many tokens of it were drafted."""
        certain = min(len(chunk.tokens), len(self._pending))
        drafted = len(chunk.tokens) - certain
        del self._pending[:certain]
        self.position += certain
        self._certain = self.position
        self.passes += 1
        self.drafted += drafted
        return drafted

    def append(self, token: int) -> bool:
        """The turn has a token more; true if the model has seen it already, in the draft."""
        if not self._pending:
            computed = self._sequences.tokens(self.number)
            if self.position < len(computed) and computed[self.position] == token:
                self.position += 1
                self.accepted += 1
                return True
        self._pending.append(token)
        return False

    def forget_ahead(self, tokens: Sequence[int]) -> None:
        """Makes the model forget what it has seen beyond the position of the turn: drafted tokens
        that the turn does not have, or a decode that counts for nothing.

        Args:
            tokens: all that the turn has behind its prompt.
        """
        if self._count_computed() == self.position:
            return
        if self._sequences.rollback(self.number, self.position):
            return
        # It could forget when that was asked, but the decode has moved a sliding window on: all is
        # computed again.
        self._sequences.release(self.number)
        self.position = 0
        self._pending = [*self.prompt, *tokens]

    def rewind(self, tokens: Sequence[int]) -> bool:
        """Makes the model forget all but the prompt and these tokens.

        The last of them is decoded again, for its logits.

        Returns:
            False if the model keeps no past; then nothing has changed.
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
