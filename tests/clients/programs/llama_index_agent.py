"""llama-index: `OpenAILike` with function calling, and `FunctionAgent`, over Chat Completions."""

import asyncio
import gc
from typing import Any, Literal

import openai
import report
from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentStream,
    FunctionAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ThinkingBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field
from report import QUESTION, check_weather, scenario


class Day(BaseModel):
    """A day."""

    city: str
    rainy: bool


class LongText(BaseModel):
    text: str = Field(min_length=800)


def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    """Get the weather forecast for a city."""
    return report.TOLD


WEATHER = FunctionTool.from_defaults(get_weather, description=report.WEATHER["description"])
LONG = FunctionTool.from_defaults(
    lambda text: text,
    name=report.LONG["name"],
    description=report.LONG["description"],
    fn_schema=LongText,
)


def make(**options: Any) -> OpenAILike:
    given: Any = {"temperature": 0, "max_tokens": 300, "max_retries": 0, **options}
    return OpenAILike(
        model="demo",
        api_base=f"{report.URL}/v1",
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        **given,
    )


def ask(question: str = QUESTION, tool: FunctionTool = WEATHER, **options: Any) -> ChatResponse:
    """One turn, with a tool on offer."""
    extra = options.pop("extra", {})
    return make(additional_kwargs=extra).chat_with_tools([tool], question, **options)


def calls_of(response: ChatResponse) -> list[dict[str, Any]]:
    found = make().get_tool_calls_from_response(response, error_on_no_tool_call=False)
    assert len({call.tool_id for call in found}) == len(found)
    return [check_weather(call.tool_name, call.tool_kwargs) for call in found]


def thoughts_of(response: ChatResponse) -> str:
    blocks = response.message.blocks
    return "".join(block.content for block in blocks if isinstance(block, ThinkingBlock))


async def run_agent(question: str = QUESTION, **options: Any) -> tuple[list[Any], str]:
    """The events of a run, and its answer."""
    run = FunctionAgent(tools=[WEATHER], llm=make(**options)).run(question, max_iterations=4)
    events = [event async for event in run.stream_events()]
    return events, str(await run)


@scenario
def plain() -> Any:
    response = make().chat([ChatMessage(report.GREETING)])
    assert response.raw.usage.completion_tokens > 0
    assert response.message.content
    return response.message.content


@scenario
def plain__completion() -> Any:
    """A raw prompt, which the client sends as a message of a chat."""
    response = make(max_tokens=8).complete(report.GREETING, temperature=0)
    assert response.raw.usage.completion_tokens == 8
    return response.text


@scenario
def auto() -> Any:
    calls = calls_of(ask())
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    calls = calls_of(ask(tool_required=True))
    assert calls
    return calls


@scenario
def named() -> Any:
    (call,) = calls_of(ask(tool_choice="get_weather"))
    return call


@scenario
def none() -> Any:
    response = ask(tool_choice="none")
    assert not calls_of(response)
    assert response.message.content
    return response.message.content


@scenario
def parallel() -> Any:
    assert len(calls_of(ask(report.TWO_CITIES, tool_required=True))) == 1
    response = ask(report.TWO_CITIES, tool_required=True, allow_parallel_tool_calls=True)
    calls = calls_of(response)
    assert len(calls) > 1, calls
    return calls


@scenario
def stream() -> Any:
    responses = list(make().stream_chat_with_tools([WEATHER], QUESTION))
    assert len(responses) > 5
    assert calls_of(responses[-1]) == [report.ANSWERED]
    return calls_of(responses[-1])


@scenario
def stream__text() -> Any:
    responses = list(make().stream_chat([ChatMessage(report.GREETING)]))
    text = "".join(response.delta or "" for response in responses)
    assert text == responses[-1].message.content
    assert text
    return text


@scenario
def reasoning_on() -> Any:
    response = ask(extra={"reasoning_effort": "low"})
    assert response.raw.usage.completion_tokens_details.reasoning_tokens > 0
    assert thoughts_of(response)
    return [thoughts_of(response), calls_of(response)]


@scenario
def reasoning_off() -> Any:
    response = ask(extra={"reasoning_effort": "none"})
    assert not thoughts_of(response)
    return calls_of(response)


@scenario
def round_trip() -> Any:
    events, answer = asyncio.run(run_agent())
    (call,) = [event for event in events if type(event) is ToolCall]
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert check_weather(call.tool_name, call.tool_kwargs) == report.ANSWERED
    assert result.tool_id == call.tool_id
    assert not result.tool_output.is_error
    pieces = [event.delta for event in events if isinstance(event, AgentStream)]
    assert len(pieces) > 5
    assert "14" in answer, answer
    return answer


@scenario
def round_trip__reasoning() -> Any:
    events, answer = asyncio.run(run_agent(additional_kwargs={"reasoning_effort": "low"}))
    outputs = [event for event in events if isinstance(event, AgentOutput)]
    assert any(isinstance(block, ThinkingBlock) for block in outputs[0].response.blocks)
    assert "14" in answer, answer
    return answer


@scenario
def round_trip__typed() -> Any:
    """An answer that is an instance of a model: by a call, and by `response_format`."""
    made = list[Any]()
    for by_format in (False, True):
        model = make(should_use_structured_outputs=by_format)
        day = model.structured_predict(Day, PromptTemplate(QUESTION))
        assert isinstance(day, Day)
        made.append(day.model_dump())
    return made


@scenario
def error() -> Any:
    try:
        ask(extra={"top_p": 3})
    except openai.BadRequestError as refusal:
        assert refusal.param == "/top_p", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    with report.cancelling():
        model = make(max_tokens=1500)
        responses = model.stream_chat_with_tools([LONG], QUESTION, tool_required=True)
        next(responses)
        responses.close()
        gc.collect()  # this client leaves it to the garbage collector to close the connection
    return calls_of(ask())


report.main()
