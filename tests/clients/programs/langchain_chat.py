"""langchain-openai: `ChatOpenAI`, its tools and its structured output, over Chat Completions."""

from typing import Any

import openai
import report
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from report import QUESTION, WEATHER, check_weather, scenario

TOOL: Any = {"type": "function", "function": WEATHER}


def make(**options: Any) -> ChatOpenAI:
    given: Any = {"temperature": 0, "max_tokens": 300, "max_retries": 0, **options}
    return ChatOpenAI(model="demo", base_url=f"{report.URL}/v1", api_key="none", **given)


MODEL = make()


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    assert not message.invalid_tool_calls, message.invalid_tool_calls
    return [check_weather(call["name"], call["args"]) for call in message.tool_calls]


@scenario
def plain() -> Any:
    message = MODEL.invoke(report.GREETING)
    assert message.usage_metadata["input_tokens"] > 0
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.content
    return message.content


@scenario
def auto() -> Any:
    message = MODEL.bind_tools([TOOL]).invoke(QUESTION)
    assert message.response_metadata["finish_reason"] == "tool_calls"
    calls = calls_of(message)
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    calls = calls_of(MODEL.bind_tools([TOOL], tool_choice="any").invoke(QUESTION))
    assert calls
    return calls


@scenario
def named() -> Any:
    (call,) = calls_of(MODEL.bind_tools([TOOL], tool_choice="get_weather").invoke(QUESTION))
    return call


@scenario
def none() -> Any:
    message = MODEL.bind_tools([TOOL], tool_choice="none").invoke(QUESTION)
    assert not message.tool_calls
    assert message.content
    return message.content


@scenario
def parallel() -> Any:
    one = MODEL.bind_tools([TOOL], tool_choice="any", parallel_tool_calls=False)
    assert len(one.invoke(report.TWO_CITIES).tool_calls) == 1
    several = MODEL.bind_tools([TOOL], tool_choice="any").invoke(report.TWO_CITIES)
    calls = calls_of(several)
    assert len(calls) > 1, calls
    assert len({call["id"] for call in several.tool_calls}) == len(calls)
    return calls


@scenario
def stream() -> Any:
    chunks = list[AIMessageChunk](make(stream_usage=True).bind_tools([TOOL]).stream(QUESTION))
    assert len(chunks) > 5
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata["output_tokens"] > 0
    assert calls_of(whole) == [report.ANSWERED]
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    return calls_of(whole)


@scenario
def reasoning_on() -> Any:
    # Of Chat Completions, this client leaves `reasoning_content` out of its messages (that is by
    # its design: see its documentation on other providers); the count of the tokens tells of it.
    message = make(reasoning_effort="low").bind_tools([TOOL]).invoke(QUESTION)
    assert message.usage_metadata["output_token_details"]["reasoning"] > 0
    assert "<think>" not in message.content
    return calls_of(message)


@scenario
def reasoning_off() -> Any:
    message = make(reasoning_effort="none").bind_tools([TOOL]).invoke(QUESTION)
    assert message.usage_metadata["output_token_details"]["reasoning"] == 0
    return calls_of(message)


@scenario
def round_trip() -> Any:
    agent = MODEL.bind_tools([TOOL])
    asked = HumanMessage(QUESTION)
    called = agent.invoke([asked])
    told = ToolMessage(report.TOLD, tool_call_id=called.tool_calls[0]["id"])
    answer = agent.invoke([asked, called, told])
    assert "14" in answer.content, answer.content
    assert answer.usage_metadata["input_token_details"]["cache_read"] > 50
    return answer.content


@scenario
def round_trip__typed() -> Any:
    """An answer that is an instance of a model: by a call, and by `response_format`."""

    class Day(BaseModel):
        """A day."""

        city: str
        rainy: bool

    made = list[Any]()
    for method in ("function_calling", "json_schema"):
        day = MODEL.with_structured_output(Day, method=method).invoke(QUESTION)
        assert isinstance(day, Day)
        made.append(day.model_dump())
    return made


@scenario
def error() -> Any:
    try:
        MODEL.invoke(QUESTION, tools=[TOOL], tool_choice="sometimes")
    except openai.BadRequestError as refusal:
        assert refusal.param == "/tool_choice", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    tool: Any = {"type": "function", "function": report.LONG}
    with report.cancelling():
        chunks = make(max_tokens=1500).bind_tools([tool], tool_choice="any").stream(QUESTION)
        next(chunks)
        chunks.close()
    return MODEL.bind_tools([TOOL]).invoke(QUESTION).response_metadata["finish_reason"]


report.main()
