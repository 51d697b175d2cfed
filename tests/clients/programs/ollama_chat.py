"""ollama: `Client.chat` and `Client.generate`."""

import asyncio
import json
from typing import Any

import ollama
import report
from report import QUESTION, WEATHER, check_weather, scenario

TOOL: Any = {"type": "function", "function": WEATHER}
SAID: Any = [{"role": "user", "content": QUESTION}]
GREETING: Any = [{"role": "user", "content": report.GREETING}]
OPTIONS = {"temperature": 0, "num_predict": 300}
CLIENT = ollama.Client(report.URL)


def ask(**options: Any) -> Any:
    """One request, with the tool on offer."""
    asked = {"messages": SAID, "tools": [TOOL], "options": OPTIONS}
    return CLIENT.chat("demo", **asked | options)


def calls_of(message: Any) -> list[dict[str, Any]]:
    functions = [call.function for call in message.tool_calls or []]
    return [check_weather(called.name, json.dumps(called.arguments)) for called in functions]


@scenario
def plain() -> Any:
    reply = ask(messages=GREETING, tools=None)
    assert reply.done_reason == "stop"
    assert reply.prompt_eval_count > 0
    assert reply.total_duration > 0
    assert reply.message.content
    return reply.message.content


@scenario
def auto() -> Any:
    calls = calls_of(ask().message)
    assert calls == [report.ANSWERED], calls
    return calls


@scenario
def parallel() -> Any:
    calls = calls_of(ask(messages=[{"role": "user", "content": report.TWO_CITIES}]).message)
    assert len(calls) > 1, calls
    return calls


@scenario
def stream() -> Any:
    parts = list(ask(stream=True))
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    (calls,) = [calls_of(part.message) for part in parts if part.message.tool_calls]
    assert calls == [report.ANSWERED]
    return calls


@scenario
def stream__async() -> Any:
    async def work() -> str:
        client = ollama.AsyncClient(report.URL)
        stream = await client.chat("demo", GREETING, stream=True, options=OPTIONS)
        return "".join([part.message.content async for part in stream])

    text = asyncio.run(work())
    assert text == ask(messages=GREETING, tools=None).message.content
    return text


@scenario
def reasoning_on() -> Any:
    message = ask(think="low").message
    assert message.thinking
    assert "<think>" not in message.content
    return [message.thinking, calls_of(message)]


@scenario
def reasoning_off() -> Any:
    message = ask(think=False).message
    assert not message.thinking
    return calls_of(message)


@scenario
def round_trip() -> Any:
    first = ask().message
    told = {"role": "tool", "tool_name": "get_weather", "content": report.TOLD}
    answer = ask(messages=[*SAID, first, told]).message.content
    assert "14" in answer, answer
    return answer


@scenario
def round_trip__schema() -> Any:
    properties = {"city": {"type": "string"}, "rainy": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    schema["additionalProperties"] = False
    value = json.loads(ask(tools=None, format=schema).message.content)
    assert value.keys() == properties.keys()
    assert isinstance(value["rainy"], bool)
    assert isinstance(json.loads(ask(tools=None, format="json").message.content), dict)
    return value


@scenario
def plain__generate() -> Any:
    whole = CLIENT.generate("demo", report.GREETING, options=OPTIONS)
    parts = CLIENT.generate("demo", report.GREETING, options=OPTIONS, stream=True)
    assert "".join(part.response for part in parts) == whole.response
    assert CLIENT.generate("demo", "").done_reason == "load"
    return whole.response


@scenario
def plain__models() -> Any:
    (listed,) = CLIENT.list().models
    (loaded,) = CLIENT.ps().models
    assert listed.model == loaded.model == "demo"
    shown = CLIENT.show("demo")
    assert shown.template
    return shown.capabilities


@scenario
def error() -> Any:
    try:
        ask(options={"temperature": -1})
    except ollama.ResponseError as refused:
        assert refused.status_code == 400
        assert "/options/temperature" in refused.error
        return refused.error
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    limit = OPTIONS | {"num_predict": 1500}
    with report.cancelling():
        parts = ask(tools=None, format=report.LONG_TEXT, options=limit, stream=True)
        next(parts)
        parts.close()
    return ask().done_reason


report.main()
