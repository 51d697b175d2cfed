"""The compliance cases of Open Responses, and its schemas of responses, items and events, rewritten
from the specification (openresponses.org).

One name differs on purpose: the specification calls the events of reasoning `response.reasoning`,
OpenAI's own API and SDKs call them `response.reasoning_text`, and so does this server.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.scripted_model import scripted
from tests.server.running_server import Json, running, stream
from tests.templates import hermes_call

RESPONSES = "/v1/responses"
USER: Json = {"type": "message", "role": "user", "content": "What's the weather in San Francisco?"}
WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}
IMAGE: Json = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}


def required(**fields: Any) -> Json:
    """The schema of an object that has all these fields; a text is the name of a type."""
    properties = dict[str, Any]()
    for name, schema in fields.items():
        properties[name] = {"type": schema} if isinstance(schema, str) else schema
    return {"type": "object", "properties": properties, "required": list(fields)}


def one_of(*values: str) -> Json:
    return {"enum": list(values)}


def nullable(schema: Any) -> Json:
    schema = {"type": schema} if isinstance(schema, str) else schema
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Any) -> Json:
    return {"type": "array", "items": schema}


STATUS = one_of("in_progress", "completed", "incomplete")
TEXT = required(type=one_of("output_text"), text="string", annotations="array", logprobs="array")
REASONING_TEXT = required(type=one_of("reasoning_text"), text="string")
PART: Json = {"oneOf": [TEXT, REASONING_TEXT]}
MESSAGE = required(
    type=one_of("message"),
    id="string",
    status=STATUS,
    role=one_of("user", "assistant", "system", "developer"),
    content=listed(TEXT),
)
CALL = required(
    type=one_of("function_call"),
    id="string",
    call_id="string",
    name="string",
    arguments="string",
    status=STATUS,
)
REASONING = required(
    type=one_of("reasoning"), id="string", summary="array", content=listed(REASONING_TEXT)
)
ITEM: Json = {"oneOf": [MESSAGE, CALL, REASONING]}
TOOL = required(
    type=one_of("function"),
    name="string",
    description=nullable("string"),
    parameters=nullable("object"),
    strict=nullable("boolean"),
)
CHOICE = one_of("none", "auto", "required")
FUNCTION_CHOICE = required(type=one_of("function"), name="string")
ALLOWED = required(type=one_of("allowed_tools"), tools=listed(FUNCTION_CHOICE), mode=CHOICE)
FORMAT: Json = {
    "oneOf": [
        required(type=one_of("text", "json_object")),
        required(
            type=one_of("json_schema"),
            name="string",
            description=nullable("string"),
            schema=nullable("object"),
            strict="boolean",
        ),
    ]
}
USAGE = required(
    input_tokens="integer",
    output_tokens="integer",
    total_tokens="integer",
    input_tokens_details=required(cached_tokens="integer"),
    output_tokens_details=required(reasoning_tokens="integer"),
)
RESPONSE = required(
    id="string",
    object=one_of("response"),
    created_at="integer",
    completed_at=nullable("integer"),
    status=one_of("queued", "in_progress", "completed", "incomplete", "failed"),
    incomplete_details=nullable(required(reason="string")),
    model="string",
    previous_response_id=nullable("string"),
    instructions=nullable("string"),
    output=listed(ITEM),
    error=nullable(required(code="string", message="string")),
    tools=listed(TOOL),
    tool_choice={"anyOf": [CHOICE, FUNCTION_CHOICE, ALLOWED]},
    truncation=one_of("auto", "disabled"),
    parallel_tool_calls="boolean",
    text=required(format=FORMAT),
    top_p="number",
    presence_penalty="number",
    frequency_penalty="number",
    top_logprobs="integer",
    temperature="number",
    reasoning=nullable(required(effort=nullable("string"), summary=nullable("string"))),
    user=nullable("string"),
    usage=nullable(USAGE),
    max_output_tokens=nullable("integer"),
    max_tool_calls=nullable("integer"),
    store="boolean",
    background="boolean",
    service_tier="string",
    metadata="object",
    safety_identifier=nullable("string"),
    prompt_cache_key=nullable("string"),
)
PLACE: Json = {"item_id": "string", "output_index": "integer"}
CONTENT_PLACE: Json = {**PLACE, "content_index": "integer"}
EVENTS: dict[str, Json] = {
    "response.created": required(response=RESPONSE),
    "response.in_progress": required(response=RESPONSE),
    "response.completed": required(response=RESPONSE),
    "response.incomplete": required(response=RESPONSE),
    "response.failed": required(response=RESPONSE),
    "response.output_item.added": required(output_index="integer", item=ITEM),
    "response.output_item.done": required(output_index="integer", item=ITEM),
    "response.content_part.added": required(**CONTENT_PLACE, part=PART),
    "response.content_part.done": required(**CONTENT_PLACE, part=PART),
    "response.output_text.delta": required(**CONTENT_PLACE, delta="string", logprobs="array"),
    "response.output_text.done": required(**CONTENT_PLACE, text="string", logprobs="array"),
    "response.reasoning_text.delta": required(**CONTENT_PLACE, delta="string"),
    "response.reasoning_text.done": required(**CONTENT_PLACE, text="string"),
    "response.function_call_arguments.delta": required(**PLACE, delta="string"),
    "response.function_call_arguments.done": required(**PLACE, arguments="string"),
}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def check(value: Any, schema: Json) -> None:
    jsonschema_rs.validator_for(schema).validate(value)


def ask(client: httpx.Client, *items: Json, **fields: Any) -> Json:
    """The response to some items; it is as the specification wants it."""
    response = client.post(RESPONSES, json={"model": "demo", "input": list(items), **fields})
    assert response.status_code == 200, response.text
    body = response.json()
    check(body, RESPONSE)
    return body


def listen(client: httpx.Client, *items: Json, **fields: Any) -> list[Json]:
    """The events of a response; they are as the specification wants them, in a lawful order."""
    named = stream(client, RESPONSES, {"model": "demo", "input": list(items), **fields})
    events = list[Json]()
    for name, event in named:
        assert name == event["type"]
        check(event, EVENTS[name])
        events.append(event)
    check_order(events)
    return events


def check_order(events: list[Json]) -> None:
    """Events are numbered; the response is created first and ends last; of items, one at a time is
    open, and so is one part of it; deltas add up to the text of the end."""
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert [kind for kind in kinds if kind in ENDS] == [kinds[-1]]
    done = list[Json]()
    item: Json | None = None
    part_is_open = False
    text = ""
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert item is None
            assert event["item"]["status"] == "in_progress"
            item, text = event["item"], ""
            assert event["output_index"] == len(done)
            continue
        assert item is not None
        assert event["output_index"] == len(done)
        if kind == "output_item.done":
            assert not part_is_open
            assert event["item"]["id"] == item["id"]
            done.append(event["item"])
            item = None
            continue
        assert event["item_id"] == item["id"]
        if kind == "content_part.added":
            part_is_open = True
        elif kind == "content_part.done":
            part_is_open = False
            assert event["part"]["text"] == text
        elif kind.endswith(".delta"):
            assert part_is_open or item["type"] == "function_call"
            text += event["delta"]
        else:
            assert event.get("text", event.get("arguments")) == text
    assert item is None
    assert events[-1]["response"]["output"] == done


@pytest.fixture(scope="module")
def caller() -> Iterator[httpx.Client]:
    said = hermes_call("get_weather", '{"location": "San Francisco, CA"}')
    with running(scripted(said)) as client:
        yield client


def test_basic_text(plain: httpx.Client) -> None:
    body = ask(plain, USER)
    assert body["status"] == "completed"
    assert [item["type"] for item in body["output"]] == ["message"]


def test_a_streamed_text(plain: httpx.Client) -> None:
    events = listen(plain, USER)
    assert events[-1]["type"] == "response.completed"
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "Hello there, friend."


def test_a_stream_that_is_cut(plain: httpx.Client) -> None:
    last = listen(plain, USER, max_output_tokens=3)[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][-1]["status"] == "incomplete"


def test_a_system_prompt(plain: httpx.Client) -> None:
    system = {"type": "message", "role": "system", "content": "You are a pirate."}
    assert ask(plain, system, USER)["status"] == "completed"
    developer = {**system, "role": "developer"}
    assert ask(plain, developer, USER, instructions="Be brief.")["instructions"] == "Be brief."


def test_a_tool_call(caller: httpx.Client) -> None:
    body = ask(caller, USER, tools=[WEATHER])
    (call,) = body["output"]
    assert (call["type"], call["name"], call["status"]) == (
        "function_call",
        "get_weather",
        "completed",
    )
    assert call["arguments"] == '{"location": "San Francisco, CA"}'


def test_a_streamed_tool_call(caller: httpx.Client) -> None:
    events = listen(caller, USER, tools=[WEATHER])
    kinds = {event["type"] for event in events}
    assert {
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    } <= kinds
    items = [event["item"]["type"] for event in events if "item" in event]
    assert items == ["function_call", "function_call"]


def test_reasoning_is_an_item_of_its_own(thinker: httpx.Client) -> None:
    kinds = [item["type"] for item in ask(thinker, USER)["output"]]
    assert kinds == ["reasoning", "message"]
    listen(thinker, USER)


def test_an_image_is_refused_with_its_place(plain: httpx.Client) -> None:
    content = [{"type": "input_text", "text": "What do you see?"}, IMAGE]
    body = {"input": [{"type": "message", "role": "user", "content": content}]}
    response = plain.post(RESPONSES, json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == "/input/0/content/1"
    assert "serves text models" in error["message"]


def test_several_turns(plain: httpx.Client) -> None:
    said = {"type": "message", "role": "assistant", "content": "Hello Alice! How can I help?"}
    assert ask(plain, USER, said, USER)["status"] == "completed"


def test_items_go_back_as_they_came(caller: httpx.Client) -> None:
    first = ask(caller, USER, tools=[WEATHER])
    (call,) = first["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny"}
    assert ask(caller, USER, call, result, tools=[WEATHER])["output"]
    following = ask(caller, result, tools=[WEATHER], previous_response_id=first["id"])
    assert following["previous_response_id"] == first["id"]


ASKED: list[Json] = [
    {"tools": [{"type": "function", "name": "ping"}]},
    {"tools": [{"type": "function", "function": {"name": "ping"}}]},
    {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
    {
        "tools": [WEATHER],
        "tool_choice": {
            "type": "allowed_tools",
            "tools": [{"type": "function", "name": "get_weather"}],
        },
    },
    {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}},
    {"text": {"format": {"type": "json_object"}}},
    {"reasoning": {"effort": "low"}, "metadata": {"a": "b"}, "user": "me", "store": False},
    {"temperature": 0, "top_p": 1, "max_output_tokens": 20, "top_logprobs": 2},
]


@pytest.mark.parametrize("fields", ASKED, ids=lambda fields: "-".join(fields))
def test_what_a_response_repeats_has_all_its_fields(caller: httpx.Client, fields: Json) -> None:
    body = ask(caller, USER, **{"max_output_tokens": 100, **fields})
    for name in set(fields) & {"metadata", "user", "store", "temperature", "top_logprobs"}:
        assert body[name] == fields[name]
