"""The OpenAPI document: everything in it is described, its examples are answered, and replies have
the statuses and media types that it names, and the SDKs' types. The last is held by every client of
`running_server`, too."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import jsonschema_rs
import pytest
from pydantic import ValidationError

from constrained import load
from server.app import make_app
from server.settings import ReasoningField, Settings
from tests.scripted_model import OPENED, scripted
from tests.server.running_server import running
from tests.server.typed_replies import TypedReplies
from tests.templates import OPEN, hermes_call

Json = dict[str, Any]
KNOWN_BY_ID = "{id"


@pytest.fixture(scope="module")
def demo() -> Iterator[httpx.Client]:
    with running(lambda: load(threads=1, sequences=2)) as client:
        yield client


@pytest.fixture(scope="module")
def document(demo: httpx.Client) -> Json:
    return demo.get("/openapi.json").json()


def list_operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def list_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from list_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from list_references(inner)


def test_the_document_depends_on_no_setting_but_the_keys(document: Json) -> None:
    """So tests hold the replies of all servers against one document."""
    others = Settings(
        show_grammar=True,
        otel=True,
        cors_origins=("*",),
        reasoning_field=ReasoningField.BOTH,
        max_choices=1,
    )
    model = scripted("Hello")
    assert make_app(lambda: model, others).openapi() == document
    changed = make_app(lambda: model, replace(others, api_keys=("key",))).openapi()
    assert changed.pop("security") != document["security"]
    assert changed == {name: part for name, part in document.items() if name != "security"}


def test_fields_of_requests_are_described(document: Json) -> None:
    schemas = document["components"]["schemas"]
    waiting = list[str]()
    for _, _, operation in list_operations(document):
        waiting += list_references(operation.get("requestBody", {}))
    assert len(waiting) > 8
    seen = set[str]()
    while waiting:
        name = waiting.pop().rpartition("/")[2]
        if name in seen:
            continue
        seen.add(name)
        assert schemas[name]["description"], name
        for field, described in schemas[name].get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"
        waiting += list_references(schemas[name])
    assert {"ChatRequest", "ThinkingOptions", "ModelOptions"} <= seen


def test_operations_are_described(document: Json) -> None:
    for method, path, operation in list_operations(document):
        name = f"{method} {path}"
        assert operation["description"], name
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], name
        for status, reply in operation["responses"].items():
            assert reply["description"], f"{name}: {status}"
            assert set(map(repr, reply["content"].values())) == {"{}"}, f"{name}: {status}"


def test_references_lead_somewhere(document: Json) -> None:
    schemas = document["components"]["schemas"]
    for reference in list_references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    for name, schema in schemas.items():
        jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
        assert schema.get("description") or "enum" in schema or "Page" in name, name


def test_examples_are_answered(demo: httpx.Client, document: Json) -> None:
    asked = 0
    for method, path, operation in list_operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for example in content.get("examples", {}).values():
                reply = demo.request(method, path, json=example["value"])
                assert reply.status_code == 200, f"{path}: {reply.text}"
                asked += 1
    assert asked > 8


def test_paths_without_a_body_answer_as_described(demo: httpx.Client, document: Json) -> None:
    for method, path, _ in list_operations(document):
        if method == "get" and KNOWN_BY_ID not in path:
            assert demo.get(path).status_code == 200, path
        elif method == "get":
            known = "demo" if path == "/v1/models/{id}" else "none"
            status = 200 if known == "demo" else 404
            assert demo.get(path.replace("{id}", known)).status_code == status, path


STREAMS: dict[str, Json] = {
    "/v1/chat/completions": {
        "stream_options": {"include_usage": True},
        "logprobs": True,
        "top_logprobs": 2,
    },
    "/v1/responses": {"include": ["message.output_text.logprobs"], "unknown": 1},
    "/v1/messages": {"stop_sequences": ["e"]},
    "/api/chat": {"logprobs": True, "top_logprobs": 2},
    "/api/generate": {"think": True},
}


@pytest.mark.parametrize("path", STREAMS)
def test_streams_are_as_described(demo: httpx.Client, document: Json, path: str) -> None:
    content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        for added in ({}, STREAMS[path]):
            body = {**example["value"], **added, "stream": True}
            with demo.stream("POST", path, json=body) as response:
                data = response.read()
            assert response.status_code == 200, data
            assert data.count(b"\n") > 2


TOOLS = [{"name": "paint", "input_schema": {"type": "object", "properties": {}}}]
BAD = {"name": "bad", "input_schema": {"$ref": "#/nowhere"}}
TURN = "I wonder.\n</think>\n\nYes. " + hermes_call("paint")


@pytest.mark.parametrize("stream", [True, False])
def test_turns_with_everything_are_as_described(stream: bool) -> None:
    """Reasoning, text and calls of both kinds; tools that are refused or skipped; the grammar."""
    settings = Settings(show_grammar=True)
    with running(scripted(TURN, source=OPEN, turn=OPENED), settings) as client:
        hello: list[Json] = [{"role": "user", "content": "Hello"}]
        function = {"name": "paint", "parameters": {"type": "object", "properties": {}}}
        chat = [{"type": "function", "function": function}]
        flat = {"type": "function", **function}
        custom = {"type": "custom", "name": "paint"}
        hosted = {"type": "web_search_20250305", "name": "web_search"}
        asked: list[tuple[str, Json]] = [
            ("/v1/chat/completions", {"messages": hello, "tools": chat, "unknown": 1}),
            ("/v1/responses", {"input": "Hello", "tools": [flat], "include": [SEALED]}),
            ("/v1/responses", {"input": "Hello", "tools": [custom]}),
            (
                "/v1/messages",
                {"messages": hello, "tools": [*TOOLS, hosted], "max_tokens": 500},
            ),
            ("/api/chat", {"messages": hello, "tools": chat}),
        ]
        for path, body in asked:
            reply = client.post(path, json={**body, "stream": stream})
            assert reply.status_code == 200, reply.text
            assert "constrained" in reply.text
            assert stream or "I wonder." in reply.text


SEALED = "reasoning.encrypted_content"


def test_a_reply_of_another_form_is_found(document: Json) -> None:
    typed = TypedReplies(document)

    def check(method: str, path: str, reply: httpx.Response) -> None:
        reply.request = httpx.Request(method, f"http://x{path}")
        typed.check_whole(reply, reply.content)

    model = {"id": "demo", "object": "model", "created": 1, "owned_by": "constrained"}
    check("GET", "/health", httpx.Response(200, json={"status": "ok"}))
    check("GET", "/models/demo", httpx.Response(200, json=model))
    with pytest.raises(AssertionError, match="status 418 is not described"):
        check("GET", "/health", httpx.Response(418, json={}))
    with pytest.raises(AssertionError, match="text/html is not described"):
        check("GET", "/health", httpx.Response(200, html="ok"))
    with pytest.raises(ValidationError, match="created"):
        check("GET", "/models/demo", httpx.Response(200, json={**model, "created": "now"}))
    chunk = b'data: {"object": "chat.completion.chunk"}\n\n'
    events = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=chunk)
    with pytest.raises(ValidationError, match="choices"):
        check("POST", "/v1/chat/completions", events)


def test_keys_are_described(document: Json) -> None:
    assert {} in document["security"], "no key is needed"
    assert set(document["components"]["securitySchemes"]) == {"bearer", "x-api-key", "api-key"}
    with running(scripted("Hello"), Settings(api_keys=("k",))) as client:
        for name, value in (("Authorization", "Bearer k"), ("x-api-key", "k"), ("api-key", "k")):
            given = client.get("/openapi.json", headers={name: value}).json()
        assert given["security"] == [{"bearer": []}, {"x-api-key": []}, {"api-key": []}]
        for _, path, operation in list_operations(given):
            is_open = client.get(path).status_code != 401
            assert (operation.get("security") == []) == is_open, path
