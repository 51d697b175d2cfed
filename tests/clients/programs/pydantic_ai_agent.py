"""pydantic-ai: agents that run a tool, and single requests, over Chat Completions."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import report
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, Tool, UsageLimits
from pydantic_ai.direct import model_request_stream_sync, model_request_sync
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition
from report import QUESTION, WEATHER, check_weather, scenario


def make_model() -> OpenAIChatModel:
    """A model with connections of its own: each run has an event loop of its own."""
    client = AsyncOpenAI(base_url=f"{report.URL}/v1", api_key="none", max_retries=0)
    return OpenAIChatModel("demo", provider=OpenAIProvider(openai_client=client))


SETTINGS = OpenAIChatModelSettings(temperature=0, max_tokens=300)
ASK: list[ModelMessage] = [ModelRequest.user_text_prompt(QUESTION)]


def define(tool: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=tool["name"],
        description=tool["description"],
        parameters_json_schema=tool["parameters"],
    )


TOOLS = ModelRequestParameters(function_tools=[define(WEATHER)])


def ask(messages: Sequence[ModelMessage] = ASK, **settings: Any) -> ModelResponse:
    """One request, with the tool on offer."""
    return model_request_sync(
        make_model(),
        messages,
        model_settings={**SETTINGS, **settings},
        model_request_parameters=TOOLS,
    )


def calls_of(response: ModelResponse) -> list[dict[str, Any]]:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    return [check_weather(call.tool_name, call.args) for call in calls]


def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    """Get the weather forecast for a city.

    Args:
        city: the name of the city
        day: the day
        unit: the unit
    """
    return report.TOLD


@scenario
def plain() -> Any:
    run = Agent(make_model(), model_settings=SETTINGS).run_sync(report.GREETING)
    assert run.usage.input_tokens > 0
    assert run.usage.output_tokens > 0
    assert run.output
    return run.output


@scenario
def auto() -> Any:
    response = ask()
    assert response.finish_reason == "tool_call", response.finish_reason
    calls = calls_of(response)
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    calls = calls_of(ask(tool_choice="required"))
    assert calls
    return calls


@scenario
def named() -> Any:
    (call,) = calls_of(ask(tool_choice=["get_weather"]))
    return call


@scenario
def none() -> Any:
    response = ask(tool_choice="none")
    assert not calls_of(response)
    assert response.text
    return response.text


@scenario
def parallel() -> Any:
    (one,) = calls_of(ask(tool_choice="required", parallel_tool_calls=False))
    several = ask([ModelRequest.user_text_prompt(report.TWO_CITIES)], tool_choice="required")
    calls = calls_of(several)
    assert len(calls) > 1, calls
    ids = [part.tool_call_id for part in several.parts if isinstance(part, ToolCallPart)]
    assert len(set(ids)) == len(ids)
    return [one, calls]


@scenario
def stream() -> Any:
    with model_request_stream_sync(
        make_model(), ASK, model_settings=SETTINGS, model_request_parameters=TOOLS
    ) as events:
        kinds = {event.event_kind for event in events}
        response = events.response
    assert {"part_start", "part_delta", "part_end"} <= kinds, kinds
    assert response.usage.output_tokens > 0
    assert calls_of(response) == [report.ANSWERED]
    return calls_of(response)


@scenario
def stream__agent() -> Any:
    """An agent whose turns are streamed: its answer, piece by piece, after the call."""

    async def run() -> str:
        agent = Agent(make_model(), tools=[Tool(get_weather)], model_settings=SETTINGS)
        pieces = list[str]()
        async with agent.run_stream(QUESTION) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                pieces.append(piece)
        assert len(pieces) > 1
        return "".join(pieces)

    answer = asyncio.run(run())
    assert "14" in answer, answer
    return answer


@scenario
def reasoning_on() -> Any:
    response = ask(openai_reasoning_effort="low")
    assert response.thinking
    assert "<think>" not in (response.text or "")
    assert response.usage.details["reasoning_tokens"] > 0
    return [response.thinking, calls_of(response)]


@scenario
def reasoning_off() -> Any:
    response = ask(openai_reasoning_effort="none")
    assert not response.thinking
    return calls_of(response)


@scenario
def round_trip() -> Any:
    agent = Agent(make_model(), tools=[Tool(get_weather)], model_settings=SETTINGS)
    run = agent.run_sync(QUESTION, usage_limits=UsageLimits(request_limit=4))
    parts = [part for message in run.all_messages() for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    returns = [part for part in parts if isinstance(part, ToolReturnPart)]
    assert [part.tool_call_id for part in calls] == [part.tool_call_id for part in returns]
    assert [check_weather(part.tool_name, part.args) for part in calls] == [report.ANSWERED]
    assert "14" in run.output, run.output
    assert run.usage.cache_read_tokens > 50
    return run.output


@scenario
def round_trip__typed() -> Any:
    """An answer that is an instance of a model: by a call, and by `response_format`."""

    class Day(BaseModel):
        city: str
        rainy: bool

    made = list[Any]()
    for output in (Day, NativeOutput(Day)):
        agent = Agent(make_model(), output_type=output, model_settings=SETTINGS)
        day = agent.run_sync(QUESTION).output
        assert isinstance(day, Day)
        made.append(day.model_dump())
    return made


@scenario
def error() -> Any:
    try:
        ask(extra_body={"tool_choice": "sometimes"})
    except ModelHTTPError as refusal:
        assert refusal.status_code == 400
        body: Any = refusal.body
        assert body["param"] == "/tool_choice", body
        return body["type"]
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    offer = ModelRequestParameters(function_tools=[define(report.LONG)])
    settings: Any = {**SETTINGS, "max_tokens": 1500, "tool_choice": "required"}
    with (
        report.cancelling(),
        model_request_stream_sync(
            make_model(), ASK, model_settings=settings, model_request_parameters=offer
        ) as events,
    ):
        next(iter(events))
    return ask().finish_reason


report.main()
