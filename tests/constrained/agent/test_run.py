"""The agent loop over the whole stack; the engine is scripted, so that the model says what it has
to say: it writes one script per turn, chosen by the number of turns before."""

import asyncio
import enum
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from constrained.agent.finished_run import Reason, Run
from constrained.agent.model import Model
from constrained.agent.run import arun, run
from constrained.engine.protocol import Sampling
from constrained.errors import CallError, RequestError
from constrained.model.reply import Reply
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.execution import Outcome
from constrained.prompt.tools.functions import FunctionTool
from grammars.errors import PolicyError, ToolError
from grammars.turn import ToolCall
from tests.scripted_model import scripted, wishing
from tests.templates import HERMES, PING, QWEN3_CODER, hermes_call

GREEDY = Sampling(temperature=0)


def tagged_call(name: str, arguments: str = "{}") -> str:
    values = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in json.loads(arguments).items()
    }
    parameters = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


class Seen:
    """A model that notes what it is asked."""

    def __init__(self, model: Model):
        self.model = model
        self.options: list[dict[str, Any]] = []
        self.acall, self.stream, self.astream = model.acall, model.stream, model.astream

    def call(self, messages: Any, tools: Any, /, **options: Any) -> Reply:
        self.options.append(options)
        return self.model.call(messages, tools, **options)


def both(scripts: Sequence[str], tools: Sequence[Any], **options: Any) -> Run:
    """Runs it in both ways, which have to agree."""
    options = {"sampling": GREEDY} | options
    ran = run(scripted(*scripts), "Go on.", tools, **options)
    again = asyncio.run(arun(scripted(*scripts), "Go on.", tools, **options))
    assert (again.messages, again.reason, again.steps) == (ran.messages, ran.reason, ran.steps)
    assert [c.outcome for c in again.calls] == [c.outcome for c in ran.calls]
    assert_replayable(ran)
    return ran


def assert_replayable(ran: Run) -> None:
    """Every call has its answer, in order, and the template takes the history as it is."""
    messages = list(ran.messages)
    if ran.pending:
        messages.pop()
    waiting: list[tuple[str, str]] = []
    ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == (message["tool_call_id"], message["name"])
        else:
            assert not waiting
            calls = message.get("tool_calls", [])
            waiting = [(call["id"], call["function"]["name"]) for call in calls]
            ids += [call["id"] for call in calls]
    assert not waiting
    for source in (HERMES, QWEN3_CODER):
        text = ChatTemplate(source).render(ran.messages)
        for message in ran.messages:
            assert (message["content"] or "") in text
    json.dumps(ran.messages)


def tool_messages(ran: Run) -> list[str]:
    return [m["content"] for m in ran.messages if m["role"] == "tool"]


def add(a: int, b: int = 1) -> int:
    """Adds.

    Args:
        a: one number
        b: the other
    """
    return a + b


async def aadd(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


def hello(name: str) -> str:
    return f"Hello, {name}!"


class Level(enum.Enum):
    LOW = "low"


class Alarm(BaseModel):
    """An alarm."""

    day: date
    level: Level = Level.LOW


@pytest.mark.parametrize(
    ("source", "write"), [(HERMES, hermes_call), (QWEN3_CODER, tagged_call)], ids=["json", "tags"]
)
def test_a_run(source: str, write: Any):
    scripts = [
        "<think>\nHm.\n</think>\n\n" + write("add", '{"a": 20, "b": 22}'),
        write("hello", '{"name": "you é"}') + "\n" + write("aadd", '{"a": 1}'),
        write("Alarm", '{"day": "2024-01-02", "level": "low"}'),
        "It is 42.",
    ]
    model = scripted(*scripts, source=source)
    start = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "20 + 22?"}]
    ran = run(model, start, [add, hello, aadd, Alarm], sampling=GREEDY)
    assert (ran.reason, ran.steps, ran.content) == ("stop", 4, "It is 42.")
    assert ran.reply.finish_reason == "stop"
    assert len(start) == 2
    assert [c.result for c in ran.calls] == [42, "Hello, you é!", 2, Alarm(day=date(2024, 1, 2))]
    assert {c.outcome for c in ran.calls} == {Outcome.DONE}
    assert tool_messages(ran) == [
        "42",
        "Hello, you é!",
        "2",
        '{"day": "2024-01-02", "level": "low"}',
    ]
    assert [m["role"] for m in ran.messages] == (
        "system user assistant tool assistant tool tool assistant tool assistant".split()
    )
    assert ran.messages[2]["reasoning_content"].strip() == "Hm."
    assert ran.messages[2]["tool_calls"][0]["function"] == {
        "name": "add",
        "arguments": {"a": 20, "b": 22},
    }
    assert ran.pending == ()
    assert_replayable(ran)
    again = asyncio.run(arun(model, start, [add, hello, aadd, Alarm], sampling=GREEDY))
    assert again.messages == ran.messages


