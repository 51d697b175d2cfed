"""instructor: answers that are instances of models, over Chat Completions and Responses."""

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

import instructor
import openai
import report
from instructor.core import InstructorRetryException
from pydantic import BaseModel, ConfigDict, Field, field_validator
from report import QUESTION, check_weather, scenario

OPENAI = openai.OpenAI(base_url=f"{report.URL}/v1", api_key="none", max_retries=0)
ASK: Any = {"model": "demo", "messages": [{"role": "user", "content": QUESTION}]}
ASK |= {"temperature": 0, "max_tokens": 300, "max_retries": 0}
TWO: Any = ASK | {"messages": [{"role": "user", "content": report.TWO_CITIES}]}
Mode = instructor.Mode


class get_weather(BaseModel):  # noqa: N801 - the name of the tool
    """Get the weather forecast for a city."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(description="the name of the city")
    day: Literal["today", "tomorrow"]
    unit: Literal["celsius", "fahrenheit"]


class Day(BaseModel):
    """A day."""

    city: str
    rainy: bool


class LongText(BaseModel):
    """Write a long text."""

    text: str = Field(min_length=800)


def make(mode: Mode = Mode.TOOLS) -> instructor.Instructor:
    return instructor.from_openai(OPENAI, mode=mode)


def read(weather: Any) -> dict[str, Any]:
    assert isinstance(weather, get_weather), type(weather)
    return check_weather("get_weather", weather.model_dump())


def call_tools(ask: Any) -> list[dict[str, Any]]:
    """The instances that the model makes, as many and as it likes (`tool_choice` is auto)."""
    made = make(Mode.PARALLEL_TOOLS).create(response_model=Iterable[get_weather], **ask)
    return [read(weather) for weather in made]


@scenario
def plain() -> Any:
    greeting: Any = [{"role": "user", "content": report.GREETING}]
    reply = make().create(response_model=None, **ASK | {"messages": greeting})
    assert reply.choices[0].message.content
    return reply.choices[0].message.content


@scenario
def auto() -> Any:
    calls = call_tools(ASK)
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def named() -> Any:
    weather, completion = make().create_with_completion(response_model=get_weather, **ASK)
    assert completion.choices[0].finish_reason == "tool_calls"
    assert read(weather) == report.ANSWERED
    return read(weather)


@scenario
def named__modes() -> Any:
    """An instance by a strict tool, and by `response_format`."""
    made = dict[str, Any]()
    for mode in (Mode.TOOLS_STRICT, Mode.JSON_SCHEMA):
        day = make(mode).create(response_model=Day, **ASK)
        assert isinstance(day, Day)
        made[mode.value] = day.model_dump()
    return made


@scenario
def named__responses() -> Any:
    ask: Any = ASK | {"max_output_tokens": ASK["max_tokens"]}
    del ask["max_tokens"]
    return read(make(Mode.RESPONSES_TOOLS).create(response_model=get_weather, **ask))


@scenario
def parallel() -> Any:
    calls = call_tools(TWO)
    assert len(calls) > 1, calls
    return calls


@scenario
def stream() -> Any:
    partial = list(make().create_partial(response_model=get_weather, **ASK))
    assert len(partial) > 3, partial
    assert partial[0].unit is None
    return check_weather("get_weather", partial[-1].model_dump())


@scenario
def stream__iterable() -> Any:
    """Instances of a list, each as soon as it is there."""
    days = list(make().create_iterable(response_model=Day, **TWO))
    assert all(isinstance(day, Day) for day in days)
    return [day.model_dump() for day in days]


@scenario
def reasoning_on() -> Any:
    weather, completion = make().create_with_completion(
        response_model=get_weather, reasoning_effort="low", **ASK
    )
    assert completion.usage.completion_tokens_details.reasoning_tokens > 0
    return [completion.choices[0].message.reasoning_content, read(weather)]


@scenario
def reasoning_off() -> Any:
    weather, completion = make().create_with_completion(
        response_model=get_weather, reasoning_effort="none", **ASK
    )
    assert completion.usage.completion_tokens_details.reasoning_tokens == 0
    assert not getattr(completion.choices[0].message, "reasoning_content", None)
    return read(weather)


@scenario
def round_trip() -> Any:
    """What a validator refuses goes back to the model, with the mistake as the tool's result."""
    seen = list[str]()

    class Checked(get_weather):
        city: Literal["Paris", "Lyon"]  # the demo model has not learnt to correct itself

        @field_validator("city")
        @classmethod
        def refuse_first(cls, city: str) -> str:
            seen.append(city)
            if len(seen) == 1:
                raise ValueError("the city has to be in France")
            return city

    ask: Any = ASK | {"max_retries": 2, "reasoning_effort": "none"}
    weather = make().create(response_model=Checked, **ask)
    assert len(seen) == 2, seen
    return read(weather)


@scenario
def error() -> Any:
    try:
        make().create(response_model=get_weather, top_p=3, **ASK)
    except (openai.BadRequestError, InstructorRetryException) as refusal:
        cause: Any = refusal
        while not isinstance(cause, openai.BadRequestError):
            cause = cause.__cause__
        assert cause.param == "/top_p", cause.param
        return cause.type
    raise AssertionError("it was not refused")


async def leave() -> None:
    """Leaves a stream at its first part (without asyncio, the client reads it to its end)."""
    options: Any = {"base_url": f"{report.URL}/v1", "api_key": "none", "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as connections:
        client = instructor.from_openai(connections)
        ask = ASK | {"max_tokens": 1500}
        async for _ in client.create_partial(response_model=LongText, **ask):
            break


@scenario
def cancel() -> Any:
    with report.cancelling():
        asyncio.run(leave())
    return read(make().create(response_model=get_weather, **ASK))


report.main()
