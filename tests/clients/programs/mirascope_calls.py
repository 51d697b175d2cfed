"""mirascope: its calls over Chat Completions, Responses, Messages, and the API for Ollama."""

from typing import Any, Literal

import report
from mirascope import llm
from pydantic import BaseModel
from report import QUESTION, check_weather, scenario

llm.register_provider("openai", scope="openai/", api_key="none", base_url=f"{report.URL}/v1")
llm.register_provider("anthropic", scope="anthropic/", api_key="none", base_url=report.URL)
llm.register_provider("ollama", scope="ollama/", base_url=f"{report.URL}/v1/")
MODELS = [
    llm.Model(name, max_tokens=300)
    for name in (
        "openai/demo:completions",
        "openai/demo:responses",
        "anthropic/demo",
        "ollama/demo",
    )
]


class Day(BaseModel):
    city: str
    rainy: bool


@llm.tool
def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    """Get the weather forecast for a city."""
    return report.TOLD


def calls_of(response: Any) -> list[Any]:
    return [check_weather(call.name, call.args) for call in response.tool_calls]


def answer(response: Any) -> str:
    """The text after the calls were executed."""
    assert calls_of(response) == [report.ANSWERED], response.tool_calls
    return response.resume(response.execute_tools()).text()


@scenario
def plain() -> Any:
    texts = [model.call(report.GREETING).text() for model in MODELS]
    assert all(texts)
    return texts


@scenario
def auto() -> Any:
    calls = [calls_of(model.call(QUESTION, tools=[get_weather])) for model in MODELS]
    assert all(some == [report.ANSWERED] for some in calls), calls
    return calls


@scenario
def parallel() -> Any:
    calls = [calls_of(model.call(report.TWO_CITIES, tools=[get_weather])) for model in MODELS]
    assert all(len(some) > 1 for some in calls), calls
    return calls


@scenario
def stream() -> Any:
    calls = list[Any]()
    for model in MODELS:
        response = model.stream(QUESTION, tools=[get_weather])
        response.finish()
        calls.append(calls_of(response))
        assert response.usage.output_tokens > 0
    return calls


@scenario
def round_trip() -> Any:
    texts = [answer(model.call(QUESTION, tools=[get_weather])) for model in MODELS]
    assert all("14" in text for text in texts), texts
    return texts


@scenario
def round_trip__typed() -> Any:
    days = [model.call(QUESTION, format=Day).parse() for model in MODELS]
    assert all(isinstance(day, Day) for day in days)
    return [day.model_dump() for day in days]


@scenario
def error() -> Any:
    try:
        llm.Model("anthropic/demo", max_tokens=300, top_k=-1).call(QUESTION)
    except llm.BadRequestError as refusal:
        assert "top_k" in str(refusal), refusal
        return "top_k"
    raise AssertionError("it was not refused")


report.main()
