"""The openai package: Responses."""

from typing import Any

import openai
import report
from openai import OpenAI
from pydantic import BaseModel
from report import QUESTION, WEATHER, check_weather, scenario

client = OpenAI(base_url=f"{report.URL}/v1", api_key="none", max_retries=0)
TOOLS: Any = [{"type": "function", "strict": True, **WEATHER}]
ASK: Any = {"model": "demo", "input": QUESTION, "temperature": 0, "max_output_tokens": 300}


def items_of(reply: Any) -> list[Any]:
    """The calls of a response, as items."""
    return [item for item in reply.output if item.type == "function_call"]


def calls_of(reply: Any) -> list[dict[str, Any]]:
    return [check_weather(item.name, item.arguments) for item in items_of(reply)]


@scenario
def plain() -> Any:
    reply = client.responses.create(**ASK | {"input": report.GREETING})
    assert reply.status == "completed"
    assert reply.usage.input_tokens > 0
    assert reply.output_text
    return reply.output_text


@scenario
def auto() -> Any:
    reply = client.responses.create(**ASK, tools=TOOLS)
    assert reply.status == "completed"
    assert calls_of(reply) == [report.ANSWERED], calls_of(reply)
    return calls_of(reply)


@scenario
def required() -> Any:
    calls = calls_of(client.responses.create(**ASK, tools=TOOLS, tool_choice="required"))
    assert calls
    return calls


@scenario
def named() -> Any:
    choice: Any = {"type": "function", "name": "get_weather"}
    (call,) = calls_of(client.responses.create(**ASK, tools=TOOLS, tool_choice=choice))
    return call


@scenario
def none() -> Any:
    reply = client.responses.create(**ASK, tools=TOOLS, tool_choice="none")
    assert not calls_of(reply)
    assert reply.output_text
    return reply.output_text


@scenario
def parallel() -> Any:
    ask = ASK | {"input": report.TWO_CITIES, "tools": TOOLS, "tool_choice": "required"}
    one = client.responses.create(**ask, parallel_tool_calls=False)
    assert len(calls_of(one)) == 1
    several = client.responses.create(**ask)
    calls = calls_of(several)
    assert len(calls) > 1, calls
    assert len({item.call_id for item in items_of(several)}) == len(calls)
    return calls


@scenario
def stream() -> Any:
    with client.responses.stream(**ASK, tools=TOOLS) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.function_call_arguments.delta" in kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert calls_of(final) == [report.ANSWERED]
    return calls_of(final)


@scenario
def stream__text() -> Any:
    with client.responses.stream(**ASK | {"input": report.GREETING}) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text == final.output_text
    return text


@scenario
def reasoning_on() -> Any:
    reply = client.responses.create(**ASK, tools=TOOLS, reasoning={"effort": "low"})
    (thought,) = [item for item in reply.output if item.type == "reasoning"]
    assert reply.output[0] is thought
    assert reply.usage.output_tokens_details.reasoning_tokens > 0
    parts = [part.text for part in thought.content or thought.summary]
    assert all(parts), thought
    return [parts, calls_of(reply)]


@scenario
def reasoning_off() -> Any:
    reply = client.responses.create(**ASK, tools=TOOLS, reasoning={"effort": "none"})
    assert all(item.type != "reasoning" for item in reply.output)
    assert reply.usage.output_tokens_details.reasoning_tokens == 0
    return calls_of(reply)


def tell(reply: Any) -> list[Any]:
    """The result of the call of a response, as input."""
    (call,) = items_of(reply)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": report.TOLD}
    return [result]


@scenario
def round_trip() -> Any:
    """The whole conversation comes back as input."""
    first = client.responses.create(**ASK, tools=TOOLS, store=False)
    said: Any = [{"role": "user", "content": QUESTION}, *first.output, *tell(first)]
    reply = client.responses.create(**ASK | {"input": said}, tools=TOOLS, store=False)
    assert "14" in reply.output_text, reply.output_text
    assert reply.usage.input_tokens_details.cached_tokens > 50
    return reply.output_text


@scenario
def round_trip__stored() -> Any:
    """The server keeps the conversation."""
    first = client.responses.create(**ASK, tools=TOOLS)
    ask = ASK | {"input": tell(first), "previous_response_id": first.id}
    reply = client.responses.create(**ask, tools=TOOLS)
    assert reply.previous_response_id == first.id
    assert "14" in reply.output_text, reply.output_text
    assert client.responses.retrieve(reply.id).output_text == reply.output_text
    client.responses.delete(reply.id)
    return reply.output_text


@scenario
def round_trip__parsed() -> Any:
    class Day(BaseModel):
        city: str
        rainy: bool

    reply = client.responses.parse(**ASK, text_format=Day)
    assert isinstance(reply.output_parsed, Day)
    return reply.output_parsed.model_dump()


@scenario
def error() -> Any:
    try:
        client.responses.create(**ASK, tools=TOOLS, tool_choice="sometimes")
    except openai.BadRequestError as refusal:
        assert refusal.param == "/tool_choice", refusal.param
        return refusal.type
    raise AssertionError("it was not refused")


@scenario
def cancel() -> Any:
    long: Any = [{"type": "function", "strict": True, **report.LONG}]
    ask = ASK | {"max_output_tokens": 1500, "tools": long, "tool_choice": "required"}
    with report.cancelling():
        events = client.responses.create(**ask, stream=True)
        next(iter(events))
        events.close()
    return client.responses.create(**ASK, tools=TOOLS).status


report.main()
