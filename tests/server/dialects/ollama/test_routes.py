"""Ollama's API over HTTP: what goes in, what comes out, streamed and not."""

import json
from typing import Any

import httpx
import pytest

from server.dialects.ollama.request import read_messages
from server.dialects.ollama.routes import write_count
from tests.server.running_server import Json, needs_own_engine
from tests.templates import PAINT

HELLO = {"role": "user", "content": "Hello"}
PAINTED = {"color": "red", "glossy": True}

COUNTS = {"prompt_eval_count", "eval_count"}
DURATIONS = {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}


def ask(client: httpx.Client, path: str = "/api/chat", **fields: Any) -> Json:
    body = {"model": "demo", "stream": False}
    if path == "/api/chat":
        body["messages"] = [HELLO]
    response = client.post(path, json=body | fields)
    assert response.status_code == 200, response.text
    return response.json()


def read_stream(client: httpx.Client, path: str = "/api/chat", **fields: Any) -> list[Json]:
    with client.stream("POST", path, json={"messages": [HELLO], **fields}) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.iter_lines()]


def refuse(client: httpx.Client, path: str = "/api/chat", **fields: Any) -> tuple[int, str]:
    response = client.post(path, json={"messages": [HELLO], **fields})
    body = response.json()
    assert body.keys() == {"error"}
    return response.status_code, body["error"]


@needs_own_engine
def test_a_text(plain: httpx.Client) -> None:
    reply = ask(plain)
    assert reply.keys() == {"model", "created_at", "message", "done", "done_reason"} | (
        COUNTS | DURATIONS
    )
    assert reply["message"] == {"role": "assistant", "content": "Hello there, friend."}
    assert (reply["done"], reply["done_reason"]) == (True, "stop")
    assert all(isinstance(reply[name], int) for name in COUNTS | DURATIONS)


def test_a_stream_is_the_default_and_adds_up_to_the_whole_reply(plain: httpx.Client) -> None:
    *parts, last = read_stream(plain)
    text = "".join(part["message"]["content"] for part in parts)
    assert text == ask(plain)["message"]["content"]
    assert not any(part["done"] for part in parts)
    assert last["done"]
    assert last["message"] == {"role": "assistant", "content": ""}


def test_calls_come_whole_with_arguments_as_an_object(painter: httpx.Client) -> None:
    message = ask(painter, tools=[PAINT])["message"]
    assert message["content"] == "I paint."
    (call,) = message["tool_calls"]
    assert call["function"] == {"index": 0, "name": "paint", "arguments": PAINTED}
    parts = read_stream(painter, tools=[PAINT])
    streamed = [part["message"].get("tool_calls") for part in parts]
    assert [calls for calls in streamed if calls] == [[call]]


NAMED = {"type": "function", "function": {"name": "paint"}}


@pytest.mark.parametrize("choice", ["required", {"type": "required"}, NAMED])
def test_a_choice_of_tools_is_followed(painter: httpx.Client, choice: Any) -> None:
    """Ollama has none; the providers of several SDKs send it all the same."""
    # Kept from what it is told to say, the model would think, or write, at random and for long.
    reply = ask(painter, tools=[PAINT], tool_choice=choice, think=False)
    (call,) = reply["message"]["tool_calls"]
    assert call["function"]["name"] == "paint"
    few = {"num_predict": 8}
    silent = ask(painter, tools=[PAINT], tool_choice="none", options=few)
    assert "tool_calls" not in silent["message"]
    status, message = refuse(painter, tools=[PAINT], tool_choice="sometimes")
    assert (status, "/tool_choice" in message) == (400, True)


def test_reasoning_is_thinking(thinker: httpx.Client) -> None:
    assert ask(thinker, think=True)["message"] == {
        "role": "assistant",
        "thinking": "I wonder.",
        "content": "Hello.",
    }
    shown = "".join(part["message"].get("thinking", "") for part in read_stream(thinker))
    assert shown == "I wonder."


def test_a_prompt_is_a_message(plain: httpx.Client) -> None:
    assert ask(plain, "/api/generate", prompt="Hello")["response"] == "Hello there, friend."
    parts = read_stream(plain, "/api/generate", prompt="Hello", system="Be kind.")
    assert "".join(part["response"] for part in parts) == "Hello there, friend."


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_nothing_asked_only_loads(plain: httpx.Client, path: str) -> None:
    for reply in (ask(plain, path, messages=[]), *read_stream(plain, path, messages=[])):
        assert (reply["done"], reply["done_reason"]) == (True, "load")


def test_log_probabilities(plain: httpx.Client) -> None:
    tokens = ask(plain, logprobs=True, top_logprobs=2)["logprobs"]
    assert "".join(token["token"] for token in tokens) == "Hello there, friend."
    assert all(len(token["top_logprobs"]) == 2 for token in tokens)


def test_pictures_in_results_are_named(plain: httpx.Client) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    call = {"function": {"name": "look", "arguments": {}}}
    result = {"role": "tool", "content": [{"type": "text", "text": "see"}, picture]}
    messages = [HELLO, {"role": "assistant", "tool_calls": [call]}, result]
    messages += [{"role": "tool", "content": "see", "images": ["aGk="]}]
    response = plain.post("/api/chat", json={"messages": messages, "stream": False})
    named = "messages/2/content/1 (image_url), messages/3/images"
    assert response.headers["x-ignored-fields"] == named