def test_the_history_goes_on():
    model = scripted(hermes_call("add", '{"a": 1, "b": 2}'), "3", "You are welcome.")
    first = run(model, "1 + 2?", [add], sampling=GREEDY)
    assert first.content == "3"
    thanks = [*first.messages, {"role": "user", "content": "Thanks!"}]
    second = run(model, thanks, [add], sampling=GREEDY)
    assert second.content == "You are welcome."
    assert second.messages[: len(thanks)] == thanks
    assert second.steps == 1


def test_an_answer_at_once():
    ran = both(["Hi."], [])
    assert (ran.reason, ran.steps, ran.content, ran.calls) == (Reason.STOP, 1, "Hi.", ())


def test_errors_are_told_to_the_model():
    class OwnError(Exception):
        pass

    def fail(how: str) -> str:
        if how == "long":
            raise ValueError("x" * 5000)
        raise {"key": KeyError("k"), "own": OwnError("wörd")}.get(how) or OwnError

    class Strict(BaseModel):
        day: date

    hows = ["key", "own", "bare", "long"]
    calls = [hermes_call("fail", json.dumps({"how": how})) for how in hows]
    ran = both(["\n".join(calls), "Sorry."], [fail, Strict])
    told = [json.loads(content) for content in tool_messages(ran)]
    assert [list(t) for t in told] == [["error"]] * 4
    errors = [t["error"] for t in told]
    assert errors[:3] == ["KeyError: 'k'", "OwnError: wörd", "OwnError"]
    assert errors[3].startswith("ValueError: xxx")
    assert len(errors[3]) < 1100
    assert "wörd" in tool_messages(ran)[1]
    assert [type(c.error) for c in ran.calls] == [KeyError, OwnError, OwnError, ValueError]
    assert {c.outcome for c in ran.calls} == {Outcome.FAILED}
    assert (ran.reason, ran.content) == (Reason.STOP, "Sorry.")


def test_arguments_that_pydantic_refuses_are_told_to_the_model():
    class Pair(BaseModel):
        low: int
        high: int

        def model_post_init(self, _: Any) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    wrong, right = ({"low": 2, "high": 1}, {"low": 1, "high": 2})
    scripts = [hermes_call("Pair", json.dumps(pair)) for pair in (wrong, right)]
    ran = both([*scripts, "Done."], [Pair])
    assert "low is above high" in tool_messages(ran)[0]
    assert isinstance(ran.calls[0].error, CallError)
    assert ran.calls[1].result.low == 1


ADD = hermes_call("add", '{"a": 1, "b": 1}')
OTHER = hermes_call("add", '{"a": 2, "b": 1}')


def test_repeating_is_told_and_then_the_model_answers():
    ran = run(wishing(ADD, "2"), "Go.", [add], sampling=GREEDY)
    assert (ran.reason, ran.steps, ran.content) == (Reason.REPEATED, 4, "2")
    assert ran.detail == "add: this call has had the same result 2 times in a row"
    assert [c.outcome for c in ran.calls] == [Outcome.DONE, Outcome.DONE, Outcome.REPEATED]
    assert "2 times" in json.loads(tool_messages(ran)[2])["error"]
    assert [c.arguments for c in ran.reply.barred_calls] == [{"a": 1, "b": 1}]


