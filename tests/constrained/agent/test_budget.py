"""Loops that are seen, budgets that are spent, contexts that grow."""

import json
import string
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.agent.budget import Budget, Spent
from constrained.agent.context import Context
from constrained.agent.finished_run import Reason
from constrained.agent.repetition import CallHistory, grows
from constrained.agent.run import run
from constrained.decode.request import Usage
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.prompt.tools.execution import Outcome
from constrained.prompt.tools.functions import FunctionTool, tool
from grammars.turn import ToolCall
from tests.scripted_model import scripted, wishing
from tests.templates import hermes_call

GREEDY = Sampling(temperature=0)


def call(name: str, value: Any) -> str:
    return hermes_call(name, json.dumps({"value": value}))


class Switch:
    """A tool whose result alternates, so that no call of it has the same result twice in a row."""

    def __init__(self) -> None:
        self.is_on = False

    def press(self, value: str) -> str:
        self.is_on = not self.is_on
        return f"{value} {self.is_on}"

    def look(self, value: str) -> str:
        return "dark"


def test_a_cycle_is_seen_although_each_call_has_other_results() -> None:
    switch = Switch()
    model = wishing(call("press", "a"), "Enough.")
    ran = run(model, "Go.", [switch.press], sampling=GREEDY, max_steps=9)
    assert (ran.reason, ran.content) == (Reason.REPEATED, "Enough.")
    assert "these 2 calls have come 2 times" in ran.detail
    assert [made.outcome for made in ran.calls] == [
        *[Outcome.DONE] * 4,
        Outcome.REPEATED,
    ]


def test_who_goes_between_two_calls_is_stopped() -> None:
    switch = Switch()
    turns = [call("look", "a"), call("look", "b")] * 6
    ran = run(scripted(*turns), "Go.", [switch.look], sampling=GREEDY, max_steps=20, max_tokens=200)
    assert ran.reason is Reason.REPEATED
    done = [made for made in ran.calls if made.outcome is Outcome.DONE]
    assert len(done) == 4
    assert ran.steps < 10


def test_arguments_that_only_grow_are_seen() -> None:
    def search(value: str) -> str:
        return "nothing found"

    turns = [call("search", "cat " * count) for count in range(1, 12)]
    ran = run(scripted(*turns, "No."), "Go.", [search], sampling=GREEDY, max_steps=20)
    assert ran.reason is Reason.REPEATED
    assert "only grow" in ran.detail
    assert len([made for made in ran.calls if made.outcome is Outcome.DONE]) == 3


def test_a_text_that_is_built_up_is_no_repetition() -> None:
    def write(value: str) -> str:
        return "ok"

    turns = [call("write", string.ascii_letters[: 5 * count]) for count in range(1, 8)]
    ran = run(scripted(*turns, "Done."), "Go.", [write], sampling=GREEDY, max_steps=20)
    assert ran.reason is Reason.STOP
    assert {made.outcome for made in ran.calls} == {Outcome.DONE}


@given(st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=4), st.text("ab", max_size=6))
def test_growth_is_a_piece_once_more(head: str, piece: str, tail: str) -> None:
    assert grows(head + piece + tail, head + piece * 2 + tail)
    assert not grows(head + piece * 2 + tail, head + piece + tail)
    assert not grows(head + piece + tail, head + piece + "c" + tail)


CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=14)


@given(CALLS, st.integers(1, 3))
def test_what_differs_is_never_a_repetition(calls: list[tuple[str, str]], most: int) -> None:
    """A repetition that is found is there: what comes next was there at least so often."""
    history = CallHistory(most)
    for name, content in calls:
        found = history.find_repetition(ToolCall(name, {}))
        times = sum(other == name for other, _ in history_of(history))
        if found is not None:
            assert times >= most
        history.note(ToolCall(name, {}), content)


def history_of(history: CallHistory) -> list[tuple[str, str]]:
    return [(one.call.name, one.content) for one in history._executed]


def add(value: int) -> int:
    return value + 1


def test_a_budget_of_calls_leaves_a_last_turn_to_answer() -> None:
    turns = [call("add", 1) + "\n" + call("add", 2), call("add", 3) + "\n" + call("add", 4)]
    ran = run(
        scripted(*turns, "That is it."),
        "Go.",
        [add],
        sampling=GREEDY,
        budget=Budget(calls=3),
    )
    assert (ran.reason, ran.content) == (Reason.BUDGET, "That is it.")
    assert ran.detail == "the budget of 3 calls is spent"
    assert ran.spent.calls == 3
    assert [made.outcome for made in ran.calls] == [*[Outcome.DONE] * 3, Outcome.OVER_BUDGET]
    assert ran.reply.calls == ()


