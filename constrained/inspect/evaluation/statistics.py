"""Statistics over answers to the same questions: intervals of differences, and how well confidence
tells right calls."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
COVERAGE = 95  # per cent
BUCKETS = 5


@dataclass(frozen=True)
class MeanInterval:
    """The mean of differences, and the interval in which it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def has_difference(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


def bootstrap(differences: Sequence[float], seed: int = 0) -> MeanInterval:
    """Returns the mean of paired differences and its interval: the percentiles of the means of
    samples that are drawn from the differences, with replacement.

    Args:
        differences: one for each question, at least one.
    """
    count = len(differences)
    values, counts = np.unique(np.asarray(differences, dtype=float), return_counts=True)
    # A sample is known by how often it has each value.
    samples = np.random.default_rng(seed).multinomial(count, counts / count, RESAMPLES)
    tail = (100 - COVERAGE) / 2
    low, high = np.percentile(samples @ values / count, [tail, 100 - tail])
    return MeanInterval(float(counts @ values) / count, float(low), float(high))


@dataclass(frozen=True)
class ConfidenceBucket:
    """Answers of similar confidence.

    Attributes:
        count: of the answers.
        confidence: their mean confidence.
        exact: the share that is exactly right.
    """

    count: int
    confidence: float
    exact: float


@dataclass(frozen=True)
class Calibration:
    """How well confidence tells the share of right answers.

    Attributes:
        error: the expected calibration error: the mean distance between confidence and share of
            right answers in the buckets, weighted by their sizes. 0 is perfect.
    """

    error: float
    buckets: tuple[ConfidenceBucket, ...]


def calibrate(pairs: Sequence[tuple[float, bool]]) -> Calibration:
    """Compares confidence with right answers.

    Args:
        pairs: the confidence of each answer, from 0 to 1, and whether it is right; at least one.
    """
    sorted_in: list[list[tuple[float, bool]]] = [[] for _ in range(BUCKETS)]
    for confidence, exact in pairs:
        sorted_in[min(int(confidence * BUCKETS), BUCKETS - 1)].append((confidence, exact))
    buckets: list[ConfidenceBucket] = []
    for members in filter(None, sorted_in):
        confidence = sum(confidence for confidence, _ in members) / len(members)
        share = sum(exact for _, exact in members) / len(members)
        buckets.append(ConfidenceBucket(len(members), confidence, share))
    distances = [bucket.count * abs(bucket.confidence - bucket.exact) for bucket in buckets]
    return Calibration(sum(distances) / len(pairs), tuple(buckets))
