"""openai-agents: runs of an agent, over Responses and over Chat Completions."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import openai
import report
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ShellCommandRequest,
    ShellTool,
    set_tracing_disabled,
)
from agents.result import RunResultBase
from openai.types.shared import Reasoning
from pydantic import BaseModel
from report import QUESTION, WEATHER, check_weather, scenario

set_tracing_disabled(True)
LOOP = asyncio.Runner()  # one for all, as connections belong to it
CLIENT = openai.AsyncOpenAI(base_url=f"{report.URL}/v1", api_key="none", max_retries=0)
KINDS: dict[str, Any] = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


async def answer(context: Any, arguments: str) -> str:
    check_weather("get_weather", arguments)
    return report.TOLD


def define(tool: dict[str, Any]) -> FunctionTool:
    return FunctionTool(tool["name"], tool["description"], tool["parameters"], answer)


def make_agent(kind: str = "responses", tool: Any = WEATHER, **options: Any) -> Agent[None]:
    """An agent that ends with its first call: one request."""
    given: Any = {"tool_use_behavior": "stop_on_first_tool"}
    given |= {"tools": [define(tool)] if tool else []}
    settings = {"temperature": 0, "max_tokens": 300, **options.pop("settings", {})}
    given |= {"model_settings": ModelSettings(**settings)}
    return Agent("demo", model=KINDS[kind]("demo", CLIENT), **given | options)


def both(make: Any) -> list[Any]:
    """What a function of the kind of model comes to for each."""

    async def work() -> list[Any]:
        return [await make(kind) for kind in KINDS]

    return LOOP.run(work())


def calls_of(result: RunResultBase) -> list[dict[str, Any]]:
    items = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
    return [check_weather(item.name, item.arguments) for item in items]


def run(question: str = QUESTION, **options: Any) -> list[Any]:
    """The calls of a run with each kind of model."""

    async def work(kind: str) -> list[Any]:
        return calls_of(await Runner.run(make_agent(kind, **options), question))

    return both(work)


@scenario
def plain() -> Any:
    async def work(kind: str) -> Any:
        result = await Runner.run(make_agent(kind, tool=None), report.GREETING)
        assert result.context_wrapper.usage.output_tokens > 0
        assert result.final_output
        return result.final_output

    return both(work)


@scenario
def auto() -> Any:
    calls = run()
    assert calls == [[report.ANSWERED]] * 2, calls
    return calls


@scenario
def required() -> Any:
    calls = run(settings={"tool_choice": "required"})
    assert all(calls)
    return calls


@scenario
def named() -> Any:
    calls = run(settings={"tool_choice": "get_weather"})
    assert [len(made) for made in calls] == [1, 1]
    return calls


@scenario
def none() -> Any:
    calls = run(settings={"tool_choice": "none"})
    assert calls == [[], []]
    return calls


@scenario
def parallel() -> Any:
    one = run(report.TWO_CITIES, settings={"tool_choice": "required", "parallel_tool_calls": False})
    assert [len(made) for made in one] == [1, 1], one
    several = run(report.TWO_CITIES, settings={"tool_choice": "required"})
    assert all(len(made) > 1 for made in several), several
    return several


@scenario
def stream() -> Any:
    async def work(kind: str) -> Any:
        result = Runner.run_streamed(make_agent(kind), QUESTION)
        events = [event async for event in result.stream_events()]
        kinds = {event.data.type for event in events if event.type == "raw_response_event"}
        wanted = {"response.created", "response.function_call_arguments.delta"}
        assert wanted | {"response.completed"} <= kinds, kinds
        return calls_of(result)

    calls = both(work)
    assert calls == [[report.ANSWERED]] * 2, calls
    return calls


@scenario
def reasoning_on() -> Any:
    async def work(kind: str) -> Any:
        settings = {"reasoning": Reasoning(effort="low")}
        result = await Runner.run(make_agent(kind, settings=settings), QUESTION)
        assert result.context_wrapper.usage.output_tokens_details.reasoning_tokens > 0
        assert any(item.type == "reasoning_item" for item in result.new_items)
        return calls_of(result)

    return both(work)


@scenario
def reasoning_off() -> Any:
    async def work(kind: str) -> Any:
        settings = {"reasoning": Reasoning(effort="none")}
        result = await Runner.run(make_agent(kind, settings=settings), QUESTION)
        assert result.context_wrapper.usage.output_tokens_details.reasoning_tokens == 0
        assert all(item.type != "reasoning_item" for item in result.new_items)
        return calls_of(result)

    return both(work)


@scenario
def round_trip() -> Any:
    async def work(kind: str) -> Any:
        agent = make_agent(kind, tool_use_behavior="run_llm_again")
        result = await Runner.run(agent, QUESTION, max_turns=4)
        assert calls_of(result) == [report.ANSWERED]
        assert "14" in result.final_output, result.final_output
        assert result.context_wrapper.usage.input_tokens_details.cached_tokens > 50
        return result.final_output

    return both(work)


@scenario
def round_trip__shell() -> Any:
    """The shell that OpenAI describes, and this program carries out."""
    asked = list[str]()

    async def carry_out(request: ShellCommandRequest) -> str:
        asked.extend(request.data.action.commands)
        return "notes.txt"

    async def work() -> Any:
        agent = make_agent(tool=None, settings={"tool_choice": "required"})
        agent.tools = [ShellTool(executor=carry_out)]
        result = await Runner.run(agent, "List the files.", max_turns=3)
        assert asked, "no command was asked for"
        return [asked, result.final_output]

    return LOOP.run(work())


@scenario
def round_trip__reasoning() -> Any:
    """What was thought goes back with the result."""

    async def work(kind: str) -> Any:
        settings = {"reasoning": Reasoning(effort="low")}
        agent = make_agent(kind, tool_use_behavior="run_llm_again", settings=settings)
        result = await Runner.run(agent, QUESTION, max_turns=4)
        assert "14" in result.final_output, result.final_output
        return result.final_output

    return both(work)


@scenario
def round_trip__stored() -> Any:
    """The server keeps the conversation (Responses alone)."""

    async def work() -> Any:
        agent = make_agent(tool_use_behavior="run_llm_again")
        ask: Any = {"max_turns": 4, "auto_previous_response_id": True}
        result = await Runner.run(agent, QUESTION, **ask)
        assert result.last_response_id
        assert "14" in result.final_output, result.final_output
        return result.final_output

    return LOOP.run(work())


@scenario
def round_trip__typed() -> Any:
    class Day(BaseModel):
        city: str
        rainy: bool

    async def work(kind: str) -> Any:
        agent = make_agent(kind, tool=None, output_type=Day)
        day = (await Runner.run(agent, QUESTION)).final_output
        assert isinstance(day, Day)
        return day.model_dump()

    return both(work)


@scenario
def error() -> Any:
    async def work(kind: str) -> Any:
        try:
            await Runner.run(make_agent(kind, settings={"top_p": 3.0}), QUESTION)
        except openai.BadRequestError as refusal:
            assert refusal.param == "/top_p", refusal.param
            return refusal.type
        raise AssertionError("it was not refused")

    return both(work)


async def leave(kind: str) -> None:
    settings = {"tool_choice": "required", "max_tokens": 1500}
    agent = make_agent(kind, tool=report.LONG, settings=settings)
    result = Runner.run_streamed(agent, QUESTION)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and "arguments" in event.data.type:
            result.cancel()  # at once
            break
    with suppress(asyncio.CancelledError):
        task: Awaitable[Any] | None = result.run_loop_task
        if task is not None:
            await task


@scenario
def cancel() -> Any:
    for kind in KINDS:
        with report.cancelling():
            LOOP.run(leave(kind))
    return run()


report.main()
