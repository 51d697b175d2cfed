"""The packages openai and anthropic against a server with real weights."""

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

if TYPE_CHECKING:  # they take a second to import, which plain `make test` has no use for
    from anthropic import Anthropic
    from openai import OpenAI

pytestmark = pytest.mark.real
QUESTION = "What is the weather in Paris?"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
DRAWN: dict[str, Any] = {"greedy": {"temperature": 0}, "sampled": {"temperature": 0.8, "seed": 7}}
each_way = pytest.mark.parametrize("drawn", DRAWN.values(), ids=DRAWN)


@pytest.fixture(scope="module")
def openai_client(url: str) -> "OpenAI":
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def anthropic_client(url: str) -> "Anthropic":
    from anthropic import Anthropic

    return Anthropic(base_url=url, api_key="none", max_retries=0)


def check_arguments(arguments: Any) -> None:
    assert set(arguments) == {"city", "unit"}
    assert isinstance(arguments["city"], str)
    assert arguments["unit"] in ("celsius", "fahrenheit")


class Trip(BaseModel):
    """A trip."""

    city: Literal["Paris", "Rome"]
    flies: bool


@each_way
def test_chat_completions(openai_client: "OpenAI", drawn: Any) -> None:
    chat = openai_client.chat.completions
    function = {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}
    messages: Any = [{"role": "user", "content": QUESTION}]
    ask: Any = {"model": "smollm2", "max_tokens": 60, "parallel_tool_calls": False, **drawn}
    ask |= {"tools": [{"type": "function", "function": function}]}
    whole = chat.create(messages=messages, tool_choice="required", **ask)
    (call,) = whole.choices[0].message.tool_calls or []
    assert call.type == "function"
    check_arguments(json.loads(call.function.arguments))
    with chat.stream(messages=messages, tool_choice="required", **ask) as events:
        streamed = events.get_final_completion().choices[0].message
    assert streamed.tool_calls
    assert streamed.tool_calls[0].function.arguments == call.function.arguments
    assert streamed.tool_calls[0].id == call.id

    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 14}'}
    messages += [whole.choices[0].message, result]
    answer = chat.create(messages=messages, tool_choice="none", **ask | {"max_tokens": 12})
    assert answer.usage
    assert answer.usage.prompt_tokens_details
    assert (answer.usage.prompt_tokens_details.cached_tokens or 0) > 100
    told = chat.create(
        messages=messages, tool_choice="none", stream=True, **ask | {"max_tokens": 12}
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in told if chunk.choices)
    assert text == answer.choices[0].message.content


@each_way
def test_a_parsed_answer_and_log_probabilities(openai_client: "OpenAI", drawn: Any) -> None:
    chat = openai_client.chat.completions
    messages: Any = [{"role": "user", "content": "I drive to Rome."}]
    parsed = chat.parse(
        model="smollm2", messages=messages, response_format=Trip, max_tokens=60, **drawn
    )
    assert isinstance(parsed.choices[0].message.parsed, Trip)
    ask: Any = {"model": "smollm2", "messages": messages, "logprobs": True, "top_logprobs": 2}
    reply = chat.create(max_tokens=8, **ask, **drawn).choices[0]
    assert reply.logprobs
    assert reply.logprobs.content
    told = "".join(token.token for token in reply.logprobs.content)
    assert told.startswith(reply.message.content or "-")


@each_way
def test_responses(openai_client: "OpenAI", drawn: Any) -> None:
    ask: Any = {"model": "smollm2", "max_output_tokens": 12, "extra_body": drawn}
    first = openai_client.responses.create(input="Name a city.", **ask)
    assert first.output_text
    events = list(openai_client.responses.create(input="Name a city.", stream=True, **ask))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")  # the tokens may run out
    assert text == last.response.output_text == first.output_text
    second = openai_client.responses.create(
        input="Another one.", previous_response_id=first.id, **ask
    )
    assert first.usage
    assert second.usage
    assert second.usage.input_tokens > first.usage.input_tokens


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_messages(anthropic_client: "Anthropic", temperature: float) -> None:
    """This API has no seed: what is drawn differs each time."""
    is_greedy = temperature == 0
    tool = {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA}
    messages: Any = [{"role": "user", "content": QUESTION}]
    ask: Any = {"model": "smollm2", "max_tokens": 60, "tools": [tool]}
    ask["extra_body"] = {"temperature": temperature}
    choice: Any = {"type": "any", "disable_parallel_tool_use": True}
    whole = anthropic_client.messages.create(messages=messages, tool_choice=choice, **ask)
    assert whole.stop_reason == "tool_use"
    use = next(block for block in whole.content if block.type == "tool_use")
    check_arguments(use.input)
    with anthropic_client.messages.stream(messages=messages, tool_choice=choice, **ask) as events:
        parts = "".join(event.partial_json for event in events if event.type == "input_json")
        final = events.get_final_message()
    assert json.loads(parts) == final.content[-1].to_dict()["input"]
    check_arguments(json.loads(parts))
    if is_greedy:
        assert json.loads(parts) == use.input

    result = {"type": "tool_result", "tool_use_id": use.id, "content": '{"temperature": 14}'}
    messages += [
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": [result]},
    ]
    ask |= {"tool_choice": {"type": "none"}, "max_tokens": 12}
    answer = anthropic_client.messages.create(messages=messages, **ask)
    assert (answer.usage.cache_read_input_tokens or 0) > 100
    with anthropic_client.messages.stream(messages=messages, **ask) as events:
        told = "".join(events.text_stream)
        final = events.get_final_message()
    assert told == "".join(block.text for block in final.content if block.type == "text")
    if is_greedy:
        assert told == "".join(block.text for block in answer.content if block.type == "text")
