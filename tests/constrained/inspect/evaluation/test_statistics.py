"""Intervals of paired differences, and calibration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.inspect.evaluation.report import MeanInterval, bootstrap, calibrate

differences = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=40)


@given(st.integers(1, 50), st.integers(0, 9))
def test_identical_answers_have_no_interval(count: int, seed: int) -> None:
    found = bootstrap([0.0] * count, seed)
    assert found == MeanInterval(0.0, 0.0, 0.0)
    assert not found.has_difference


@given(differences)
def test_the_mean_is_in_its_interval(values: list[float]) -> None:
    found = bootstrap(values)
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert found.mean == pytest.approx(sum(values) / len(values))
    mirrored = bootstrap([-value for value in values])
    assert mirrored.mean == -found.mean


def test_a_known_interval() -> None:
    """Of a share of 0.5 in 100 questions: 1.96 standard errors of 0.05."""
    found = bootstrap([0.0] * 50 + [1.0] * 50)
    assert found.low == pytest.approx(0.402, abs=0.011)
    assert found.high == pytest.approx(0.598, abs=0.011)
    assert found.has_difference
    assert bootstrap([0.0] * 50 + [1.0] * 50) == found
    assert not bootstrap([1.0, -1.0] * 50).has_difference


def test_calibration() -> None:
    perfect = calibrate([(1.0, True), (0.0, False)])
    assert perfect.error == 0
    assert [(bucket.count, bucket.exact) for bucket in perfect.buckets] == [(1, 0.0), (1, 1.0)]
    boastful = calibrate([(0.9, False), (0.9, True), (0.1, False), (0.1, False)])
    assert boastful.error == pytest.approx((0.4 * 2 + 0.1 * 2) / 4)
