"""Bodies of all dialects: received, read and validated, and refused with their place."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from server.dialects.common import body as bodies
from server.dialects.common import reading
from server.errors import HttpError
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO
from tests.server.running_server import Json, running, wait_until

SMALL = Settings(
    max_values=60,
    max_tools=2,
    max_template_kwargs=20,
    max_body=2000,
)
MESSAGES: Json = {"messages": HELLO, "max_tokens": 4}
PATHS: dict[str, Json] = {
    CHAT: MESSAGES,
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/responses": {"input": HELLO},
}


@pytest.fixture(scope="module")
def small() -> Iterator[httpx.Client]:
    with running(scripted("Hi"), SMALL) as client:
        yield client


def refuse(client: httpx.Client, path: str, content: Any, status: int = 400) -> tuple[str, str]:
    """The message and the pointer of an error."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    response = client.post(path, content=text, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    error = response.json()["error"]
    return error["message"], error.get("param") or ""


@pytest.mark.parametrize("path", PATHS)
def test_every_path_reads_within_limits(small: httpx.Client, path: str) -> None:
    body = PATHS[path]
    assert small.post(path, json=body).status_code == 200
    assert "--max-values" in refuse(small, path, {**body, "x": [0] * 60})[0]
    assert "--max-body" in refuse(small, path, {**body, "x": "x" * 2000}, 413)[0]
    assert "at byte 5" in refuse(small, path, b'{"a" 1}')[0]
    assert "empty" in refuse(small, path, b"")[0]
    assert "JSON object" in refuse(small, path, [body])[0]


LONG = [
    (CHAT, {"tools": [{}] * 3}, "/tools", "--max-tools"),
    (CHAT, {"chat_template_kwargs": {"x": "x" * 20}}, "/chat_template_kwargs", "--max-template"),
]


@pytest.mark.parametrize(("path", "field", "where", "option"), LONG)
def test_limits_name_their_option(
    small: httpx.Client, path: str, field: Json, where: str, option: str
) -> None:
    message, pointer = refuse(small, path, {**PATHS[path], **field})
    assert option in message
    assert where in (pointer, *message.removesuffix(")").split())  # Messages have it in the text


WRONG = [
    (CHAT, {"messages": [*HELLO, 1, 2]}, "/messages/1"),
    (CHAT, {"messages": []}, "/messages"),
    (CHAT, {"messages": "text"}, "/messages"),
    (CHAT, {"tools": [1]}, "/tools/0"),
    (CHAT, {"stop": ["a", 1]}, "/stop/1"),
    (CHAT, {"stop": 1}, "/stop"),
    (CHAT, {"temperature": -1}, "/temperature"),
    (CHAT, {"stream_options": {"include_usage": "x"}}, "/stream_options/include_usage"),
    (CHAT, {"logit_bias": {"1": "x"}}, "/logit_bias/1"),
    ("/v1/responses", {"input": [{}, 1]}, "/input/1"),
    ("/v1/responses", {"metadata": {"a": 1}}, "/metadata/a"),
]


@pytest.mark.parametrize(("path", "field", "where"), WRONG)
def test_the_first_mistake_has_its_place(
    small: httpx.Client, path: str, field: Json, where: str
) -> None:
    assert refuse(small, path, {**PATHS[path], **field})[1] == where


def test_a_field_that_is_missing_is_named(small: httpx.Client) -> None:
    assert refuse(small, CHAT, {"max_tokens": 4}) == ("messages: Field required", "/messages")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
