"""litellm: `completion`, with this server as an `openai/` model, and over other dialects."""

import asyncio
from typing import Any

import litellm
import report
from pydantic import BaseModel
from report import QUESTION, WEATHER, check_weather, scenario

litellm.suppress_debug_info = True
TOOL: Any = {"type": "function", "function": WEATHER}
SAID: Any = [{"role": "user", "content": QUESTION}]
ASK: Any = {"model": "openai/demo", "api_base": f"{report.URL}/v1", "api_key": "none"}
ASK |= {"messages": SAID, "temperature": 0, "max_tokens": 300, "num_retries": 0}


def ask(**options: Any) -> Any:
    """One request, with the tool on offer."""
    return litellm.completion(**ASK | {"tools": [TOOL]} | options)


def calls_of(reply: Any) -> list[dict[str, Any]]:
    calls = reply.choices[0].message.tool_calls or []
    return [check_weather(call.function.name, call.function.arguments) for call in calls]


@scenario
def plain() -> Any:
    greeting = [{"role": "user", "content": report.GREETING}]
    reply = litellm.completion(**ASK | {"messages": greeting})
    assert reply.usage.prompt_tokens > 0
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.content
    return reply.choices[0].message.content


@scenario
def auto() -> Any:
    reply = ask()
    assert reply.choices[0].finish_reason == "tool_calls"
    assert calls_of(reply) == [report.ANSWERED], calls_of(reply)
    return calls_of(reply)


@scenario
def required() -> Any:
    calls = calls_of(ask(tool_choice="required"))
    assert calls
    return calls


@scenario
def named() -> Any:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    (call,) = calls_of(ask(tool_choice=choice))
    return call


@scenario
def none() -> Any:
    reply = ask(tool_choice="none")
    assert not calls_of(reply)
    assert reply.choices[0].message.content
    return reply.choices[0].message.content


@scenario
def parallel() -> Any:
    two: Any = {"messages": [{"role": "user", "content": report.TWO_CITIES}]}
    assert len(calls_of(ask(**two, tool_choice="required", parallel_tool_calls=False))) == 1
    several = ask(**two, tool_choice="required")
    calls = calls_of(several)
    assert len(calls) > 1, calls
    assert len({call.id for call in several.choices[0].message.tool_calls}) == len(calls)
    return calls


@scenario
def stream() -> Any:
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    assert len(chunks) > 5
    whole = litellm.stream_chunk_builder(chunks, messages=SAID)
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.usage.completion_tokens > 0
    assert calls_of(whole) == [report.ANSWERED]
    return calls_of(whole)


@scenario
def stream__async() -> Any:
    async def work() -> str:
        greeting = [{"role": "user", "content": report.GREETING}]
        chunks = await litellm.acompletion(**ASK | {"messages": greeting}, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    text = asyncio.run(work())
    assert text
    return text


@scenario
def reasoning_on() -> Any:
    reply = ask(reasoning_effort="low")
    message = reply.choices[0].message
    assert message.reasoning_content
    assert "<think>" not in (message.content or "")
    assert reply.usage.completion_tokens_details.reasoning_tokens > 0
    return [message.reasoning_content, calls_of(reply)]


@scenario
def reasoning_on__stream() -> Any:
    chunks = ask(reasoning_effort="low", stream=True)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    text = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert text
    return text


@scenario
def reasoning_off() -> Any:
    reply = ask(reasoning_effort="none")
    assert not getattr(reply.choices[0].message, "reasoning_content", None)
    return calls_of(reply)


@scenario
def round_trip() -> Any:
    first = ask().choices[0].message
    told = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": report.TOLD}
    reply = ask(messages=[*SAID, first, told])
    answer = reply.choices[0].message.content
    assert "14" in answer, answer
    assert reply.usage.prompt_tokens_details.cached_tokens > 50
    return answer


async def answer_elsewhere(model: str, base: str) -> str:
    """A round trip over another dialect than Chat Completions."""
    asked = ASK | {"model": model, "api_base": base, "tools": [TOOL]}
    first = (await litellm.acompletion(**asked)).choices[0].message
    (call,) = first.tool_calls
    assert check_weather(call.function.name, call.function.arguments) == report.ANSWERED
    told = {"role": "tool", "tool_call_id": call.id, "content": report.TOLD}
    reply = await litellm.acompletion(**asked | {"messages": [*SAID, first, told]})
    answer = reply.choices[0].message.content
    assert "14" in answer, answer
    return answer


@scenario
def round_trip__ollama() -> Any:
    """Its requests do not say that they are JSON."""
    return asyncio.run(answer_elsewhere("ollama_chat/demo", report.URL))


@scenario
def round_trip__messages() -> Any:
    return asyncio.run(answer_elsewhere("anthropic/demo", report.URL))


@scenario
def round_trip__typed() -> Any:
    class Day(BaseModel):
        city: str
        rainy: bool

    reply = litellm.completion(**ASK, response_format=Day)
    return Day.model_validate_json(reply.choices[0].message.content).model_dump()


@scenario
def error() -> Any:
    try:
        ask(tool_choice="sometimes")
    except litellm.BadRequestError as refusal:
        assert refusal.status_code == 400
        assert "sometimes" in refusal.message, refusal.message
        return refusal.status_code
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    long: Any = [{"type": "function", "function": report.LONG}]

    async def work() -> None:
        options: Any = {"tools": long, "tool_choice": "required", "max_tokens": 1500}
        chunks = await litellm.acompletion(**ASK | options, stream=True)
        await anext(aiter(chunks))
        await chunks.aclose()

    with report.cancelling():
        asyncio.run(work())
    return ask().choices[0].finish_reason


report.main()
