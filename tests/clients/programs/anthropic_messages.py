"""The anthropic package: Messages."""

from typing import Any

import anthropic
import report
from anthropic import Anthropic
from report import QUESTION, WEATHER, check_weather, scenario

client = Anthropic(base_url=report.URL, api_key="none", max_retries=0)


def define(tool: dict[str, Any]) -> Any:
    said = {"name": tool["name"], "description": tool["description"]}
    return said | {"input_schema": tool["parameters"]}


TOOLS: Any = [define(WEATHER)]
SAID: Any = [{"role": "user", "content": QUESTION}]
ASK: Any = {"model": "demo", "max_tokens": 300, "messages": SAID}
ASK["extra_body"] = {"temperature": 0}  # the package has no name for it


def calls_of(message: Any) -> list[dict[str, Any]]:
    uses = [block for block in message.content if block.type == "tool_use"]
    return [check_weather(block.name, block.input) for block in uses]


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def greet() -> Any:
    return ASK | {"messages": [{"role": "user", "content": report.GREETING}]}


@scenario
def plain() -> Any:
    message = client.messages.create(**greet())
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0
    assert text_of(message)
    return text_of(message)


@scenario
def plain__count_tokens() -> Any:
    asked = {"model": "demo", "messages": SAID, "tools": TOOLS}
    count = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(**ASK, tools=TOOLS).usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert count == usage.input_tokens + cached, (count, usage)
    return count


@scenario
def auto() -> Any:
    message = client.messages.create(**ASK, tools=TOOLS)
    assert message.stop_reason == "tool_use"
    assert calls_of(message) == [report.ANSWERED], calls_of(message)
    return calls_of(message)


@scenario
def required() -> Any:
    calls = calls_of(client.messages.create(**ASK, tools=TOOLS, tool_choice={"type": "any"}))
    assert calls
    return calls


@scenario
def named() -> Any:
    choice: Any = {"type": "tool", "name": "get_weather"}
    (call,) = calls_of(client.messages.create(**ASK, tools=TOOLS, tool_choice=choice))
    return call


@scenario
def none() -> Any:
    message = client.messages.create(**ASK, tools=TOOLS, tool_choice={"type": "none"})
    assert not calls_of(message)
    assert text_of(message)
    return text_of(message)


@scenario
def parallel() -> Any:
    ask = ASK | {"messages": [{"role": "user", "content": report.TWO_CITIES}], "tools": TOOLS}
    single: Any = {"type": "any", "disable_parallel_tool_use": True}
    assert len(calls_of(client.messages.create(**ask, tool_choice=single))) == 1
    several = client.messages.create(**ask, tool_choice={"type": "any"})
    calls = calls_of(several)
    assert len(calls) > 1, calls
    assert len({b.id for b in several.content if b.type == "tool_use"}) == len(calls)
    return calls


@scenario
def stream() -> Any:
    with client.messages.stream(**ASK, tools=TOOLS) as events:
        kinds = [event.type for event in events]
        message = events.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert "input_json" in kinds, kinds
    assert calls_of(message) == [report.ANSWERED]
    assert message.usage.output_tokens > 0
    return calls_of(message)


@scenario
def stream__text() -> Any:
    with client.messages.stream(**greet()) as events:
        text = "".join(events.text_stream)
        message = events.get_final_message()
    assert text == text_of(message)
    return text


def think(**options: Any) -> Any:
    return ASK | {"max_tokens": 1500, "tools": TOOLS, "thinking": options}


@scenario
def reasoning_on() -> Any:
    message = client.messages.create(**think(type="enabled", budget_tokens=1024))
    thought = message.content[0]
    assert thought.type == "thinking"
    assert thought.signature
    assert "<think>" not in text_of(message)
    return [thought.thinking, calls_of(message)]


@scenario
def reasoning_on__stream() -> Any:
    with client.messages.stream(**think(type="enabled", budget_tokens=1024)) as events:
        kinds = {event.type for event in events}
        message = events.get_final_message()
    assert {"thinking", "signature"} <= kinds, kinds
    assert message.content[0].signature
    return [message.content[0].thinking, calls_of(message)]


@scenario
def reasoning_off() -> Any:
    message = client.messages.create(**think(type="disabled"))
    assert all(block.type != "thinking" for block in message.content)
    return calls_of(message)


def answer(ask: Any) -> Any:
    """Calls the tool, tells its result, and gives the answer."""
    first = client.messages.create(**ask)
    (id,) = [block.id for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": id, "content": report.TOLD}
    said = [*SAID, {"role": "assistant", "content": first.content}]
    said.append({"role": "user", "content": [result]})
    return client.messages.create(**ask | {"messages": said})


@scenario
def round_trip() -> Any:
    message = answer(ASK | {"tools": [TOOLS[0] | {"cache_control": {"type": "ephemeral"}}]})
    assert "14" in text_of(message), text_of(message)
    assert message.usage.cache_read_input_tokens > 50
    return text_of(message)


@scenario
def round_trip__thinking() -> Any:
    """What was thought comes back with its signature."""
    message = answer(think(type="enabled", budget_tokens=1024))
    assert message.stop_reason == "end_turn"
    assert text_of(message)
    return text_of(message)


@scenario
def error() -> Any:
    choice: Any = {"type": "sometimes"}
    try:
        client.messages.create(**ASK, tools=TOOLS, tool_choice=choice)
    except anthropic.BadRequestError as refusal:
        body: Any = refusal.body
        assert body["type"] == "error"
        assert "tool_choice" in body["error"]["message"], body
        return body["error"]["type"]
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    choice: Any = {"type": "any"}
    ask = ASK | {"max_tokens": 1500, "tools": [define(report.LONG)], "tool_choice": choice}
    with report.cancelling(), client.messages.stream(**ask) as events:
        next(iter(events))
    return client.messages.create(**ASK, tools=TOOLS).stop_reason


report.main()
