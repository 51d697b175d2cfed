"""The engine that generation needs: decodes tokens of several sequences, draws the next ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from constrained.engine.sampling import SEEDS as SEEDS
from constrained.engine.sampling import Sampling as Sampling
from constrained.vocabulary.vocabulary import Vocabulary

MAX_DRAFTED = 12  # tokens of one decode: each has logits, 0.6 MB for 152,000 tokens


@dataclass(frozen=True)
class Chunk:
    """Tokens to append to a sequence."""

    sequence: int
    """The number of the sequence, from 0 up to the engine's `max_sequences`."""
    tokens: Sequence[int]
    position: int
    """The position of the first token, from 0: the number of tokens that are there already."""
    wanted: int = 1
    """The number of tokens, counted from the last one, after which the logits are wanted."""

    @property
    def drafted(self) -> int:
        """The number of tokens whose logits are wanted beyond one: those of a draft."""
        return max(0, self.wanted - 1)


class Sampler(Protocol):
    """Draws the tokens of one reply."""

    def sample(self, slot: int) -> int:
        """Draws from row `slot` of the logits of the last decode, and accepts the token."""
        ...

    def accept(self, token: int) -> None:
        """Takes note of a token that was not drawn but forced."""
        ...

    def recall(self, tokens: Sequence[int]) -> None:
        """These are the tokens so far, the prompt included, and no others: penalties count them."""
        ...

    def close(self) -> None:
        """Frees the sampler; a second time does nothing."""
        ...


class ModelEngine(Protocol):
    """What runs a model, as far as requests are concerned."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def context_length(self) -> int:
        """The number of tokens that one sequence can have."""
        ...

    @property
    def max_sequences(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """What weights and context take, roughly; 0: not known."""
        ...

    @property
    def path(self) -> Path | None:
        """The model's file, of a split one the first part; None: there is none."""
        ...

    def close(self) -> None:
        """Frees everything; a second time does nothing."""
        ...


class Engine(ModelEngine, Protocol):
    """A model that keeps several sequences. Not for two threads at once."""

    @property
    def needs_checkpoints(self) -> bool:
        """True if the model forgets the past of a sequence (it is recurrent, or a hybrid): then a
        sequence can go back to its checkpoints alone."""
        ...

    @property
    def offloads(self) -> bool:
        """True if another device decodes, so that the CPU has time for other things."""
        ...

    @property
    def fingerprint(self) -> str:
        """A name for what states depend on; raises ModelError if the model's file is gone."""
        ...

    @property
    def max_drafted(self) -> int:
        """The number of logits that a decode can give beside one for each sequence."""
        ...

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Appends chunks, one at most per sequence, and runs the model on them.

        Returns:
            For each token whose logits are wanted, in order, a row with those after it: float32, a
            column for each token of the vocabulary, valid until the next decode. What is changed in
            them is what `sample` sees.

        Raises:
            ValueError: a chunk is empty, not at the end of its sequence, or of no such sequence, or
                more logits are wanted than there can be.
            ContextError: it does not fit; nothing has changed.
            ModelError: the model failed; the sequences of the chunks are released.
        """
        ...

    def sampler(self, sampling: Sampling) -> Sampler:
        """Returns a sampler for the logits of this engine; raises RequestError for a bias of a
        token that it does not have."""
        ...

    def rollback(self, sequence: int, length: int) -> bool:
        """Forgets all tokens of a sequence but the first `length`.

        Returns:
            False if the model cannot (it keeps no past that a part could be taken from); then
            nothing has changed.
        """
        ...

    def can_cut(self, sequence: int, length: int) -> bool:
        """True if `rollback` or `copy` could cut the sequence to its first `length` tokens."""
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """Makes an empty sequence hold the first `length` tokens of another one.

        Raises:
            ValueError: the target is not empty, or the source cannot be cut there.
        """
        ...

    def state_size(self, sequence: int) -> int:
        """The number of bytes that `save` would return."""
        ...

    def save(self, sequence: int) -> bytes:
        """Returns the whole state of a sequence; raises ModelError if that cannot be had."""
        ...

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        """Gives an empty sequence a state that was saved, and so its `length` tokens.

        Raises:
            ValueError: the sequence is not empty.
            ModelError: it is no state of so many tokens for this engine; the sequence is released.
        """
        ...

    def checkpoint(self, sequence: int) -> bytes:
        """Returns what the sequence needs to go back to its present length; raises as `save`."""
        ...

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        """Forgets all tokens but the first `length`, those of a checkpoint of the same tokens.

        Raises:
            ValueError: the sequence has fewer.
            ModelError: it is no such checkpoint; the sequence is released.
        """
        ...

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence."""
        ...