def test_who_repeats_itself_for_ever_has_to_answer():
    ran = both([ADD], [add], max_tokens=200)
    assert (ran.reason, ran.steps) == (Reason.REPEATED, 4)
    assert ran.reply.calls == ()
    assert both([ADD], [add], max_steps=3).reason is Reason.MAX_STEPS


def test_a_call_that_nothing_bars_has_to_end():
    model = Unbarred(scripted(ADD))
    ran = run(model, "Go.", [add], sampling=GREEDY, max_tokens=200)
    assert (ran.reason, ran.steps) == (Reason.REPEATED, 5)
    assert [c.outcome for c in ran.calls][2:] == [Outcome.REPEATED, Outcome.REPEATED]


def test_repeating_that_stops_in_time():
    ran = both([ADD, OTHER, ADD, ADD, OTHER, "2"], [add])
    assert (ran.reason, ran.content) == (Reason.STOP, "2")
    assert [c.outcome for c in ran.calls] == [*[Outcome.DONE] * 3, Outcome.REPEATED, Outcome.DONE]
    assert both([ADD, ADD, "2"], [add], max_repeats=1).calls[1].outcome is Outcome.REPEATED
    assert both([ADD] * 4 + ["2"], [add], max_repeats=4).calls[3].outcome is Outcome.DONE


