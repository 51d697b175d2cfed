"""Limits of a turn whose tokens are sampled elsewhere: it ends where the engine would go on."""

from collections.abc import Callable
from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.engine.sampling import Sampling
from constrained.model.reply import Reply
from tests.remote_model import sampled_elsewhere
from tests.scripted_model import OPENED, scripted
from tests.templates import OPEN, hermes_call

GREEDY = Sampling(temperature=0)
NOTE: dict[str, Any] = {
    "name": "note",
    "parameters": {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "string"}}},
        "required": ["items"],
        "additionalProperties": False,
    },
}
LOOP = '{"items": ["x"' + ', "x"' * 999
ONE, OTHER = hermes_call("note", '{"items": ["a"]}'), hermes_call("note", '{"items": ["b"]}')


def ask_both(make: Callable[[], Model], **options: Any) -> tuple[Reply, Reply]:
    """The replies to the same request, of the engine here and of the same one elsewhere."""
    given: Any = {"sampling": GREEDY, "max_tokens": 2000, **options}
    with make() as model:
        here = model.call("Go.", [NOTE], **given)
    with sampled_elsewhere(make) as load, load() as model:
        return here, model.call("Go.", [NOTE], **given)


@pytest.mark.parametrize("most", [20, 200])
def test_a_value_that_repeats_itself_ends_the_turn(most: int):
    def make() -> Model:
        return scripted("Well." + hermes_call("note", LOOP))

    here, there = ask_both(make, max_repetition=most)
    assert [ended.where for ended in there.ended_values] == ["/tool_calls/0/arguments/items"]
    assert there.ended_values == here.ended_values
    (call,) = there.calls
    assert call.arguments == here.calls[0].arguments  # the value was the last one
    assert call.valid
    assert call.truncated  # its rest is not the model's
    assert there.finish_reason == "length"
    assert there.usage.completion_tokens == here.usage.completion_tokens


def test_any_repetition_is_allowed_if_that_is_asked_for():
    def make() -> Model:
        return scripted(hermes_call("note", LOOP))

    here, there = ask_both(make, max_repetition=None, max_tokens=400)
    assert there.ended_values == here.ended_values == ()
    assert there.usage.completion_tokens > 300
    assert there.calls[0].valid


@pytest.mark.parametrize(
    "options", [{"max_calls": 1}, {"max_calls": 2}, {"max_identical_calls": 1}]
)
def test_no_call_is_behind_the_last_one(options: dict[str, int]):
    def make() -> Model:
        return scripted("\n".join([ONE, ONE, OTHER, ONE]))

    here, there = ask_both(make, **options)
    assert there.calls == here.calls
    assert there.finish_reason == here.finish_reason


@pytest.mark.parametrize("budget", [0, 1, 5])
def test_reasoning_ends_with_its_budget(budget: int):
    def make() -> Model:
        return scripted("I wonder and wonder.\n</think>\n\n" + ONE, source=OPEN, turn=OPENED)

    here, there = ask_both(make, reasoning_budget=budget)
    assert there.calls == here.calls
    assert here.usage.reasoning_tokens <= budget
    assert there.usage.reasoning_tokens <= budget + 7  # white space in front of the end
