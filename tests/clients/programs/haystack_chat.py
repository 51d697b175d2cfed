"""Haystack: its chat generator of OpenAI's API and the agent that calls tools."""

from typing import Any

import report
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import Tool
from haystack.utils import Secret
from report import QUESTION, check_weather, scenario

WEATHER = Tool(
    name=report.WEATHER["name"],
    description=report.WEATHER["description"],
    parameters=report.PARAMETERS,
    function=lambda city, day, unit: report.TOLD,
)
NAMED = {"type": "function", "function": {"name": WEATHER.name}}


def make(**options: Any) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(
        model="demo",
        api_base_url=f"{report.URL}/v1",
        api_key=Secret.from_token("none"),
        generation_kwargs={"temperature": 0, "max_tokens": 300, **options},
        max_retries=0,
    )


def ask(question: str = QUESTION, *, strict: bool = False, **options: Any) -> ChatMessage:
    """One turn, with the tool on offer."""
    (reply,) = make(**options).run(
        [ChatMessage.from_system("You call tools."), ChatMessage.from_user(question)],
        tools=[WEATHER],
        tools_strict=strict,
    )["replies"]
    return reply


def calls_of(message: ChatMessage) -> list[dict[str, Any]]:
    return [check_weather(call.tool_name, call.arguments) for call in message.tool_calls]


def check_call(message: ChatMessage) -> list[dict[str, Any]]:
    assert message.meta["finish_reason"] == "tool_calls"
    calls = calls_of(message)
    assert len(calls) == 1, calls
    return calls


@scenario
def plain() -> Any:
    (reply,) = make().run([ChatMessage.from_user(report.GREETING)])["replies"]
    assert reply.text
    return reply.text


@scenario
def auto() -> Any:
    return check_call(ask())


@scenario
def required() -> Any:
    return check_call(ask(strict=True, tool_choice="required"))


@scenario
def named() -> Any:
    return check_call(ask(tool_choice=NAMED))


@scenario
def none() -> Any:
    reply = ask(tool_choice="none")
    assert reply.text
    assert not reply.tool_calls
    return reply.text


@scenario
def parallel() -> Any:
    calls = calls_of(ask(report.TWO_CITIES))
    assert len(calls) == 2, calls
    return calls


@scenario
def stream() -> Any:
    chunks: list[StreamingChunk] = []
    (reply,) = make().run(
        [ChatMessage.from_user(QUESTION)], tools=[WEATHER], streaming_callback=chunks.append
    )["replies"]
    whole = "".join(delta.arguments or "" for chunk in chunks for delta in chunk.tool_calls or ())
    calls = check_call(reply)
    assert check_weather(WEATHER.name, whole) == calls[0]
    return calls


@scenario
def round_trip() -> Any:
    agent = Agent(chat_generator=make(), tools=[WEATHER], max_agent_steps=3)
    messages = agent.run(messages=[ChatMessage.from_user(QUESTION)])["messages"]
    (call,) = calls_of(messages[1])
    assert messages[2].tool_call_results[0].result == report.TOLD
    assert messages[-1].text
    return [call, messages[-1].text]


@scenario
def error() -> Any:
    try:
        ask(tool_choice="sometimes")
    except Exception as failure:
        assert "tool_choice" in str(failure)
        return type(failure).__name__
    raise AssertionError("there was no error")


if __name__ == "__main__":
    report.main()
