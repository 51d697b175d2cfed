"""langgraph: the prebuilt ReAct agent, over Chat Completions and over Responses."""

import asyncio
from typing import Any, Literal

import openai
import report
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel
from report import QUESTION, check_weather, scenario


class Day(BaseModel):
    """A day."""

    city: str
    rainy: bool


@tool
def get_weather(
    city: str, day: Literal["today", "tomorrow"], unit: Literal["celsius", "fahrenheit"]
) -> str:
    """Get the weather forecast for a city."""
    return report.TOLD


def write_text(text: str) -> str:
    """Takes what the model writes."""
    return text


LONG = StructuredTool.from_function(
    write_text, description=report.LONG["description"], args_schema=report.LONG_TEXT
)


def make(**options: Any) -> ChatOpenAI:
    given: Any = {"temperature": 0, "max_tokens": 300, "max_retries": 0, **options}
    return ChatOpenAI(model="demo", base_url=f"{report.URL}/v1", api_key="none", **given)


def make_agent(tools: tuple[BaseTool, ...] = (get_weather,), **options: Any) -> Any:
    return create_react_agent(make(**options), list(tools))


def make_choosing(choice: str, tool: BaseTool = get_weather, **options: Any) -> Any:
    """An agent whose turns have this `tool_choice`; it ends before its first tool runs, as it
    would call for ever."""
    model = make(**options).bind_tools([tool], tool_choice=choice)
    return create_react_agent(model, [tool], interrupt_before=["tools"])


def ask(agent: Any, question: str = QUESTION) -> list[Any]:
    """The messages after the question."""
    state = agent.invoke({"messages": [("user", question)]}, {"recursion_limit": 8})
    return state["messages"][1:]


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    assert not message.invalid_tool_calls, message.invalid_tool_calls
    return [check_weather(call["name"], call["args"]) for call in message.tool_calls]


def read_round(messages: list[Any]) -> Any:
    """The answer of a run that called the tool once."""
    called, told, answer = messages
    assert calls_of(called) == [report.ANSWERED]
    assert isinstance(told, ToolMessage)
    assert told.status == "success"
    assert told.tool_call_id == called.tool_calls[0]["id"]
    assert "14" in answer.text, answer.text
    return answer.text


@scenario
def plain() -> Any:
    (answer,) = ask(make_agent(tools=()), report.GREETING)
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.text
    return answer.text


@scenario
def auto() -> Any:
    calls = calls_of(ask(make_agent())[0])
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    calls = calls_of(ask(make_choosing("any"))[-1])
    assert calls
    return calls


@scenario
def named() -> Any:
    (call,) = calls_of(ask(make_choosing("get_weather"))[-1])
    return call


@scenario
def none() -> Any:
    (answer,) = ask(make_choosing("none"))
    assert not answer.tool_calls
    assert answer.text
    return answer.text


@scenario
def parallel() -> Any:
    """The calls of one turn, and their results, which go back together."""
    called, *told, answer = ask(make_agent(), report.TWO_CITIES)
    calls = calls_of(called)
    assert len(calls) > 1, calls
    ids = [call["id"] for call in called.tool_calls]
    assert [message.tool_call_id for message in told[: len(ids)]] == ids
    assert answer.text
    return [calls, answer.text]


@scenario
def stream() -> Any:
    """The tokens of all turns, and the updates of the graph."""
    asked: Any = {"messages": [("user", QUESTION)]}
    pieces = list[AIMessageChunk]()
    updates = list[Any]()
    for mode, part in make_agent().stream(asked, stream_mode=["messages", "updates"]):
        if mode == "updates":
            updates += [message for update in part.values() for message in update["messages"]]
        elif isinstance(part[0], AIMessageChunk):
            pieces.append(part[0])
    assert len(pieces) > 10, len(pieces)
    answer = read_round(updates)
    assert "".join(piece.text for piece in pieces) == answer
    return answer


@scenario
def reasoning_on() -> Any:
    messages = ask(make_agent(reasoning_effort="low"))
    details = messages[0].usage_metadata["output_token_details"]
    assert details["reasoning"] > 0
    return read_round(messages)


@scenario
def reasoning_on__responses() -> Any:
    """What was thought goes back with the result: the agent keeps it as content."""
    reasoning = {"effort": "low", "summary": "auto"}
    messages = ask(make_agent(use_responses_api=True, reasoning=reasoning))
    assert any(block["type"] == "reasoning" for block in messages[0].content)
    return read_round(messages)


@scenario
def reasoning_off() -> Any:
    messages = ask(make_agent(reasoning_effort="none"))
    assert messages[0].usage_metadata["output_token_details"]["reasoning"] == 0
    return read_round(messages)


@scenario
def round_trip() -> Any:
    messages = ask(make_agent())
    assert messages[-1].usage_metadata["input_token_details"]["cache_read"] > 50
    return read_round(messages)


@scenario
def round_trip__remembered() -> Any:
    """A second question in the same conversation, which the agent keeps."""
    agent = create_react_agent(make(), [get_weather], checkpointer=InMemorySaver())
    where: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 8}
    first = agent.invoke({"messages": [("user", QUESTION)]}, where)["messages"]
    second = agent.invoke({"messages": [("user", report.TWO_CITIES)]}, where)["messages"]
    assert len(second) > len(first) + 1
    assert second[: len(first)] == first
    reused = second[len(first) + 1].usage_metadata["input_token_details"]["cache_read"]
    assert reused > 100, reused
    return second[-1].text


@scenario
def round_trip__typed() -> Any:
    """An answer that is an instance of a model, asked for after the last turn."""
    agent = create_react_agent(make(), [get_weather], response_format=Day)
    state = agent.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 8})
    day = state["structured_response"]
    assert isinstance(day, Day)
    return day.model_dump()


@scenario
def error() -> Any:
    try:
        ask(make_agent(top_p=3))
    except openai.BadRequestError as refusal:
        assert refusal.param == "/top_p", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


async def leave() -> None:
    """Cancels a run at its first token (who only closes its stream waits for the node to end)."""
    agent = make_choosing("any", LONG, max_tokens=1500)
    begun = asyncio.Event()

    async def read() -> None:
        asked: Any = {"messages": [("user", QUESTION)]}
        async for _ in agent.astream(asked, stream_mode="messages"):
            begun.set()

    run = asyncio.create_task(read())
    await begun.wait()
    while not run.done():  # the package may lose a cancellation
        run.cancel()
        await asyncio.wait({run}, timeout=0.05)


@scenario
def cancel() -> Any:
    with report.cancelling():
        asyncio.run(leave())
    return read_round(ask(make_agent()))


report.main()
