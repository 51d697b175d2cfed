"""The openai package: Chat Completions."""

import threading
from typing import Any

import openai
import report
from openai import OpenAI
from report import QUESTION, WEATHER, check_weather, scenario

client = OpenAI(base_url=f"{report.URL}/v1", api_key="none", max_retries=0)
TOOLS: Any = [{"type": "function", "function": WEATHER}]
ASK: Any = {"model": "demo", "messages": [{"role": "user", "content": QUESTION}]}
ASK |= {"temperature": 0, "max_tokens": 300}


def calls_of(message: Any) -> list[dict[str, Any]]:
    return [check_weather(c.function.name, c.function.arguments) for c in message.tool_calls]


@scenario
def plain() -> Any:
    greeting: Any = [{"role": "user", "content": report.GREETING}]
    reply = client.chat.completions.create(**ASK | {"messages": greeting})
    assert reply.choices[0].message.content
    assert reply.usage.prompt_tokens_details.cached_tokens >= 0
    return reply.choices[0].message.content


@scenario
def auto() -> Any:
    reply = client.chat.completions.create(**ASK, tools=TOOLS)
    assert reply.choices[0].finish_reason == "tool_calls"
    calls = calls_of(reply.choices[0].message)
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def required() -> Any:
    reply = client.chat.completions.create(**ASK, tools=TOOLS, tool_choice="required")
    return calls_of(reply.choices[0].message)


@scenario
def named() -> Any:
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    reply = client.chat.completions.create(**ASK, tools=TOOLS, tool_choice=choice)
    assert reply.choices[0].finish_reason == "tool_calls"
    (call,) = calls_of(reply.choices[0].message)
    return call


@scenario
def none() -> Any:
    reply = client.chat.completions.create(**ASK, tools=TOOLS, tool_choice="none")
    assert not reply.choices[0].message.tool_calls
    return reply.choices[0].message.content


@scenario
def parallel() -> Any:
    one = client.chat.completions.create(
        **ASK, tools=TOOLS, tool_choice="required", parallel_tool_calls=False
    )
    assert len(one.choices[0].message.tool_calls) == 1
    ask = ASK | {"messages": [{"role": "user", "content": report.TWO_CITIES}]}
    several = client.chat.completions.create(**ask, tools=TOOLS, tool_choice="required")
    calls = calls_of(several.choices[0].message)
    assert len(calls) > 1, calls
    ids = [call.id for call in several.choices[0].message.tool_calls]
    assert len(set(ids)) == len(ids)
    return calls


@scenario
def stream() -> Any:
    with client.chat.completions.stream(**ASK, tools=TOOLS) as events:
        kinds = {event.type for event in events}
        final = events.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds, kinds
    return calls_of(final.choices[0].message)


@scenario
def reasoning_on() -> Any:
    reply = client.chat.completions.create(**ASK, tools=TOOLS, reasoning_effort="low")
    message = reply.choices[0].message
    assert "<think>" not in (message.content or "")
    assert reply.usage.completion_tokens_details.reasoning_tokens > 0
    return [message.reasoning_content, calls_of(message)]


@scenario
def reasoning_off() -> Any:
    reply = client.chat.completions.create(**ASK, tools=TOOLS, reasoning_effort="none")
    message = reply.choices[0].message
    assert not getattr(message, "reasoning_content", None)
    assert reply.usage.completion_tokens_details.reasoning_tokens == 0
    return calls_of(message)


@scenario
def round_trip() -> Any:
    first = client.chat.completions.create(**ASK, tools=TOOLS).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id}
    messages = [*ASK["messages"], first, result | {"content": report.TOLD}]
    reply = client.chat.completions.create(**ASK | {"messages": messages}, tools=TOOLS)
    assert "14" in reply.choices[0].message.content, reply.choices[0].message.content
    assert reply.usage.prompt_tokens_details.cached_tokens > 50
    return reply.choices[0].message.content


@scenario
def error() -> Any:
    try:
        client.chat.completions.create(**ASK, tools=TOOLS, tool_choice="sometimes")
    except openai.BadRequestError as refusal:
        assert refusal.param == "/tool_choice", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    ask = ASK | {"max_tokens": 1500, "tools": [{"type": "function", "function": report.LONG}]}
    with report.cancelling():
        events = client.chat.completions.create(**ask, tool_choice="required", stream=True)
        next(iter(events))
        events.close()
    return client.chat.completions.create(**ASK).choices[0].finish_reason


@scenario
def stream__parse() -> Any:
    from pydantic import BaseModel

    class Day(BaseModel):
        city: str
        rainy: bool

    reply = client.chat.completions.parse(**ASK, response_format=Day)
    day = reply.choices[0].message.parsed
    assert isinstance(day, Day)
    tool = openai.pydantic_function_tool(Day, name="tell")
    made = client.chat.completions.parse(**ASK, tools=[tool], tool_choice="required")
    call = made.choices[0].message.tool_calls[0].function.parsed_arguments
    assert isinstance(call, Day)
    return [day.model_dump(), call.model_dump()]


@scenario
def plain__eight_at_once() -> Any:
    answers: list[Any] = [None] * 8

    def ask(number: int) -> None:
        reply = client.chat.completions.create(**ASK, tools=TOOLS)
        answers[number] = calls_of(reply.choices[0].message)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


report.main()
