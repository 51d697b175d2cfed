"""Microsoft's Agent Framework: `Agent` over its clients for Chat Completions, Responses, Messages
and Ollama."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

import report
from agent_framework import Agent
from agent_framework.anthropic import AnthropicClient
from agent_framework.ollama import OllamaChatClient
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from anthropic import AsyncAnthropic
from pydantic import BaseModel
from report import QUESTION, TOLD, WEATHER, check_weather, scenario

V1: Any = {"model": "demo", "base_url": f"{report.URL}/v1", "api_key": "none"}
OPTIONS: Any = {"temperature": 0, "max_tokens": 300}


class Place(BaseModel):
    """A place, and whether it rains there."""

    city: str
    rainy: bool


def get_weather(
    city: Annotated[str, "the name of the city"],
    day: Literal["today", "tomorrow"],
    unit: Literal["celsius", "fahrenheit"],
) -> str:
    return TOLD


get_weather.__doc__ = WEATHER["description"]


def chat() -> Any:
    return OpenAIChatCompletionClient(**V1)


def responses() -> Any:
    return OpenAIChatClient(**V1)


def messages() -> Any:
    client = AsyncAnthropic(base_url=report.URL, api_key="none", max_retries=0)
    return AnthropicClient(model="demo", anthropic_client=client)


def ollama() -> Any:
    return OllamaChatClient(host=report.URL, model="demo")


def make_agent(make: Callable[[], Any], tools: list[Any] | None = None) -> Any:
    return Agent(client=make(), tools=tools, default_options=OPTIONS)


def greet(make: Callable[[], Any]) -> Any:
    reply = asyncio.run(make_agent(make).run(report.GREETING))
    assert reply.text
    return reply.text


def answer(make: Callable[[], Any]) -> Any:
    reply = asyncio.run(make_agent(make, [get_weather]).run(QUESTION))
    contents = [content for message in reply.messages for content in message.contents]
    calls = [content for content in contents if content.type == "function_call"]
    made = [check_weather(call.name, call.arguments) for call in calls]
    assert made == [report.ANSWERED], made
    assert "14" in reply.text, reply.text
    return reply.text


def stream_answer(make: Callable[[], Any]) -> Any:
    """The updates have the call and its result, and add up to the text."""

    async def work() -> tuple[str, set[str]]:
        updates = make_agent(make, [get_weather]).run(QUESTION, stream=True)
        kinds: set[str] = set()
        async for update in updates:
            kinds |= {content.type for content in update.contents}
        return (await updates.get_final_response()).text, kinds

    text, kinds = asyncio.run(work())
    assert kinds >= {"function_call", "function_result", "text", "usage"}, kinds
    assert "14" in text, text
    return text


@scenario
def plain() -> Any:
    return [greet(make) for make in (chat, responses, messages, ollama)]


@scenario
def required() -> Any:
    """The agent asks for a call in its first turn, and then leaves it to the model."""

    async def work(make: Callable[[], Any]) -> Any:
        agent = make_agent(make, [get_weather])
        return await agent.run(report.GREETING, options={"tool_choice": "required"})

    for make in (chat, responses, messages):
        reply = asyncio.run(work(make))
        contents = [content for message in reply.messages for content in message.contents]
        assert "function_call" in [content.type for content in contents], contents
    return None


@scenario
def stream() -> Any:
    return stream_answer(chat)


@scenario
def stream__responses() -> Any:
    return stream_answer(responses)


@scenario
def stream__messages() -> Any:
    return stream_answer(messages)


@scenario
def stream__ollama() -> Any:
    return stream_answer(ollama)


@scenario
def round_trip() -> Any:
    return answer(chat)


@scenario
def round_trip__responses() -> Any:
    return answer(responses)


@scenario
def round_trip__messages() -> Any:
    return answer(messages)


@scenario
def round_trip__ollama() -> Any:
    return answer(ollama)


@scenario
def round_trip__typed() -> Any:
    async def work(make: Callable[[], Any]) -> Any:
        options = {"response_format": Place}
        return await make_agent(make).run(QUESTION, options=options)

    places: list[Any] = []
    for make in (chat, responses, messages, ollama):
        place = asyncio.run(work(make)).value
        assert isinstance(place, Place), place
        places.append(place.model_dump())
    return places


@scenario
def error() -> Any:
    """The client's error has what the server says."""
    refused: list[str] = []
    for make in (chat, responses, messages, ollama):
        try:
            asyncio.run(make_agent(make).run("word " * 20_000))
        except Exception as refusal:
            assert "the context" in str(refusal), refusal
            refused.append(type(refusal).__name__)
    assert len(refused) == 4, refused
    return refused


report.main()
