"""How tokens are sampled: which values there are."""

import math
from typing import Any

import pytest

from constrained.engine.protocol import Sampling
from constrained.errors import RequestError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repeat_penalty", 0),
        ("repeat_penalty", -1.1),
        ("repeat_penalty", math.inf),
        ("repeat_penalty", math.nan),
        ("repeat_penalty", "1.1"),
        ("repeat_penalty", True),
        ("frequency_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("frequency_penalty", None),
        ("presence_penalty", 2.1),
        ("presence_penalty", math.nan),
        ("penalty_last_n", -2),
        ("penalty_last_n", 1.5),
        ("penalty_last_n", "64"),
        ("temperature", "hot"),
        ("temperature", 1000.1),
        ("temperature", 1e300),
        ("temperature", math.nan),
        ("temperature", -1e-9),
        ("top_p", None),
    ],
)
def test_out_of_range(field: str, value: Any):
    with pytest.raises(RequestError, match=f"{field} is .* must be") as caught:
        Sampling(**{field: value})
    assert caught.value.where == f"/{field}"


@pytest.mark.parametrize(
    ("biases", "where", "message"),
    [
        (5, "/logit_bias", "it is not a mapping"),
        ("ab", "/logit_bias", "it is not a mapping"),
        ([1, 2], "/logit_bias", "it is not a mapping"),
        ([(1, 2, 3)], "/logit_bias", "it is not a mapping"),
        ({"1": 2}, "/logit_bias", "'1' is not a token"),
        ({-1: 2}, "/logit_bias", "-1 is not a token"),
        ({True: 2}, "/logit_bias", "True is not a token"),
        ({1.0: 2}, "/logit_bias", "1.0 is not a token"),
        ({7: math.inf}, "/logit_bias/7", "the bias is inf"),
        ({7: math.nan}, "/logit_bias/7", "the bias is nan"),
        ({7: 1e39}, "/logit_bias/7", "the bias is 1e\\+39"),
        ({7: "1"}, "/logit_bias/7", "the bias is '1'"),
        ({7: None}, "/logit_bias/7", "the bias is None"),
        ([(7, 1), (7, 2)], "/logit_bias", "a token has two biases"),
    ],
)
def test_bad_biases(biases: Any, where: str, message: str):
    with pytest.raises(RequestError, match=message) as caught:
        Sampling(logit_bias=biases)
    assert caught.value.where == where


def test_biases_are_pairs_in_the_order_of_the_tokens():
    one = Sampling(logit_bias={9: 1, 2: -math.inf})
    assert one.biases == one.logit_bias == ((2, -math.inf), (9, 1.0))
    assert one == Sampling(logit_bias=((9, 1.0), (2, -math.inf)))
    assert len({one, Sampling(logit_bias=one.biases), Sampling()}) == 2


def test_whether_anything_is_penalised():
    assert not Sampling().has_penalties
    assert not Sampling(repeat_penalty=1.1, penalty_last_n=0).has_penalties
    for name in ("repeat_penalty", "frequency_penalty", "presence_penalty"):
        assert Sampling(**{name: 0.5}).has_penalties
