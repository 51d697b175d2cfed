"""AutoGen: the client of OpenAI's API, and the agent that calls tools and reflects on results."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

import report
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallRequestEvent
from autogen_core.models import CreateResult, ModelInfo, SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel
from report import QUESTION, check_weather, scenario

INFO = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=True,
    family="unknown",
    structured_output=True,
)


LOOP = asyncio.Runner()  # one for all scenarios, as connections are kept


class Rainy(BaseModel):
    """Whether it rains."""

    rainy: bool


async def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    return report.TOLD


WEATHER = FunctionTool(get_weather, description=report.WEATHER["description"], strict=True)


def run(task: Coroutine[Any, Any, Any]) -> Any:
    return LOOP.run(task)


def make() -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(
        model="demo",
        base_url=f"{report.URL}/v1",
        api_key="none",
        model_info=INFO,
        temperature=0,
        max_tokens=300,
        max_retries=0,
    )


def say(text: str) -> list[Any]:
    return [SystemMessage(content="You call tools."), UserMessage(content=text, source="user")]


def ask(question: str = QUESTION, **options: Any) -> CreateResult:
    """One turn, with the tool on offer."""
    return run(make().create(say(question), tools=[WEATHER], **options))


def calls_of(content: Any) -> list[dict[str, Any]]:
    assert not isinstance(content, str), content
    return [check_weather(call.name, call.arguments) for call in content]


@scenario
def plain() -> Any:
    reply = run(make().create([UserMessage(content=report.GREETING, source="user")]))
    assert reply.finish_reason == "stop"
    return reply.content


@scenario
def plain__structured() -> Any:
    reply = run(make().create(say("Does it rain?"), json_output=Rainy))
    return Rainy.model_validate_json(reply.content).model_dump()


@scenario
def auto() -> Any:
    reply = ask()
    assert reply.finish_reason == "function_calls"
    return calls_of(reply.content)


@scenario
def required() -> Any:
    return calls_of(ask(tool_choice="required").content)


@scenario
def named() -> Any:
    return calls_of(ask(tool_choice=WEATHER).content)


@scenario
def none() -> Any:
    reply = ask(tool_choice="none")
    assert isinstance(reply.content, str)
    return reply.content


@scenario
def parallel() -> Any:
    calls = calls_of(ask(report.TWO_CITIES).content)
    assert len(calls) == 2, calls
    return calls


@scenario
def stream() -> Any:
    async def read() -> list[Any]:
        return [event async for event in make().create_stream(say(QUESTION), tools=[WEATHER])]

    *_, last = run(read())
    return calls_of(last.content)


@scenario
def round_trip() -> Any:
    agent = AssistantAgent(
        "weather",
        model_client=make(),
        tools=[WEATHER],
        system_message="You call tools.",
        reflect_on_tool_use=True,
    )
    messages = run(agent.run(task=QUESTION)).messages
    (asked,) = [message for message in messages if isinstance(message, ToolCallRequestEvent)]
    answer = messages[-1].to_model_text()
    assert answer
    return [calls_of(asked.content), answer]


if __name__ == "__main__":
    report.main()
