"""Samples tokens with numpy, in the same way as llama.cpp's sampler chain."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from constrained.engine.sampling import Sampling
from constrained.errors import GrammarError, ModelError

ALL_FORBIDDEN = "every token is forbidden"
BLOCKS = 128  # rows of the table of logits in which the largest are searched
FEWEST_COLUMNS = 4  # of that table for each requested token; with fewer, the table saves no time


class RowSampler:
    """Samples the tokens of one reply from rows of logits, which `row` finds by index; a
    `Sampler`."""

    def __init__(
        self,
        sampling: Sampling,
        row: Callable[[int], np.ndarray],
        *,
        n_vocab: int,
        context_length: int,
    ):
        sampling.check_tokens(n_vocab)
        self._sampling = sampling
        self._row = row
        self._random = np.random.default_rng(sampling.some_seed())
        self._last = deque[int](maxlen=sampling.count_last(context_length))
        self._is_open = True

    def sample(self, row: int) -> int:
        self._require_open()
        logits = adjust_logits(self._row(row), self._sampling, self._last)
        token = sample_token(logits, self._sampling, self._random)
        self._last.append(token)
        return token

    def accept(self, token: int) -> None:
        self._require_open()
        self._last.append(token)

    def recall(self, tokens: Sequence[int]) -> None:
        self._require_open()
        self._last.clear()
        self._last.extend(tokens)

    def close(self) -> None:
        self._is_open = False

    def _require_open(self) -> None:
        if not self._is_open:
            raise ModelError("the sampler is closed")


def find_candidates(logits: np.ndarray, count: int) -> np.ndarray | None:
    """Finds the most likely tokens without sorting all; the logits of forbidden tokens are -inf.
    Returns their ids in any order: at least `count`, with all that are as likely as the last of
    them, or all allowed tokens if there are fewer. None: the vocabulary is too small for this to be
    faster, all tokens are forbidden, or a logit is NaN."""
    width = len(logits) // BLOCKS
    if width < FEWEST_COLUMNS * count:
        return None
    table = logits[: width * BLOCKS].reshape(BLOCKS, width)
    best = table.max(axis=0)
    if np.isnan(best).any() or np.isnan(logits[width * BLOCKS :]).any():
        return None
    # At least `count` columns have a logit this large, so smaller ones are not among the best.
    least = np.partition(best, -count)[-count]
    if least == -np.inf:
        allowed = np.flatnonzero(logits > -np.inf)
        return allowed if len(allowed) else None
    columns = np.flatnonzero(best >= least)
    rows, places = np.nonzero(table[:, columns] >= least)
    rest = width * BLOCKS + np.flatnonzero(logits[width * BLOCKS :] >= least)
    return np.concatenate([rows * width + columns[places], rest])


def adjust_logits(logits: np.ndarray, sampling: Sampling, last: Iterable[int]) -> np.ndarray:
    """Returns the logits with the biases, and the penalties of the `last` tokens, as a copy."""
    if not (sampling.biases or sampling.has_penalties):
        return logits
    logits = logits.copy()
    for token, bias in sampling.biases:
        logits[token] += bias
    if not sampling.has_penalties:
        return logits
    for token, count in Counter(last).items():
        if logits[token] <= 0:
            logits[token] *= sampling.repeat_penalty
        else:
            logits[token] *= 1 / sampling.repeat_penalty
        logits[token] -= count * sampling.frequency_penalty + sampling.presence_penalty
    return logits


def sample_token(logits: np.ndarray, sampling: Sampling, random: np.random.Generator) -> int:
    """Samples a token as llama.cpp's chain does: top k, top p, min p, temperature. GrammarError:
    every token is forbidden (-inf); ModelError: the deciding logit is NaN."""
    if sampling.is_greedy:
        return _find_most_likely(logits)
    allowed = np.flatnonzero(logits > -np.inf)
    if not len(allowed):
        raise GrammarError(ALL_FORBIDDEN)
    order = allowed[np.argsort(-logits[allowed], kind="stable")]
    order = order[: sampling.top_k or None]
    if sampling.top_p < 1:
        reached = np.searchsorted(np.cumsum(_softmax(logits[order])), sampling.top_p)
        order = order[: int(reached) + 1]
    chances = _softmax(logits[order])
    order = order[chances >= sampling.min_p * chances[0]]
    chances = _softmax(logits[order] / sampling.temperature)
    return int(order[random.choice(len(order), p=chances)])


def _find_most_likely(logits: np.ndarray) -> int:
    token = int(logits.argmax())  # the first NaN, if there is one
    if logits[token] > -np.inf:
        return token
    if np.isnan(logits[token]):
        raise ModelError(f"the logit of token {token} is NaN")
    raise GrammarError(ALL_FORBIDDEN)


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64) - logits.max())
    return powers / powers.sum()
