"""LangChain: `create_agent` and structured output over Responses, Messages and Ollama."""

from collections.abc import Callable
from typing import Any

import report
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from report import QUESTION, TOLD, WEATHER, check_weather, scenario

TOKENS = 300


class Place(BaseModel):
    """A place, and whether it rains there."""

    city: str
    rainy: bool


def tell_weather(city: str, day: str, unit: str) -> str:
    return TOLD


GET_WEATHER = StructuredTool.from_function(
    tell_weather,
    name=WEATHER["name"],
    description=WEATHER["description"],
    args_schema=WEATHER["parameters"],
)


def responses(**options: Any) -> Any:
    given: Any = {"temperature": 0, "max_tokens": TOKENS, "max_retries": 0, **options}
    url = f"{report.URL}/v1"
    return ChatOpenAI(model="demo", base_url=url, api_key="none", use_responses_api=True, **given)


def messages(**options: Any) -> Any:
    given: Any = {"temperature": 0, "max_tokens": TOKENS, "max_retries": 0, **options}
    return ChatAnthropic(model="demo", base_url=report.URL, api_key="none", **given)


def ollama(**options: Any) -> Any:
    given: Any = {"temperature": 0, "num_predict": TOKENS, **options}
    return ChatOllama(model="demo", base_url=report.URL, **given)


def answer(model: Any) -> Any:
    """The agent calls the tool and tells what it has said."""
    found = create_agent(model, [GET_WEATHER]).invoke({"messages": [HumanMessage(QUESTION)]})
    calls: list[Any] = []
    for message in found["messages"]:
        if isinstance(message, AIMessage):
            assert not message.invalid_tool_calls, message.invalid_tool_calls
            calls += [check_weather(call["name"], call["args"]) for call in message.tool_calls]
    assert calls == [report.ANSWERED], calls
    text = found["messages"][-1].text
    assert "14" in text, text
    return text


def stream_calls(model: Any) -> Any:
    """The calls that the chunks of a stream add up to."""
    whole: Any = None
    for chunk in model.bind_tools([GET_WEATHER]).stream(report.TWO_CITIES):
        assert isinstance(chunk, AIMessageChunk), chunk
        whole = chunk if whole is None else whole + chunk
    assert whole.usage_metadata["output_tokens"] > 0, whole
    calls = [check_weather(call["name"], call["args"]) for call in whole.tool_calls]
    assert calls
    return calls


def extract(model: Any) -> Any:
    """A typed value, as a call and as an answer."""
    values: list[Any] = []
    for method in ("function_calling", "json_schema"):
        value = model.with_structured_output(Place, method=method).invoke(QUESTION)
        assert isinstance(value, Place), value
        values.append(value.model_dump())
    return values


def continue_foreign(model: Any) -> Any:
    """A conversation with the ids of other services, and a result that is an error."""
    call: Any = {"name": WEATHER["name"], "args": report.ANSWERED, "id": "toolu_01A/b:c"}
    said = [
        HumanMessage(QUESTION),
        AIMessage("Let me see.", tool_calls=[call]),
        ToolMessage("no station", tool_call_id=call["id"], status="error"),
    ]
    text = model.bind_tools([GET_WEATHER]).invoke(said).text
    assert text
    return text


def refuse(model: Any) -> Any:
    try:
        model.invoke("word " * 20_000)
    except Exception as refusal:
        assert "the context" in str(refusal), refusal
        return type(refusal).__name__
    raise AssertionError("it was not refused")


def in_all(check: Callable[[Any], Any]) -> Any:
    return [check(make()) for make in (responses, messages, ollama)]


@scenario
def required() -> Any:
    """Ollama's client has no words for it."""
    names: list[str] = []
    for model in (responses(), messages()):
        reply = model.bind_tools([GET_WEATHER], tool_choice="any").invoke(report.GREETING)
        names += [call["name"] for call in reply.tool_calls]
    assert set(names) == {WEATHER["name"]}, names
    return names


@scenario
def stream() -> Any:
    return stream_calls(responses())


@scenario
def stream__messages() -> Any:
    return stream_calls(messages())


@scenario
def stream__ollama() -> Any:
    return stream_calls(ollama())


@scenario
def reasoning_on() -> Any:
    """The agent sends the reasoning of its first turn back with the result of the call."""
    effort = {"effort": "low", "summary": "auto"}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return [
        answer(responses(reasoning=effort, output_version="v1", max_tokens=1400)),
        answer(messages(thinking=thinking, temperature=None, max_tokens=1400)),
        answer(ollama(reasoning=True, num_predict=1400)),
    ]


@scenario
def round_trip() -> Any:
    return in_all(answer)


@scenario
def round_trip__typed() -> Any:
    return in_all(extract)


@scenario
def round_trip__strategy() -> Any:
    """The answer is one more tool, beside the agent's own."""
    values: list[Any] = []
    for model in (responses(), messages()):
        agent = create_agent(model, [GET_WEATHER], response_format=ToolStrategy(Place))
        value = agent.invoke({"messages": [HumanMessage(QUESTION)]})["structured_response"]
        assert isinstance(value, Place), value
        values.append(value.model_dump())
    return values


@scenario
def round_trip__foreign() -> Any:
    return in_all(continue_foreign)


@scenario
def error() -> Any:
    return in_all(refuse)


report.main()
