"""Going on with a text on real weights: the model finds its own tokens, wherever it is cut."""

import json
from typing import Any

import pytest

from constrained import Model, Sampling
from constrained.errors import RequestError
from tests.real.asks import GREEDY, QUESTION, TOOLS, each_sampling, says

pytestmark = pytest.mark.real
TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}


def go_on(model: Model, question: str, text: str, **options: Any) -> str:
    """What the model writes after a text."""
    messages = [says(question), says(text, "assistant")]
    return model.call(messages, prefill=True, **options).content


def test_a_greedy_text_is_gone_on_with_wherever_it_is_cut(exact: Model) -> None:
    question = "Describe the city of Rome in a sentence."
    whole = exact.call(question, max_tokens=24, sampling=GREEDY).content
    assert len(whole) > 40
    for cut in range(1, 40, 4):
        rest = go_on(exact, question, whole[:cut], sampling=GREEDY, max_tokens=12)
        assert (whole[:cut] + rest).startswith(whole[:40]), (whole[:cut], rest)


@each_sampling
@pytest.mark.parametrize(
    "begun", ['{"ci', '{"city": "Ro', '{"days": 1', '{"city": "Rome", "days":']
)
def test_a_value_is_whole(exact: Model, begun: str, sampling: Sampling) -> None:
    messages = [says("Three days in Rome."), says(begun, "assistant")]
    value = exact.generate(messages, schema=TRIP, prefill=True, sampling=sampling)
    assert set(value) == {"city", "days"}
    assert begun.rstrip("1") in json.dumps(value) or "days" in begun[:8]


@each_sampling
def test_text_in_front_of_a_call(model: Model, sampling: Sampling) -> None:
    begun = [says(QUESTION), says("I will look it u", "assistant")]
    reply = model.call(begun, TOOLS, prefill=True, max_tokens=60, sampling=sampling)
    assert not reply.content.startswith("I will look")
    assert all(call.valid for call in reply.calls)


def test_a_text_that_does_not_fit_is_refused(model: Model) -> None:
    begun = [says("Three days in Rome."), says('{"town": ', "assistant")]
    with pytest.raises(RequestError, match="byte"):
        model.generate(begun, schema=TRIP, prefill=True)
