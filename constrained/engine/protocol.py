"""The interface of engines: they decode tokens of several sequences and sample the next ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from constrained.engine.sampling import SEEDS as SEEDS
from constrained.engine.sampling import Sampling as Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary

MAX_DRAFTED = 12  # tokens of one decode: each has logits, 0.6 MB for 152,000 tokens


@dataclass(frozen=True)
class Chunk:
    """Tokens to append to a sequence."""

    sequence: int
    """The number of the sequence, from 0 up to the engine's `max_sequences`."""
    tokens: Sequence[int]
    position: int
    """The position of the first token, from 0: the number of tokens of the sequence so far."""
    wanted: int = 1
    """The number of last tokens for which logits are needed."""

    @property
    def drafted(self) -> int:
        return max(0, self.wanted - 1)


class DecodeSize(NamedTuple):
    """What a decode has computed, with all that the engine has added to it: passes of the model, 1
    if sequences share the cells of the KV cache, and tokens of all chunks."""

    passes: int = 0
    tokens: int = 0


class Sampler(Protocol):
    """Samples the tokens of one reply."""

    def sample(self, row: int) -> int:
        """Samples a token from this row of the logits of the last decode, and accepts it."""
        ...

    def accept(self, token: int) -> None:
        """Notes a token that was not sampled, for the penalties."""
        ...

    def recall(self, tokens: Sequence[int]) -> None:
        """Replaces the tokens that the penalties consider: the prompt and the turn so far."""
        ...

    def close(self) -> None:
        """Frees the sampler. A second call does nothing."""
        ...


class ModelEngine(Protocol):
    """An engine as far as requests are concerned; a remote one does not decode here."""

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
        """Estimated memory of weights and context, in bytes; 0: not known."""
        ...

    @property
    def path(self) -> Path | None:
        """The model file; of a split one, the first part. None: there is none."""
        ...

    def close(self) -> None:
        """Frees the model and its context. A second call does nothing."""
        ...


class Engine(ModelEngine, Protocol):
    """A model with a KV cache of several sequences. Not thread-safe."""

    @property
    def needs_checkpoints(self) -> bool:
        """True if a sequence can only go back to checkpoints: the model is recurrent or hybrid."""
        ...

    @property
    def offloads(self) -> bool:
        """True if another device decodes, so the CPU is free during a decode."""
        ...

    @property
    def splits_uneven(self) -> bool:
        """True if chunks of different sizes take several passes, each as long as a whole decode of
        one token of each sequence. On a CPU, a pass takes little more than its tokens."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of what saved states depend on; raises ModelError if the file cannot be read."""
        ...

    @property
    def max_drafted(self) -> int:
        """How many rows of logits a decode can return besides one for each sequence."""
        ...

    @property
    def last_decode(self) -> DecodeSize: ...

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Appends chunks to their sequences, and runs the model on them. There is at most one for
        each sequence, in ascending order: llama.cpp decodes only neighbours together.

        Returns logits of shape (tokens whose logits are needed, tokens of the vocabulary), float32,
        in the order of the chunks. They are valid until the next decode. Samplers see changes made
        to them.

        ValueError: a chunk is empty, out of order or not at the end of its sequence, or too many
        logits are requested; ContextError: the chunks do not fit into the context, nothing has
        changed; ModelError: the model failed, the sequences of the chunks are released.
        """
        ...

    def sampler(self, sampling: Sampling) -> Sampler:
        """Makes a sampler for the logits of this engine; raises RequestError if a bias is for a
        token that does not exist."""
        ...

    def rollback(self, sequence: int, length: int) -> bool:
        """Cuts a sequence to its first `length` tokens; False: the model cannot do that, nothing
        has changed."""
        ...

    def can_cut(self, sequence: int, length: int) -> bool:
        """Returns whether `rollback` and `copy` can cut the sequence to so many tokens."""
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` tokens of a sequence into an empty one. ValueError: the target
        is not empty, or the source cannot be cut there."""
        ...

    def state_size(self, sequence: int) -> int:
        """Returns the size of what `save` would return, in bytes."""
        ...

    def save(self, sequence: int) -> bytes:
        """Returns the whole state of a sequence; raises ModelError if the engine cannot."""
        ...

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        """Restores the state of `length` tokens, as `save` returned it, into an empty sequence.
        ModelError: it does not fit this engine or length; the sequence is released."""
        ...

    def checkpoint(self, sequence: int) -> bytes:
        """Returns a checkpoint, with which the sequence can go back to its current length.
        ModelError: the engine cannot."""
        ...

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        """Cuts a sequence to the `length` tokens that it had at a checkpoint. ValueError: it has
        fewer; ModelError: the checkpoint does not fit, the sequence is released."""
        ...

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence."""
        ...
