"""An engine without a model: a function gives the logits. For tests, and for trying out formats."""

import zlib
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from constrained.engine.batch import check_chunks, check_copy, check_empty, check_shorter
from constrained.engine.drawing import ScriptedSampler
from constrained.engine.protocol import MOST_DRAFTED, Chunk, Sampling
from constrained.errors import ModelError
from constrained.vocabulary.vocabulary import Vocabulary

Logits = Callable[[int, Sequence[int]], np.ndarray]
"""Takes a sequence's number and all its tokens; returns float32, one per token."""

# Logits of a script; all other tokens have 0.
NEXT = 20.0
END = 1.0  # where the mask leaves no way to go on with the script


class ScriptedEngine:
    """An `Engine` whose logits come from a function. Also a context manager."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        logits: Logits,
        *,
        context_length: int = 4096,
        max_sequences: int = 8,
        can_roll_back: bool = True,
        max_drafted: int = MOST_DRAFTED,
        offloads: bool = False,
    ):
        self.vocabulary = vocabulary
        self.context_length = context_length
        self.max_sequences = max_sequences
        self.max_drafted = max_drafted
        self.offloads = offloads
        self._logits_of = logits
        self._can_roll_back = can_roll_back
        self.needs_checkpoints = not can_roll_back
        self.fingerprint = "scripted"
        self._tokens: list[list[int]] = [[] for _ in range(max_sequences)]
        self._logits: list[np.ndarray] = []
        self._is_open = True

    def __enter__(self) -> "ScriptedEngine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        self._require_open()
        lengths = [len(tokens) for tokens in self._tokens]
        check_chunks(chunks, lengths, self.context_length, self.max_drafted)
        n_vocab = len(self.vocabulary.tokens)
        for token in chain.from_iterable(chunk.tokens for chunk in chunks):
            if not 0 <= token < n_vocab:
                for chunk in chunks:
                    self.release(chunk.sequence)
                raise ModelError(f"there is no token {token}")
        self._logits = []
        for chunk in chunks:
            tokens = self._tokens[chunk.sequence]
            tokens.extend(chunk.tokens)
            for length in range(len(tokens) - chunk.wanted + 1, len(tokens) + 1):
                self._logits.append(self._compute(chunk.sequence, length, n_vocab))
        return self._logits

    def _compute(self, sequence: int, length: int, n_vocab: int) -> np.ndarray:
        tokens = tuple(self._tokens[sequence][:length])
        logits = np.array(self._logits_of(sequence, tokens), np.float32)
        if logits.shape != (n_vocab,):
            raise ValueError(f"the logits have the shape {logits.shape}, must be ({n_vocab},)")
        return logits

    def sampler(self, sampling: Sampling) -> ScriptedSampler:
        n_vocab = len(self.vocabulary.tokens)
        return ScriptedSampler(sampling, self._row, n_vocab, self.context_length)

    def _row(self, slot: int) -> np.ndarray:
        self._require_open()
        return self._logits[slot]

    def rollback(self, sequence: int, length: int) -> bool:
        self._require_open()
        if self._can_roll_back:
            del self._tokens[sequence][length:]
        return self._can_roll_back

    def can_cut(self, sequence: int, length: int) -> bool:
        present = len(self._tokens[sequence])
        return length == present or (length < present and self._can_roll_back)

    def copy(self, source: int, target: int, length: int) -> None:
        self._require_open()
        check_copy(self, source, target, length, len(self._tokens[target]))
        self._tokens[target] = self._tokens[source][:length]

    def state_size(self, sequence: int) -> int:
        return 4 * len(self._tokens[sequence])

    def save(self, sequence: int) -> bytes:
        self._require_open()
        return np.asarray(self._tokens[sequence], "<i4").tobytes()

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        self._require_open()
        check_empty(sequence, len(self._tokens[sequence]))
        if len(state) != 4 * length:
            raise ModelError(f"a state of {len(state)} bytes is not that of {length} tokens")
        self._tokens[sequence] = np.frombuffer(state, "<i4").tolist()

    checkpoint = save

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        self._require_open()
        check_shorter(sequence, len(self._tokens[sequence]), length)
        head = np.asarray(self._tokens[sequence][:length], "<i4").tobytes()
        self.release(sequence)
        if checkpoint != head:
            raise ModelError(f"no checkpoint of the first {length} tokens of sequence {sequence}")
        self.restore(sequence, length, checkpoint)

    def release(self, sequence: int) -> None:
        self._require_open()
        self._tokens[sequence].clear()

    def close(self) -> None:
        self._is_open = False

    def _require_open(self) -> None:
        if not self._is_open:
            raise ModelError("the model is closed")


def random_logits(vocabulary: Vocabulary, seed: int = 0) -> Logits:
    """Returns normal deviates that depend on the seed and the tokens so far, nothing else."""
    n_vocab = len(vocabulary.tokens)

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        state = zlib.crc32(np.asarray(tokens, np.int32).tobytes())
        return np.random.default_rng([seed, state]).standard_normal(n_vocab, np.float32) * 3

    return logits


def scripted_logits(
    vocabulary: Vocabulary, script: str | Sequence[int], start: int | None = None
) -> Logits:
    """Returns logits of a model that wants to write `script` and then to end its turn.

    Args:
        vocabulary: that of the engine.
        script: tokens, or text. Text is written in whatever tokens the mask permits, the longest
            first; what spells a special token is one.
        start: the number of tokens of the prompt; None: what a sequence has when it is first
            asked about.
    """
    text = script.encode() if isinstance(script, str) else vocabulary.text(script)
    ids = {data: token for token, data in enumerate(vocabulary.tokens) if data}
    ids |= {vocabulary.tokens[token]: token for token in vocabulary.names}
    longest = max(map(len, ids))
    starts: dict[int, int] = {}

    def wanted(written: tuple[int, ...]) -> dict[int, float]:
        if not isinstance(script, str):
            if written != tuple(script[: len(written)]):
                return {}
            return dict.fromkeys(script[len(written) :][:1], NEXT)
        done = vocabulary.text(written)
        values: dict[int, float] = {}
        if text.startswith(done):
            rest = text[len(done) : len(done) + longest]
            for size in range(1, len(rest) + 1):
                if rest[:size] in ids:
                    values[ids[rest[:size]]] = NEXT + size
        return values

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        first = starts.setdefault(sequence, len(tokens)) if start is None else start
        result = np.zeros(len(vocabulary.tokens), np.float32)
        values = wanted(tuple(tokens[first:]))
        result[vocabulary.end[0]] = END if values else NEXT
        for token, value in values.items():
            result[token] = value
        return result

    return logits