def test_the_mask_holds_who_would_call_behind_the_budget() -> None:
    turns = [call("add", number) for number in range(9)]
    ran = run(
        scripted(*turns), "Go.", [add], sampling=GREEDY, budget=Budget(calls=2), max_tokens=200
    )
    assert (ran.reason, ran.steps, ran.reply.calls) == (Reason.BUDGET, 3, ())


def test_a_budget_of_tokens() -> None:
    turns = [call("add", number) for number in range(20)]
    ran = run(
        scripted(*turns),
        "Go.",
        [add],
        sampling=GREEDY,
        budget=Budget(tokens=150),
        max_tokens=200,
        max_steps=30,
    )
    assert ran.reason is Reason.BUDGET
    assert ran.detail == "the budget of 150 tokens is spent"
    assert 1 < ran.steps < 8


def test_a_budget_of_seconds() -> None:
    def wait(value: int) -> None:
        import time

        time.sleep(0.06)

    turns = [call("wait", number) for number in range(20)]
    budget = Budget(seconds=0.1)
    ran = run(
        scripted(*turns),
        "Go.",
        [wait],
        sampling=GREEDY,
        budget=budget,
        max_tokens=100,
        max_steps=30,
    )
    assert ran.reason is Reason.BUDGET
    assert "0.1 seconds" in ran.detail
    assert ran.steps <= 4


def test_a_budget_of_cost_by_number_and_by_function() -> None:
    @tool(cost=2)
    def dear(value: int) -> int:
        return value

    def price(call: ToolCall) -> float:
        return call.arguments["value"] / 10  # type: ignore[operator]

    cheap = FunctionTool.from_function(add, cost=price)
    turns = [call("dear", 1), call("dear", 2), call("add", 5), call("add", 9), call("add", 1)]
    ran = run(
        scripted(*turns, "Done."), "Go.", [dear, cheap], sampling=GREEDY, budget=Budget(cost=3)
    )
    outcomes = [made.outcome for made in ran.calls]
    done, over = Outcome.DONE, Outcome.OVER_BUDGET
    assert outcomes == [done, over, done, over, done]
    assert ran.spent.cost == pytest.approx(2.6)
    assert "it costs 2" in ran.calls[1].content


@pytest.mark.parametrize("name", ["tokens", "seconds", "calls", "cost"])
@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan")])
def test_a_budget_is_a_number_above_0(name: str, value: Any) -> None:
    with pytest.raises(RequestError) as error:
        Budget(**{name: value})
    assert error.value.where == f"/budget/{name}"


def test_a_cost_that_is_none() -> None:
    broken = FunctionTool.from_function(add, cost=lambda call: -1)
    with pytest.raises(RequestError, match="a call of 'add' costs -1"):
        run(scripted(call("add", 1)), "Go.", [broken], sampling=GREEDY)


def test_what_a_run_has_spent() -> None:
    ran = run(scripted(call("add", 1), "2"), "Go.", [add], sampling=GREEDY)
    assert ran.spent.calls == 1
    assert ran.spent.tokens > ran.reply.usage.completion_tokens > 0
    assert ran.spent.seconds > 0
    assert Budget().find_spent(Spent(10**9, 1e9, 10**9, 1e9)) is None


def read_file(value: int) -> str:
    return f"line {value}\n" * 60


def test_the_oldest_results_make_room() -> None:
    turns = [call("read_file", number) for number in range(8)]
    prompts: list[str] = []
    model = scripted(*turns, "Done.")
    original = model.call

    def note(messages: Any, tools: Any, /, **options: Any) -> Any:
        prompts.append(json.dumps(messages))
        return original(messages, tools, **options)

    model.call = note  # type: ignore[method-assign]
    ran = run(model, "Go.", [read_file], sampling=GREEDY, max_steps=20, max_context=3000)
    assert ran.reason is Reason.STOP
    assert ran.dropped
    assert max(map(len, prompts)) < 5000
    numbers = [dropped.message for dropped in ran.dropped]
    assert numbers == sorted(numbers)
    for number in numbers:  # the record of the run has them all the same
        assert ran.messages[number]["content"].startswith("line")
    assert "characters were removed" in prompts[-1]
    # Room is made seldom: most prompts go on from the one before.
    kept = sum(later.startswith(earlier[:-1]) for earlier, later in pairwise(prompts))
    assert kept >= len(prompts) - 1 - len({dropped.step for dropped in ran.dropped})


def test_the_results_of_the_last_turn_stay() -> None:
    context = Context([{"role": "user", "content": "Go."}])
    context.append({"role": "assistant", "content": "", "tool_calls": []})
    context.append({"role": "tool", "content": "long " * 1000})
    usage = Usage(prompt_tokens=10, completion_tokens=10, forward_passes=1)
    context.shrink(5, usage, 1)
    assert context.shown == context.messages
    assert context.dropped == []
