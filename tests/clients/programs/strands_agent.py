"""strands-agents: `Agent` over its models for Chat Completions, Responses, Messages and Ollama."""

import asyncio
from collections.abc import Callable
from typing import Any

import report
from pydantic import BaseModel
from report import QUESTION, TOLD, WEATHER, check_weather, scenario
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.ollama import OllamaModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from strands.types.exceptions import ContextWindowOverflowException

V1: Any = {"base_url": f"{report.URL}/v1", "api_key": "none", "max_retries": 0}
ROOT: Any = {"base_url": report.URL, "api_key": "none", "max_retries": 0}
TOKENS = 300
TOO_LONG = "word " * 20_000


class Place(BaseModel):
    """A place, and whether it rains there."""

    city: str
    rainy: bool


@tool(
    name=WEATHER["name"],
    description=WEATHER["description"],
    inputSchema={"json": WEATHER["parameters"]},
)
def get_weather(city: str, day: str, unit: str) -> str:
    return TOLD


def chat(**options: Any) -> Any:
    params = {"temperature": 0, "max_tokens": TOKENS} | options
    return OpenAIModel(client_args=V1, model_id="demo", params=params)


def responses() -> Any:
    params = {"temperature": 0, "max_output_tokens": TOKENS}
    return OpenAIResponsesModel(client_args=V1, model_id="demo", params=params)


def messages() -> Any:
    return AnthropicModel(client_args=ROOT, model_id="demo", max_tokens=TOKENS)


def ollama() -> Any:
    return OllamaModel(report.URL, model_id="demo", temperature=0, max_tokens=TOKENS)


def ask(make: Callable[[], Any], said: str = QUESTION, **options: Any) -> tuple[str, list[Any]]:
    """What the agent says in the end, and the calls on its way."""
    agent = Agent(model=make(), callback_handler=None, **options)
    text = str(agent(said)).strip()
    blocks = [block for message in agent.messages for block in message["content"]]
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    return text, [check_weather(use["name"], use["input"]) for use in uses]


def greet(make: Callable[[], Any]) -> Any:
    text, _ = ask(make, report.GREETING)
    assert text
    return text


def answer(make: Callable[[], Any]) -> Any:
    text, calls = ask(make, tools=[get_weather])
    assert calls == [report.ANSWERED], calls
    assert "14" in text, text
    return text


def overflow(make: Callable[[], Any]) -> Any:
    """The agent knows that the context is full, and not only that something is wrong."""
    try:
        ask(make, TOO_LONG)
    except ContextWindowOverflowException as refusal:
        return type(refusal).__name__
    raise AssertionError("it was not refused")


@scenario
def plain() -> Any:
    return greet(chat)


@scenario
def plain__responses() -> Any:
    return greet(responses)


@scenario
def plain__messages() -> Any:
    return greet(messages)


@scenario
def plain__ollama() -> Any:
    return greet(ollama)


@scenario
def stream() -> Any:
    async def work() -> str:
        agent = Agent(model=chat(), callback_handler=None, tools=[get_weather])
        events = [event async for event in agent.stream_async(QUESTION)]
        return "".join(event["data"] for event in events if "data" in event)

    text = asyncio.run(work())
    assert "14" in text, text
    return text


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
    places: list[Any] = []
    for make in (chat, responses, messages, ollama):
        agent = Agent(model=make(), callback_handler=None)
        place = agent(QUESTION, structured_output_model=Place).structured_output
        assert isinstance(place, Place), place
        places.append(place.model_dump())
    return places


@scenario
def error() -> Any:
    return overflow(chat)


@scenario
def error__responses() -> Any:
    return overflow(responses)


@scenario
def error__messages() -> Any:
    return overflow(messages)


@scenario
def cancel() -> Any:
    """A text is left, for calls are gathered before the package tells of them."""
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": report.LONG_TEXT}}

    async def leave() -> None:
        said = [{"role": "user", "content": [{"text": report.GREETING}]}]
        events = chat(max_tokens=1500, response_format=format).stream(said)
        async for event in events:
            if "contentBlockDelta" in event:
                break
        await events.aclose()

    with report.cancelling():
        asyncio.run(leave())
    return answer(chat)


report.main()
