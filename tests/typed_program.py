"""A program of a user, with the types that checkers know of what it gets. It is checked by pyright
with the rest of the code, by mypy and pyright against the installed wheel, and run."""

# pyright: strict

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never, assert_type

from pydantic import BaseModel, Field

from constrained import (
    ArgumentsDelta,
    AsyncStream,
    Budget,
    CallConfidence,
    CallCut,
    CallOpened,
    CallRead,
    CallResult,
    ContentDelta,
    ContextError,
    DeadlineError,
    Error,
    Exhausted,
    Isolation,
    Model,
    Outcome,
    ProgressMade,
    Reason,
    ReasoningDelta,
    Reply,
    Run,
    Sampling,
    Spent,
    Stream,
    StreamEvent,
    Think,
    TokenDrawn,
    ToolCall,
    ToolReport,
    ToolSearch,
    Usage,
    load,
    report_tools,
    tool,
)


class Trip(BaseModel):
    city: Literal["Paris", "Rome"]
    days: int = Field(ge=1, le=14)


@dataclass
class Point:
    x: int
    y: int


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, str]:
    """The weather of today.

    Args:
        city: its English name
    """
    return {"city": city, "unit": unit}


@tool
def get_time(city: str) -> str:
    """The time in a city."""
    return f"09:30 in {city}"


@tool(name="set_timer", description="Starts a timer", strict=True)
async def start_timer(minutes: int) -> None: ...


def describe(event: StreamEvent) -> str:
    """All kinds of events are public, so a checker knows where one is missing."""
    match event:
        case ContentDelta(text) | ReasoningDelta(text) | CallCut(text):
            assert_type(text, str)
            return text
        case CallOpened(index, name):
            assert_type(index, int)
            return name
        case ArgumentsDelta(index, text):
            return f"{index}: {text}"
        case CallRead(_, call):
            assert_type(call, ToolCall)
            return call.name
        case TokenDrawn():
            assert_type(event.logprob, float)
            return event.text.decode("utf-8", "replace")
        case ProgressMade():
            return f"{event.read_tokens} of {event.prompt_tokens}"
        case Exhausted():
            return "the tokens have run out"
        case _:
            assert_never(event)


def call(model: Model) -> None:
    assert_type(get_time("Oslo"), str)  # what is decorated stays what it is
    reply = model.call("What's the weather in Paris?", [get_weather, get_time], max_calls=2)
    assert_type(reply, Reply)
    assert_type(reply.content, str)
    assert_type(reply.calls, tuple[ToolCall, ...])
    assert_type(reply.usage, Usage)
    assert_type(reply.usage.cached_tokens, int)
    assert_type(reply.finish_reason, Literal["tool_calls", "stop", "length", "cancelled"])
    assert_type(reply.message(), dict[str, Any])
    for made in reply.calls:
        assert_type(made.name, str)
        assert_type(made.arguments, dict[str, Any])
    messages = [{"role": "user", "content": "Hello!"}, reply.message()]
    sampling = Sampling(temperature=0.7, seed=1)
    again = model.call(
        [*messages, {"role": "user", "content": "Thank you!"}],
        tool_choice="none",
        sampling=sampling,
        think="forbidden",
        key_order="schema",
        recall="drop",
        stop=["END"],
        timeout=60,
    )
    assert_type(again, Reply)
    model.call("Hello!", think=Think.REQUIRED, reasoning_budget=20, max_tokens=60)
    for report in report_tools([get_weather, Trip]):
        assert_type(report, ToolReport)
        assert_type(report.error, Error | None)


def follow(model: Model) -> None:
    stream = model.stream("What's the weather in Paris?", [get_weather])
    assert_type(stream, Stream[Reply])
    for event in stream:
        assert_type(event, StreamEvent)
        print(describe(event), end="")
    assert_type(stream.arguments(0), dict[str, Any])
    assert_type(stream.result, Reply)


def generate(model: Model) -> None:
    trip = model.generate("Three days in Rome, please.", schema=Trip)
    assert_type(trip, Trip)
    assert_type(trip.city, Literal["Paris", "Rome"])
    assert_type(model.generate("Where is it?", schema=Point, max_tokens=200), Point)
    assert_type(model.generate("Which numbers?", schema=list[Literal[1, 2]]), list[Literal[1, 2]])
    assert_type(model.generate("When?", regex=r"\d{4}-\d{2}-\d{2}"), str)
    assert_type(model.generate("Are you sure?", choice=["yes", "no"]), str)
    anything: object = model.generate("Are you sure?", schema={"type": "boolean"})
    assert anything in (True, False)


def run(model: Model) -> None:
    def approve(call: ToolCall) -> bool | str:
        return call.name == "get_weather" or "only the weather, please"

    run = model.run("What's the weather in Rome?", [get_weather], approve=approve, max_steps=3)
    assert_type(run, Run)
    assert_type(run.content, str)
    assert_type(run.reason, Reason)
    for made in run.calls:
        assert_type(made, CallResult)
        assert_type(made.call, ToolCall)
        assert_type(made.outcome, Outcome)
        assert_type(made.error, Exception | None)
    if run.reason is Reason.STOP:
        assert_type(model.call(run.messages).content, str)


@tool(read_only=True, cost=0.01, isolate=Isolation(seconds=10))
def find_mail(query: str) -> list[str]:
    """Searches the mail."""
    return [query]


def run_within_bounds(model: Model) -> None:
    """Budgets, a search of tools, and confidence."""
    assert_type(find_mail("Ann"), list[str])
    budget = Budget(tokens=200, seconds=60, calls=2, cost=0.05)
    search = ToolSearch([find_mail, get_time], top=3)
    question = "What's the time in Oslo?"
    bounded = model.run(question, [], search_tools=search, budget=budget)
    assert_type(bounded.spent, Spent)
    assert_type(bounded.detail, str)
    sure = model.call(question, [get_time], trace=True)
    assert_type(sure.call_probability, float | None)
    for made in sure.calls:
        assert_type(made.confidence, CallConfidence | None)


async def ask(model: Model, texts: Sequence[str]) -> list[str]:
    replies = await asyncio.gather(*[model.acall(text, max_tokens=40) for text in texts])
    assert_type(replies, list[Reply])
    stream = model.astream("What's the weather in Paris?", [get_weather])
    assert_type(stream, AsyncStream[Reply])
    async for event in stream:
        assert_type(event, StreamEvent)
    assert_type(await stream.result(), Reply)
    assert_type(await model.agenerate("Three days in Rome, please.", schema=Trip), Trip)
    assert_type(await model.agenerate("When?", regex=r"\d{4}"), str)
    assert_type(await model.arun("What's the weather in Rome?", [get_weather]), Run)
    return [reply.content for reply in replies]


def fail(model: Model) -> str:
    try:
        model.call("many words " * 2000)
    except ContextError as error:
        assert_type(error.tokens, int | None)
        return str(error)
    except DeadlineError as error:
        return f"too late: {error.message}"
    except Error as error:
        assert_type(error.where, str | None)
        assert_type(error.hint, str | None)
        return error.message
    return "it fits"


def main() -> None:
    with load(sequences=2, context_length=2048) as model:
        assert_type(model, Model)
        assert_type(model.notices, tuple[str, ...])
        for use in (call, follow, generate, run, run_within_bounds):
            use(model)
        print(asyncio.run(ask(model, ["Hello!", "Thank you!"])))
        print(fail(model))


if __name__ == "__main__":
    main()