def test_the_order_of_keys_does_not_matter_to_repeating():
    schema = {"properties": {"o": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    made = FunctionTool.from_schema("f", schema, lambda o: 1)
    scripts = [
        hermes_call("f", text) for text in ('{"o": {"x": 1, "y": 2}}', '{"o": {"y": 2, "x": 1}}')
    ]
    ran = both([*scripts, "1"], [made], max_repeats=1)
    assert [c.outcome for c in ran.calls] == [Outcome.DONE, Outcome.REPEATED]


def test_other_results_are_no_repetition():
    def count() -> int:
        return next(numbers)

    numbers = iter(range(100))
    one = hermes_call("count")
    model = scripted(one, one, one, f"{one}\n{one}", one, "5")
    ran = run(model, "Go.", [count], sampling=GREEDY, max_identical_calls=2)
    assert (ran.reason, ran.content) == (Reason.STOP, "5")
    assert [c.result for c in ran.calls] == list(range(6))


def test_failures_repeat_too():
    def fail() -> None:
        raise RuntimeError("no")

    ran = run(wishing(hermes_call("fail"), "No."), "Go.", [fail], sampling=GREEDY)
    assert (ran.reason, ran.steps, ran.content) == (Reason.REPEATED, 4, "No.")


def test_identical_calls_in_one_turn_are_made_as_often_as_allowed():
    made: list[int] = []

    def note(x: int) -> int:
        made.append(x)
        return x

    call = hermes_call("note", '{"x": 1}')
    model = scripted("\n".join([call] * 4), "ok")
    ran = run(model, "Go.", [note], sampling=GREEDY, max_identical_calls=3)
    assert made == [1, 1, 1]
    assert ran.reason is Reason.STOP


def test_the_last_step():
    ran = both([ADD, OTHER], [add], max_steps=2)
    assert (ran.reason, ran.steps, len(ran.calls)) == (Reason.MAX_STEPS, 2, 2)
    assert ran.messages[-1]["content"] == "3"
    assert both([ADD, "2"], [add], max_steps=2).reason is Reason.STOP


def test_when_the_tokens_run_out():
    made: list[int] = []

    def note(x: int) -> int:
        made.append(x)
        return x

    one = hermes_call("note", '{"x": 1}')
    for script in (one, f"{one}\n{one}", "a long answer"):
        length = len(script.encode())
        for limit in (1, length // 3, length - 1):
            ran = run(scripted(script), "Go.", [note], max_tokens=limit, sampling=GREEDY)
            assert (ran.reason, ran.steps, made) == (Reason.LENGTH, 1, [])
            assert ran.reply.finish_reason == "length"
            assert {c.outcome for c in ran.calls} <= {Outcome.CUT}
            assert_replayable(ran)


class Unbarred(Seen):
    """It cannot be kept from a call."""

    def call(self, messages: Any, tools: Any, /, **options: Any) -> Reply:
        options.pop("excluded_calls", None)
        return super().call(messages, tools, **options)


class Truncating(Seen):
    """Its last call of a turn counts as closed for want of tokens."""

    def call(self, messages: Any, tools: Any, /, **options: Any) -> Reply:
        reply = super().call(messages, tools, **options)
        *whole, last = reply.calls
        return replace(reply, calls=(*whole, replace(last, truncated=True)))


def test_a_truncated_call_is_not_executed():
    def never(x: int) -> None:
        raise AssertionError

    call = hermes_call("never", '{"x": 1}')
    model = Truncating(scripted(f"{call}\n{call}"))
    ran = run(model, "Go.", [never], sampling=GREEDY, max_identical_calls=None)
    assert ran.reason is Reason.LENGTH
    assert [c.outcome for c in ran.calls] == [Outcome.CUT, Outcome.CUT]
    assert "tokens ran out" in tool_messages(ran)[1]
    assert_replayable(ran)


def test_tools_without_a_function_are_left_to_the_caller():
    ran = both([ADD, hermes_call("ping") + "\n" + OTHER], [add, PING])
    assert (ran.reason, ran.steps) == (Reason.TOOL_CALLS, 2)
    assert [(c.name, c.arguments) for c in ran.pending] == [("ping", {}), ("add", {"a": 2, "b": 1})]
    assert [c.outcome for c in ran.calls] == [Outcome.DONE]
    assert ran.messages[-1]["role"] == "assistant"
    bare = FunctionTool.from_schema("ping", {})
    assert both([hermes_call("ping")], [bare]).reason is Reason.TOOL_CALLS


def test_approval():
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool | str:
        asked.append(call)
        return {1: True, 2: False, 3: "Not three.", 4: ""}[call.arguments["a"]]

    calls = [hermes_call("add", json.dumps({"a": a, "b": 1})) for a in (1, 2, 3, 4)]
    ran = run(scripted("\n".join(calls), "Fine."), "Go.", [add], approve=approve, sampling=GREEDY)
    assert [call.arguments["a"] for call in asked] == [1, 2, 3, 4]
    assert [c.outcome for c in ran.calls] == [Outcome.DONE, *[Outcome.DECLINED] * 3]
    told = [json.loads(content) for content in tool_messages(ran)]
    assert told[0] == 2
    assert "the user does not allow it" in told[1]["error"]
    assert told[2]["error"] == "not executed: Not three."
    assert told[3] == told[1]
    assert ran.reason is Reason.STOP
    assert_replayable(ran)


def test_a_declined_call_that_comes_again_ends_the_run():
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return call.arguments["a"] == 2

    ran = run(scripted(ADD, OTHER, ADD, "never"), "Go.", [add], approve=approve, sampling=GREEDY)
    assert (ran.reason, ran.steps, len(asked)) == (Reason.DECLINED, 3, 2)
    outcomes = [Outcome.DECLINED, Outcome.DONE, Outcome.DECLINED]
    assert [c.outcome for c in ran.calls] == outcomes
    assert_replayable(ran)


def test_approval_that_is_async():
    order: list[str] = []

    async def approve(call: ToolCall) -> bool:
        order.append(f"asks {call.arguments['a']}")
        await asyncio.sleep(0)
        order.append(f"says {call.arguments['a']}")
        return True

    def add(a: int, b: int) -> int:
        order.append("adds")
        return a + b

    model = scripted(f"{ADD}\n{OTHER}", "ok")
    ran = asyncio.run(arun(model, "Go.", [add], approve=approve, sampling=GREEDY))
    assert ran.reason is Reason.STOP
    assert order == ["asks 1", "says 1", "asks 2", "says 2", "adds", "adds"]
    with pytest.raises(RequestError, match="approve is async"):
        run(model, "Go.", [add], approve=approve, sampling=GREEDY)


def test_the_calls_of_a_turn_run_concurrently_and_answer_in_order():
    barrier = threading.Barrier(2, timeout=20)

    async def slow(name: str) -> str:
        await asyncio.to_thread(barrier.wait)
        await asyncio.sleep(0.05)
        return name

    def quick(name: str) -> str:
        barrier.wait()
        return name

    calls = hermes_call("slow", '{"name": "a"}') + "\n" + hermes_call("quick", '{"name": "b"}')
    ran = asyncio.run(arun(scripted(calls, "ok"), "Go.", [slow, quick], sampling=GREEDY))
    assert tool_messages(ran) == ["a", "b"]
    assert_replayable(ran)


def test_the_loop_goes_on_while_the_model_runs():
    async def both_at_once() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await arun(scripted(ADD, "2"), "Go.", [add], sampling=GREEDY)
        ticking.cancel()
        return ticks

    assert asyncio.run(both_at_once()) > 1


ALLOWED = [{"type": "function", "name": "add"}]


@pytest.mark.parametrize(
    ("choice", "later"),
    [
        ("required", "auto"),
        ("any", "auto"),
        ("auto", "auto"),
        ({"type": "any"}, "auto"),
        ({"type": "auto"}, {"type": "auto"}),
        ({"type": "tool", "name": "add"}, "auto"),
        ({"type": "function", "function": {"name": "add"}}, "auto"),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": ALLOWED},
            {"type": "allowed_tools", "mode": "auto", "tools": ALLOWED},
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": ALLOWED}},
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ALLOWED}},
        ),
        ({"type": "allowed_tools", "tools": ALLOWED}, {"type": "allowed_tools", "tools": ALLOWED}),
    ],
)
def test_a_required_call_is_required_once(choice: Any, later: Any):
    model = Seen(scripted(ADD, OTHER, "3"))
    ran = run(model, "Go.", [add, hello], tool_choice=choice, sampling=GREEDY)
    assert (ran.reason, ran.steps) == (Reason.STOP, 3)
    chosen = [options["tool_choice"] for options in model.options]
    assert chosen == [choice, later, later]
    assert all(options["sampling"] is GREEDY for options in model.options)


