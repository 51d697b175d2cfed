"""Log probabilities on real weights, against those that llama.cpp computes by itself."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from constrained import Model, Sampling
from constrained.model_files.packaged import find_packaged
from constrained.prompt.job import Job
from tests.llama_c_api import Model as Reference
from tests.llama_c_api import loaded
from tests.real.asks import QUESTION, ROUNDING, TOOLS, each_sampling, says

pytestmark = pytest.mark.real
REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"job": Job([says("Name a city.")])},
    "call": {"job": Job([says(QUESTION)], [TOOLS[1]], tool_choice="required", parallel=False)},
}
PLACES = 4  # at which the reference is asked, for it computes the whole prompt each time


@pytest.fixture(scope="module")
def reference(name: str) -> Iterator[Reference]:
    path = find_packaged(name)
    assert path
    with loaded(path) as reference:
        yield reference


@each_sampling
@pytest.mark.parametrize("kind", REQUESTS)
def test_they_are_those_of_llama_cpp(
    exact: Model, reference: Reference, kind: str, sampling: Sampling
) -> None:
    turn = exact.compile(REQUESTS[kind]["job"])
    (reply,) = exact.complete([turn], max_tokens=40, sampling=sampling, logprobs=5)
    drawn = reply.logprobs
    assert b"".join(token.text for token in drawn).decode() == reply.text
    for token in drawn:
        assert len(token.top) == 5
        likely = [logprob for _, logprob in token.top]
        assert likely == sorted(likely, reverse=True)
        assert sum(map(math.exp, likely)) < 1 + 1e-6
    for place in range(0, len(drawn), max(1, len(drawn) // PLACES)):
        read = [*turn.tokens, *(token.token for token in drawn[:place])]
        if len(read) > 256:  # more than the reference reads at once
            break
        row = reference.logits(read).astype(np.float64)
        row -= row.max() + np.log(np.exp(row - row.max()).sum())
        assert drawn[place].logprob == pytest.approx(row[drawn[place].token], abs=4 * ROUNDING)
        for token, logprob in drawn[place].top:
            assert logprob == pytest.approx(row[token], abs=4 * ROUNDING)


def test_a_greedy_turn_without_a_mask_takes_the_most_likely(exact: Model) -> None:
    reply = exact.call("Name a city.", max_tokens=20, sampling=Sampling(temperature=0), logprobs=1)
    for token in reply.logprobs:
        assert token.top == ((token.token, token.logprob),)
