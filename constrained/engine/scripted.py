"""An engine without a model, whose logits come from a function; for tests and for formats."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from constrained.engine.batch import (
    check_chunks,
    check_cut,
    check_empty,
    check_shorter,
    measure_decode,
)
from constrained.engine.numpy_sampler import RowSampler
from constrained.engine.protocol import MAX_DRAFTED, Chunk, DecodeSize, Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import ModelError

Logits = Callable[[int, Sequence[int]], np.ndarray]
"""Takes the number of a sequence and all its tokens; returns the logits: float32, one per token of
the vocabulary."""

# Logits of a script; all other tokens have 0.
NEXT = 20.0
END = 1.0  # of the end token; it is sampled if the mask forbids the rest of the script


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
        max_drafted: int = MAX_DRAFTED,
        offloads: bool = False,
    ):
        self.vocabulary = vocabulary
        self.context_length = context_length
        self.max_sequences = max_sequences
        self.max_drafted = max_drafted
        self.memory_bytes = 0
        self.path = None
        self.offloads = offloads
        self.splits_uneven = False
        self._logits_of = logits
        self._can_roll_back = can_roll_back
        self.needs_checkpoints = not can_roll_back
        self.fingerprint = "scripted"
        self._tokens: list[list[int]] = [[] for _ in range(max_sequences)]
        self._logits = np.empty((0, len(vocabulary.tokens)), np.float32)
        self._is_open = True
        self.last_decode = DecodeSize()

    def __enter__(self) -> "ScriptedEngine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self._require_open()
        lengths = [len(tokens) for tokens in self._tokens]
        check_chunks(self, chunks, lengths)
        self._check_tokens(chunks)
        wanted = sum(chunk.wanted for chunk in chunks)
        self._logits = np.empty((wanted, len(self.vocabulary.tokens)), np.float32)
        rows = iter(self._logits)
        for chunk in chunks:
            tokens = self._tokens[chunk.sequence]
            tokens.extend(chunk.tokens)
            for length in range(len(tokens) - chunk.wanted + 1, len(tokens) + 1):
                next(rows)[:] = self._compute(chunk.sequence, length)
        self.last_decode = measure_decode(chunks)
        return self._logits

    def _check_tokens(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            for token in chunk.tokens:
                if not 0 <= token < len(self.vocabulary.tokens):
                    for other in chunks:
                        self.release(other.sequence)
                    raise ModelError(f"there is no token {token}")

    def _compute(self, sequence: int, length: int) -> np.ndarray:
        tokens = tuple(self._tokens[sequence][:length])
        logits = self._logits_of(sequence, tokens)
        n_vocab = len(self.vocabulary.tokens)
        if logits.shape != (n_vocab,):
            raise ValueError(f"the logits have the shape {logits.shape}, must be ({n_vocab},)")
        return logits

    def sampler(self, sampling: Sampling) -> RowSampler:
        n_vocab = len(self.vocabulary.tokens)
        return RowSampler(sampling, self._row, n_vocab=n_vocab, context_length=self.context_length)

    def _row(self, row: int) -> np.ndarray:
        self._require_open()
        return self._logits[row]

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
        check_empty(target, len(self._tokens[target]))
        check_cut(self, source, length)
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
    """Returns logits of a model that writes `script` and then ends its turn. A script as text is
    written with the longest tokens that the mask allows; the text of a special token as that token.
    `start`: the number of prompt tokens; None: the length of a sequence at the first call."""
    if isinstance(script, str):
        find_next = _TextScript(script.encode(), vocabulary).find_next
    else:
        find_next = partial(_find_next_token, script)
    starts: dict[int, int] = {}

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        first = start
        if first is None:
            first = starts.setdefault(sequence, len(tokens))
        result = np.zeros(len(vocabulary.tokens), np.float32)
        values = find_next(tokens[first:])
        result[vocabulary.end[0]] = END if values else NEXT
        for token, value in values.items():
            result[token] = value
        return result

    return logits


def _find_next_token(script: Sequence[int], written: Sequence[int]) -> dict[int, float]:
    """Returns the logit of the next token of the script, if the turn has followed it so far."""
    count = len(written)
    if count >= len(script) or list(written) != list(script[:count]):
        return {}
    return {script[count]: NEXT}


class _TextScript:
    def __init__(self, script: bytes, vocabulary: Vocabulary):
        self._script = script
        self._vocabulary = vocabulary
        self._ids = {data: token for token, data in enumerate(vocabulary.tokens) if data}
        self._ids |= {vocabulary.tokens[token]: token for token in vocabulary.names}
        self._longest = max(map(len, self._ids))

    def find_next(self, written: Sequence[int]) -> dict[int, float]:
        """Returns the logits of the tokens that continue the script; the longest is likeliest."""
        done = self._vocabulary.text(written)
        if not self._script.startswith(done):
            return {}
        rest = self._script[len(done) : len(done) + self._longest]
        values: dict[int, float] = {}
        for size in range(1, len(rest) + 1):
            token = self._ids.get(rest[:size])
            if token is not None:
                values[token] = NEXT + size
        return values