def test_what_is_not_followed_is_named(plain: httpx.Client) -> None:
    options = {"num_ctx": 10**9, "mirostat": 1, "num_thread": 4, "num_predict": -2}
    body = {"messages": [HELLO], "options": options, "shout": True, "keep_alive": "5m"}
    response = plain.post("/api/chat", json=body | {"stream": False})
    named = "shout, options.mirostat, options.num_ctx"
    assert response.headers["x-ignored-fields"] == named
    assert "num_ctx" not in plain.post(
        "/api/chat", json={"messages": [HELLO], "options": {"num_ctx": 100}, "stream": False}
    ).headers.get("x-ignored-fields", "")


@pytest.mark.parametrize(
    ("path", "fields", "where"),
    [
        ("/api/chat", {"format": "yaml"}, "/format"),
        ("/api/chat", {"format": {"properties": {"a": {"$ref": "#/b"}}}}, "/format/properties/a"),
        ("/api/chat", {"options": {"temperature": -1}}, "/options/temperature"),
        ("/api/chat", {"options": {"num_predict": 0}}, "/options/num_predict"),
        ("/api/chat", {"think": "a lot"}, "/think"),
        ("/api/chat", {"messages": [{}]}, "/messages/0/role"),
        ("/api/chat", {"messages": [HELLO, {"content": "Hi"}]}, "/messages/1/role"),
        (
            "/api/chat",
            {"messages": [{"role": "assistant", "tool_calls": 5}]},
            "/messages/0/tool_calls",
        ),
        ("/api/chat", {"messages": [HELLO | {"images": ["aGk="]}]}, "/messages/0/images"),
        (
            "/api/chat",
            {"messages": [HELLO, {"role": "assistant", "tool_calls": [{"name": "f"}]}]},
            "/messages/1/tool_calls/0",
        ),
        ("/api/generate", {"prompt": "a", "suffix": "b"}, "/suffix"),
        ("/api/generate", {"prompt": "a", "template": "b"}, "/template"),
        ("/api/generate", {"prompt": "a", "raw": True}, "/raw"),
        ("/api/generate", {"prompt": "a", "context": [1]}, "/context"),
        ("/api/generate", {"prompt": "a", "images": ["aGk="]}, "/images"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    plain: httpx.Client, path: str, fields: Json, where: str
) -> None:
    status, error = refuse(plain, path, **fields)
    assert status == 400
    assert where in error


def test_pictures_that_the_user_has_shown_earlier_become_notes(plain: httpx.Client) -> None:
    shown = HELLO | {"images": ["aGk="]}
    answer = {"role": "assistant", "content": "Hm."}
    (first, *_) = read_messages([shown, answer, HELLO])
    assert first["content"] == "Hello\n[image left out: this model reads text]"
    fields = {"messages": [shown, answer, HELLO], "stream": False}
    response = plain.post("/api/chat", json=fields)
    assert response.headers["x-ignored-fields"] == "messages/0/images"
    assert "/messages/2/images" in refuse(plain, messages=[shown, answer, shown])[1]


def test_the_model(plain: httpx.Client) -> None:
    (listed,) = plain.get("/api/tags").json()["models"]
    (loaded,) = plain.get("/api/ps").json()["models"]
    assert listed["name"] == loaded["name"] == "demo"
    shown = plain.post("/api/show", json={"model": "demo"}).json()
    assert shown["capabilities"][:2] == ["completion", "tools"]
    architecture = shown["model_info"]["general.architecture"]
    length = shown["model_info"][f"{architecture}.context_length"]
    assert length == loaded["context_length"] == 20_000
    assert listed["capabilities"] == shown["capabilities"]
    assert listed["details"] == shown["details"] == loaded["details"]
    assert listed["details"]["context_length"] == length
    assert shown["model_info"]["general.basename"] == "demo"  # VS Code lists it by this name
    assert plain.get("/api/version").json()["version"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999"),
        (135_000, "135K"),
        (5_248_256, "5.25M"),
        (7_000_000, "7M"),
        (751_632_384, "751.63M"),
        (7_615_616_512, "7.6B"),
        (70_000_000_000, "70B"),
    ],
)
def test_numbers_of_parameters_as_ollama_writes_them(count: int, text: str) -> None:
    assert write_count(count) == text


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "push"), ("POST", "pull"), ("POST", "create"), ("DELETE", "delete")],
)
def test_what_this_server_does_not_do(plain: httpx.Client, method: str, path: str) -> None:
    response = plain.request(method, f"/api/{path}", json={"model": "x"})
    assert response.status_code == 501
    assert response.json()["error"]


def test_a_result_belongs_to_the_first_call_of_its_tool_without_one() -> None:
    def call(name: str) -> Json:
        return {"function": {"name": name, "arguments": {}}}

    told = [{"role": "tool", "tool_name": name, "content": ""} for name in ("b", "a", "a")]
    asked = {"role": "assistant", "tool_calls": [call("a"), call("b"), call("a")]}
    read = read_messages([HELLO, asked, *told])
    ids = [made["id"] for made in read[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert [message["tool_call_id"] for message in read[2:]] == [ids[1], ids[0], ids[2]]