def test_without_a_choice_none_is_made():
    model = Seen(scripted(ADD, "3"))
    run(model, "Go.", [add], sampling=GREEDY)
    assert [set(options) for options in model.options] == [{"sampling"}] * 2
    assert run(scripted(ADD), "Go.", [add], tool_choice="none", sampling=GREEDY).calls == ()


def test_what_cannot_be_run():
    model = scripted("Hi.")
    for name in ("max_steps", "max_repeats"):
        with pytest.raises(RequestError, match=f"{name} is 0") as info:
            run(model, "Go.", [], **{name: 0})
        assert info.value.where == f"/{name}"
        with pytest.raises(RequestError, match=f"{name} is None"):
            run(model, "Go.", [], **{name: None})
    with pytest.raises(ToolError) as info:
        run(model, "Go.", [add, lambda x: x])
    assert info.value.where == "/tools/1"
    with pytest.raises(PolicyError):
        run(model, "Go.", [add], tool_choice="sometimes")


def test_calls_that_are_excluded_from_the_start():
    known = [ToolCall("add", {"a": 1, "b": 1})]
    ran = run(wishing(ADD, "No."), "Go.", [add], sampling=GREEDY, excluded_calls=known)
    assert (ran.reason, ran.content, ran.calls) == (Reason.REPEATED, "No.", ())
