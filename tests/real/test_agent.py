"""The agent loop on real weights: calls are carried out, and their results go back."""

import asyncio
import json
from typing import Any

import pytest

from constrained import Model, Sampling
from constrained.agent.finished_run import Reason, Run
from constrained.prompt.tools.execution import Outcome
from tests.real.asks import QUESTION, TOOLS, add, each_sampling, get_weather, says

pytestmark = pytest.mark.real
FUNCTIONS = {"get_weather": get_weather, "add": add}
LIMITS: dict[str, Any] = {"tool_choice": "required", "parallel": False}
LIMITS |= {"max_steps": 3, "max_tokens": 100}


def check_history(run: Run) -> None:
    """Each call of the history has an id of its own, and a result after it, in order."""
    ids = list[str]()
    waiting = list[str]()
    for message in run.messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            ids += waiting
    assert not waiting
    assert len(ids) == len(set(ids)) == len(run.calls)


def check_results(run: Run) -> None:
    """What was carried out has the result of its function."""
    for made in run.calls:
        if made.outcome is Outcome.DONE:
            result = FUNCTIONS[made.call.name](**made.call.arguments)
            assert made.result == result
            assert json.loads(made.content) == result


@each_sampling
def test_calls_are_carried_out_and_answered(model: Model, sampling: Sampling) -> None:
    run = model.run(QUESTION, TOOLS, sampling=sampling, **LIMITS)
    assert run.calls[0].outcome is Outcome.DONE
    check_history(run)
    check_results(run)
    assert 1 <= run.steps <= 3
    if run.reason is Reason.STOP:
        assert not run.reply.calls

    messages = [*run.messages, says("And in Rome?")]
    more = model.run(messages, TOOLS, sampling=sampling, **LIMITS | {"max_steps": 1})
    check_history_from(more, len(messages))
    check_results(more)
    assert more.reply.usage.cached_tokens > run.reply.usage.prompt_tokens


def check_history_from(run: Run, start: int) -> None:
    """As `check_history`, of what came after the messages that the run began with."""
    results = [m["tool_call_id"] for m in run.messages[start:] if m["role"] == "tool"]
    assert results == [made.call.id for made in run.calls]


@each_sampling
def test_at_once_from_asyncio(exact: Model, sampling: Sampling) -> None:
    async def ask() -> list[Run]:
        once = LIMITS | {"max_steps": 1, "sampling": sampling}
        questions = [QUESTION, "What is 17 plus 4?"]
        return await asyncio.gather(*(exact.arun(q, TOOLS, **once) for q in questions))

    together = asyncio.run(ask())
    again = asyncio.run(ask())
    for run, same in zip(together, again, strict=True):
        check_history(run)
        check_results(run)
        assert run.messages == same.messages


@each_sampling
def test_what_a_function_raises_is_told(model: Model, sampling: Sampling) -> None:
    def open_door(code: int) -> None:
        """Opens the door."""
        raise PermissionError(f"{code} is wrong")

    run = model.run("Open the door.", [open_door], sampling=sampling, **LIMITS | {"max_steps": 2})
    first = run.calls[0]
    assert first.outcome is Outcome.FAILED
    told = f"PermissionError: {first.call.arguments['code']} is wrong"
    assert json.loads(first.content) == {"error": told}
    check_history(run)


@each_sampling
def test_a_declined_call_is_not_carried_out(model: Model, sampling: Sampling) -> None:
    run = model.run(QUESTION, TOOLS, sampling=sampling, approve=lambda call: "not today", **LIMITS)
    assert {made.outcome for made in run.calls} <= {Outcome.DECLINED, Outcome.CUT}
    assert "not today" in run.calls[0].content
    check_history(run)