@pytest.mark.parametrize("name", ["Origin", "Referer", "Sec-Fetch-Site"])
def test_a_body_of_a_web_page_has_to_call_itself_json(
    small: httpx.Client, kind: str, name: str
) -> None:
    text = json.dumps(MESSAGES)
    response = small.post(CHAT, content=text, headers={"Content-Type": kind, name: "null"})
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, "/api/chat"])
def test_a_body_may_leave_out_that_it_is_json(small: httpx.Client, path: str) -> None:
    """As in the examples of Ollama, which are calls of curl without a header."""
    body = {**PATHS.get(path, {"messages": MESSAGES["messages"]}), "stream": False}
    content = iter([json.dumps(body).encode()])  # httpx adds no header of its own
    response = small.post(path, content=content)
    assert "content-type" not in response.request.headers
    assert response.status_code == 200, response.text
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert small.post(path, content=json.dumps(body), headers=form).status_code == 200


@pytest.mark.parametrize(
    "kind", ["multipart/form-data; boundary=x", "text/html", "application/xml"]
)
def test_a_body_may_not_be_something_else(small: httpx.Client, kind: str) -> None:
    text = json.dumps(MESSAGES)
    response = small.post(CHAT, content=text, headers={"Content-Type": kind})
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]


def test_json_has_several_names(small: httpx.Client) -> None:
    text = json.dumps(MESSAGES)
    for kind in ("application/json; charset=utf-8", "application/vnd.api+json"):
        response = small.post(CHAT, content=text, headers={"Content-Type": kind})
        assert response.status_code == 200


def test_bodies_are_not_read_on_the_event_loop(
    small: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    read = bodies.read_object

    def note(*given: Any) -> Any:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        seen.append(threading.current_thread().name.startswith("compile"))
        return read(*given)

    monkeypatch.setattr(reading, "read_object", note)
    for path, body in PATHS.items():
        assert small.post(path, json=body).status_code == 200
        large = {**body, "x": "x" * 1500}
        monkeypatch.setattr(reading, "QUICK", 1000)
        assert small.post(path, json=large).status_code == 200
    assert seen == [True] * 2 * len(PATHS)


def test_a_client_that_leaves_in_the_middle_of_its_body(small: httpx.Client) -> None:
    assert small.base_url.port is not None
    lines = (
        f"POST {CHAT} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Content-Length: 100",
    )
    with socket.create_connection((small.base_url.host, small.base_url.port)) as half:
        half.sendall("\r\n".join([*lines, "", "{"]).encode())
    wait_until(lambda: 'status="499"' in small.get("/metrics").text)


def test_nothing_of_a_client_runs_in_the_executor_that_all_share(
    small: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = asyncio.BaseEventLoop.run_in_executor
    used: list[Any] = []

    def note(loop: Any, executor: Any, work: Any, *given: Any) -> Any:
        if executor is None:
            used.append(work)
        return run(loop, executor, work, *given)

    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", note)
    rules = 'root ::= "a" | "b"'
    for path, body in PATHS.items():
        assert small.post(path, json={**body, "grammar": rules}).status_code == 200
        assert small.get("/health").status_code == 200
    assert not used


def test_the_document_describes_the_bodies(small: httpx.Client) -> None:
    document = small.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for path in PATHS:
        content = document["paths"][path]["post"]["requestBody"]["content"]
        name = content["application/json"]["schema"]["$ref"].split("/")[-1]
        assert schemas[name]["type"] == "object"
    references = set(_list_references(document))
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/schemas/") in schemas


def _list_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _list_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_references(inner)


LISTS = {"arguments": json.dumps({"a": [[[]] * 10, "[,,,,,,,,"]})}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (
            {"messages": [{"tool_calls": [{"function": LISTS}] * 2}]},
            "/messages/0/tool_calls/1/function/arguments",
        ),
        ({"input": [LISTS, LISTS]}, "/input/1/arguments"),
    ],
)
def test_values_of_arguments_count(body: dict[str, Any], where: str) -> None:
    """A million lists in a text took 400 MB and kept others waiting for 2.6 s."""
    data = json.dumps(body).encode()
    assert bodies.read_object(data, Settings(max_values=100)) == body
    with pytest.raises(HttpError, match="--max-values") as caught:
        bodies.read_object(data, Settings(max_values=30))
    assert caught.value.where == where
