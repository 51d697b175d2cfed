"""agno: its agent over Chat Completions, Responses and Messages."""

from typing import Any, Literal

import report
from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.models.openai import OpenAIResponses
from agno.models.openai.like import OpenAILike
from pydantic import BaseModel
from report import QUESTION, scenario

OPENAI = {"base_url": f"{report.URL}/v1", "api_key": "none", "temperature": 0}
MODELS: list[Any] = [
    OpenAILike("demo", max_tokens=300, **OPENAI),
    OpenAIResponses("demo", max_output_tokens=300, **OPENAI),
    Claude(
        "demo",
        api_key="none",
        max_tokens=300,
        temperature=0,
        client_params={"base_url": report.URL},
    ),
]


class Weather(BaseModel):
    city: str
    rainy: bool


def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    """Get the weather forecast for a city."""
    return report.TOLD


def each(question: str, **options: Any) -> list[Any]:
    """What the agent answers with each model."""
    return [Agent(model=model, telemetry=False, **options).run(question) for model in MODELS]


@scenario
def plain() -> Any:
    answers = [reply.content for reply in each(report.GREETING)]
    assert all(answers)
    return answers


@scenario
def stream() -> Any:
    texts = list[str]()
    for model in MODELS:
        agent = Agent(model=model, tools=[get_weather], telemetry=False)
        events = [*agent.run(QUESTION, stream=True, stream_events=True)]
        kinds = {event.event for event in events}
        assert {"ToolCallCompleted", "RunCompleted"} <= kinds, kinds
        texts.append(events[-1].content)
    assert all("14" in text for text in texts), texts
    return texts


@scenario
def round_trip() -> Any:
    replies = each(QUESTION, tools=[get_weather])
    for reply in replies:
        assert [call.tool_args for call in reply.tools] == [report.ANSWERED], reply.tools
        assert "14" in reply.content, reply.content
        assert reply.metrics.output_tokens > 0
    return [reply.content for reply in replies]


@scenario
def round_trip__typed() -> Any:
    return [reply.content.model_dump() for reply in each(QUESTION, output_schema=Weather)]


@scenario
def error() -> Any:
    model = OpenAILike("demo", top_p=3, **OPENAI)
    reply = Agent(model=model, telemetry=False).run(QUESTION)
    assert reply.status.value == "ERROR", reply.status
    assert "top_p" in reply.content, reply.content
    return reply.content


report.main()
