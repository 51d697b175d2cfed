"""Who may ask, how much, and what becomes of a request that nobody waits for."""

import asyncio
import gzip
import json
import logging
import re
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from constrained.agent.model import Model
from constrained.errors import ModelError
from server.app import ALL_ROUTERS
from server.http.gate import Gate, find_key
from server.http.unknown_paths import explain_unknown_path
from server.observe.metrics import Counters
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO, ask
from tests.server.running_server import Json, running, wait_until
from tests.templates import PING


def test_keys() -> None:
    with running(scripted("Hi"), Settings(api_keys=("one", "two"))) as client:
        body: Json = {"messages": HELLO}
        for headers in ({}, {"Authorization": "Bearer three"}, {"x-api-key": "on"}):
            response = client.post(CHAT, json=body, headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["type"] == "authentication_error"
            assert response.headers["www-authenticate"] == "Bearer"
        for headers in ({"Authorization": "Bearer two"}, {"x-api-key": "one"}):
            assert client.post(CHAT, json=body, headers=headers).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/metrics").status_code == 401
        response = client.post("/v1/messages", json=body)
        assert response.json()["type"] == "error"


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([], b""),
        ([(b"Authorization", b"bearer  one ")], b"one"),
        ([(b"X-Api-Key", b"two")], b"two"),
        ([(b"Api-Key", b"two")], b"two"),
        ([(b"authorization", b"Basic one"), (b"x-api-key", b"two")], b"two"),
        ([(b"authorization", b"Bearer one"), (b"x-api-key", b"two")], b"one"),
        ([(b"authorization", b"Bearer one"), (b"Authorization", b"Bearer two")], b"two"),
    ],
)
def test_the_key_of_a_request(headers: list[tuple[bytes, bytes]], key: bytes) -> None:
    assert find_key(headers) == key


def test_an_encoded_body_is_refused_as_such() -> None:
    with running(scripted("Hi"), Settings()) as client:
        body = gzip.compress(json.dumps({"messages": HELLO}).encode())
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = client.post(CHAT, content=body, headers=headers)
        assert response.status_code == 415
        assert "gzip" in response.json()["error"]["message"]
        assert response.headers["accept-encoding"] == "identity"
        plain = client.post(
            CHAT, json={"messages": HELLO}, headers={"content-encoding": "Identity"}
        )
        assert plain.status_code == 200


def test_large_bodies() -> None:
    with running(scripted("Hi"), Settings(max_body=1000)) as client:
        large = {"messages": [{"role": "user", "content": "x" * 1000}]}
        assert client.post(CHAT, json=large).status_code == 413
        parts = iter([b"{" + b" " * 600, b" " * 600])
        response = client.post(CHAT, content=parts, headers={"content-type": "application/json"})
        assert response.status_code == 413
        assert ask(client)["choices"]


def test_limits_of_tools() -> None:
    with running(scripted("Hi"), Settings(max_tools=1, max_schema=500)) as client:
        response = client.post(CHAT, json={"messages": HELLO, "tools": [PING, PING]})
        assert response.json()["error"]["param"] == "/tools"
        long = {"type": "function", "function": {"name": "p", "description": "x" * 600}}
        response = client.post(CHAT, json={"messages": HELLO, "tools": [long]})
        assert response.json()["error"]["param"] == "/tools/0"


def test_options_and_unknown_paths() -> None:
    with running(scripted("Hi")) as client:
        assert client.options(CHAT).status_code == 200
        response = client.get("/v1/nothing")
        assert response.status_code == 404
        assert "/v1/nothing" in response.json()["error"]["message"]
        assert "base URL" not in response.json()["error"]["message"]
        for base, path in (
            ("/v1", "/v1/messages"),
            ("/v1/messages", "/v1/messages"),
            ("/v1/chat/completions", "/chat/completions"),
            ("/openai/deployments/x", CHAT),
        ):
            message = client.post(base + path).json()["error"]["message"]
            assert f"There is {path}: remove '{base}' from the base URL" in message
        for path in ("/v1/models", "/v1/models/demo", "/v1/responses/abc", "/v1/health"):
            message = client.get(f"/v1{path}").json()["error"]["message"]
            assert f"There is {path}: remove '/v1' from the base URL" in message
        for path in ("/x/", "/nothing/v1", "/v1/healthy", "/v1" * 9 + "/nothing"):
            assert "base URL" not in client.get(path).json()["error"]["message"]
        wrong_base = client.post("/api/v1/chat/completions")  # not a path of Ollama's API
        assert "remove '/api' from" in wrong_base.json()["error"]["message"]
        refused = client.get(CHAT)
        assert refused.status_code == 405
        assert "Use POST" in refused.json()["error"]["message"]
        assert "/openapi.json lists" in client.get("/v1/nothing").json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1/assistants", "/v1/responses"),
        ("/threads/t/runs", "/v1/responses"),
        ("/v1/threads/t/messages", "/v1/responses"),
        ("/v1/realtime/sessions", "as a stream"),
        ("/v1/audio/speech", "text models"),
        ("/v1/messages/batches", "by itself"),
        ("/v1/batches/batch_1/cancel", "by itself"),
        ("/batches", "by itself"),
        ("/v1/files", "keeps no files"),
        ("/v1/files/file-1/content", "keeps no files"),
        ("/v1/complete", "/v1/messages"),
        ("/v1/completions", "/v1/chat/completions"),
        ("/completion", "/v1/chat/completions"),
        ("/v1/fim/completions", "/v1/chat/completions"),
        ("/infill", "/v1/chat/completions"),
        ("/tokenize", "/metrics"),
        ("/v1/detokenize", "/metrics"),
        ("/apply-template", "input_tokens"),
        ("/props", "/v1/models"),
        ("/slots/0", "/metrics"),
        ("/v1/rerank", "not rank"),
        ("/v1/embeddings", "llama-server --embedding"),
        ("/api/embed", "llama-server --embedding"),
        ("/api/embeddings", "llama-server --embedding"),
        ("/embedding", "llama-server --embedding"),
        ("/v1beta/models/demo:generateContent", "/v1/chat/completions"),
        ("/v1beta/models/gemini-2.5:countTokens", "/v1/chat/completions"),
        ("/v1/assistantships", "/openapi.json"),
    ],
)
def test_the_error_of_an_api_of_other_servers_says_what_there_is(path: str, advice: str) -> None:
    for method in ("POST", "GET"):
        explained = explain_unknown_path(path, method, ALL_ROUTERS)
        assert advice in explained
        assert "base URL" not in explained


def test_a_base_url_may_have_a_slash_too_many() -> None:
    with running(scripted("Hi"), Settings(api_keys=("k",))) as client:
        headers = {"Api-Key": "k"}
        models = client.get("/v1/models", headers=headers).json()
        for path in ("/v1/models/", "///v1//models", "//v1/models//"):
            # httpx joins a path to its base URL without doubled slashes.
            whole = f"{str(client.base_url).rstrip('/')}{path}"
            response = httpx.get(whole, headers=headers)
            assert response.request.url.path == path
            assert response.json() == models
            assert httpx.get(whole).status_code == 401
        body = {"messages": HELLO}
        assert client.post(f"{CHAT}/", json=body, headers=headers).status_code == 200


def test_a_page_that_may_not_ask_is_told_what_allows_it() -> None:
    asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    with running(scripted("Hi"), Settings(api_keys=("k",))) as client:
        response = client.options(CHAT, headers=asked)
        assert response.status_code == 403
        assert "--cors-origin http://localhost:3000" in response.json()["error"]["message"]
    with running(scripted("Hi"), Settings(cors_origins=("http://localhost:3000",))) as client:
        assert client.options(CHAT, headers=asked).status_code == 200


REFUSED_PAGES: list[tuple[str, Callable[[Json], tuple[Any, Any]]]] = [
    (CHAT, lambda body: (body["error"]["type"], body["error"]["code"])),
    (
        "/v1/messages",
        lambda body: (body["error"]["type"], body["error"]["details"]["error_code"]),
    ),
]


@pytest.mark.parametrize(("path", "find"), REFUSED_PAGES)
@pytest.mark.parametrize("origins", [(), ("http://a.example",)])
def test_a_page_is_refused_in_the_form_of_the_dialect(
    path: str, find: Callable[[Json], tuple[Any, Any]], origins: tuple[str, ...]
) -> None:
    settings = Settings(allowed_hosts=("localhost", "127.0.0.1"), cors_origins=origins)
    page = {"Origin": "http://b.example"}
    with running(scripted("Hi"), settings) as client:
        answers = [
            client.options(path, headers={**page, "Access-Control-Request-Method": "POST"}),
            client.post(path, json={"messages": HELLO, "max_tokens": 1}, headers=page),
        ]
        told = client.post("/api/chat", json={"messages": HELLO}, headers=page)
    for answer in answers:
        assert answer.status_code == 403
        assert find(answer.json()) == ("permission_error", "unknown_origin")
    assert (told.status_code, [*told.json()]) == (403, ["error"])


def test_clients_do_not_try_again_what_is_never_served() -> None:
    with running(scripted("Hi")) as client:
        response = client.post("/v1/responses/compact", json={"input": "Hi"})
        assert response.status_code == 501
        assert response.headers["X-Should-Retry"] == "false"


def test_pages_may_ask_only_where_that_is_allowed() -> None:
    asking = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    with running(scripted("Hi")) as client:
        response = client.options(CHAT, headers=asking)
        assert "access-control-allow-origin" not in response.headers
    with running(scripted("Hi"), Settings(cors_origins=("http://a.example",))) as client:
        response = client.options(CHAT, headers=asking)
        assert response.headers["access-control-allow-origin"] == "http://a.example"


def test_while_the_model_is_loading() -> None:
    may_load = threading.Event()

    def load() -> Model:
        assert may_load.wait(60)
        return scripted("Hi")

    from server.app import make_app

    app = make_app(load)
    with pytest.MonkeyPatch.context():
        import uvicorn

        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            wait_until(lambda: server.started, thread)
            port = server.servers[0].sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}"
            response = httpx.get(f"{url}/health")
            assert response.status_code == 503
            error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
            assert {k: v for k, v in response.json()["error"].items() if v is not None} == error
            assert httpx.post(url + CHAT, json={"messages": HELLO}).status_code == 503
            may_load.set()
            wait_until(lambda: httpx.get(f"{url}/health").status_code == 200, thread)
        finally:
            may_load.set()
            server.should_exit = True
            thread.join()


def test_a_model_that_cannot_be_loaded_stops_the_server() -> None:
    from server.app import make_app

    told = list[Exception]()

    def load() -> Model:
        raise ModelError("no such file")

    async def run() -> None:
        app = make_app(load, stop=told.append)
        async with app.router.lifespan_context(app):
            while not told:
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert [str(error) for error in told] == ["no such file"]


def endless() -> Model:
    return scripted("word " * 3000)


def test_a_client_that_goes_away_ends_its_turn() -> None:
    model = endless()
    with running(model) as client:
        endlessly: Json = {"messages": HELLO, "max_repetition": None}
        with client.stream("POST", CHAT, json={**endlessly, "stream": True}) as response:
            lines = response.iter_lines()  # to drop it would close the stream
            next(lines)
            wait_until(lambda: model.metrics().running == 1)
        wait_until(lambda: model.metrics().running == 0)
        wait_until(lambda: "constrained_unfinished_total 1.0" in client.get("/metrics").text)
        with pytest.raises(httpx.ReadTimeout):
            client.post(CHAT, json=endlessly, timeout=0.3)
        wait_until(lambda: model.metrics().running == 0)


def test_the_log_has_no_prompts(caplog: pytest.LogCaptureFixture) -> None:
    secret = [{"role": "user", "content": "my secret"}]
    with caplog.at_level(logging.INFO, "constrained.server"):
        with running(scripted("Hi")) as client:
            ask(client, messages=secret, unknown="secret thing")
        assert "format hermes" in caplog.text
        assert "secret" not in caplog.text.replace("'unknown'", "")
        with running(scripted("Hi"), Settings(log_prompts=True)) as client:
            ask(client, messages=secret)
        assert "my secret" in caplog.text


def test_other_paths() -> None:
    with running(scripted("Hi"), name="tiny") as client:
        (listed,) = client.get("/v1/models").json()["data"]
        assert listed["id"] == "tiny"
        assert client.get("/v1/models/tiny").json()["id"] == "tiny"
        assert client.get("/v1/models/other").status_code == 404
        ask(client)
        metrics = client.get("/metrics").text
        assert 'constrained_requests_total{path="/v1/chat/completions",status="200"} 1.0' in metrics
        assert "constrained_completion_tokens_total 2.0" in metrics  # a byte each
        in_cache = re.search(r"constrained_kv_cache_tokens ([\d.]+)", metrics)
        assert in_cache
        assert float(in_cache[1]) > 0
        for cache in ("matchers", "completers", "turns", "schemas", "automata"):
            assert f'constrained_cache_bytes{{cache="{cache}"}}' in metrics
        assert 'constrained_cache_entries{cache="turns"} 1.0' in metrics


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8080", None, 200),
        ("LOCALHOST", None, 200),
        ("[::1]:80", None, 200),
        ("evil.example", None, 403),
        ("169.254.169.254", None, 403),
        ("localhost.evil.example", None, 403),
        ("", None, 403),
        ("localhost", "http://localhost:3000", 200),
        ("localhost", "http://good.example", 200),
        ("localhost", "vscode-webview://abc", 200),
        ("localhost", "http://evil.example", 403),
        ("localhost", "https://evil.example:8080", 403),
        ("localhost", "null", 403),
    ],
)
def test_only_what_names_this_server_may_ask(host: str, origin: str | None, status: int) -> None:
    settings = Settings(allowed_hosts=("localhost", "[::1]"), cors_origins=("http://good.example",))
    headers = {"Host": host}
    if origin is not None:
        headers["Origin"] = origin
    with running(scripted("Hi"), settings) as client:
        response = client.post(CHAT, json={"messages": HELLO}, headers=headers)
        assert response.status_code == status
        if status == 403:
            name = "--cors-origin" if origin else "--allowed-hosts"
            assert name in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/health", "localhost", 200),
        ("http://localhost:80/health?a=b", "evil.example", 200),  # the URL counts
        ("HTTPS://[::1]/health", "localhost", 200),
        ("http://evil.example/health", "localhost", 403),
        ("http://localhost@evil.example/health", "localhost", 403),
        ("http:///health", "localhost", 403),
        ("http://localhost/v1/models", "localhost", 401),
        ("http://localhost/none", "localhost", 401),
        ("http://localhost", "localhost", 200),
    ],
)
def test_a_target_may_be_a_whole_url(target: str, host: str, status: int) -> None:
    settings = Settings(allowed_hosts=("localhost", "[::1]"), api_keys=("one",))
    head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with running(scripted("Hi"), settings) as client:
        url = client.base_url
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall(head.encode())
            assert connection.recv(65_536).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("name", "keys"),
    [("Authorization", ("Bearer one", "Bearer two")), ("X-Api-Key", ("two", "one"))],
)
def test_two_keys_are_an_error(name: str, keys: tuple[str, str]) -> None:
    with running(scripted("Hi"), Settings(api_keys=("one",))) as client:
        headers = [(name, key) for key in keys]
        response = client.post(CHAT, json={"messages": HELLO}, headers=headers)
        assert response.status_code == 400
        assert f"two {name} headers" in response.json()["error"]["message"]


def test_no_websocket_gets_past_the_gate() -> None:
    sent: list[Message] = []

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it got past the gate")

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    gate = Gate(fail, (), Settings(), Counters().note_request)
    asyncio.run(gate({"type": "websocket", "path": CHAT, "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close"}]


def test_a_body_in_drops_is_not_waited_for() -> None:
    """One that always comes just in time would keep its connection for years."""
    with running(scripted("Hi"), Settings(idle_seconds=1)) as client:
        url = client.base_url
        assert url.port is not None
        with socket.create_connection((url.host, url.port)) as slow:
            lines = (f"POST {CHAT} HTTP/1.1", "Host: localhost", "Content-Length: 1000000", "", "")
            slow.sendall("\r\n".join(lines).encode())
            slow.settimeout(0.1)
            answer = b""
            for _ in range(600):
                try:
                    answer = slow.recv(4096)
                    break
                except TimeoutError:
                    slow.sendall(b" ")
            while more := slow.recv(4096):  # its head may come alone
                answer += more
        assert b" 408 " in answer.splitlines()[0]
        assert b"less than 1,000 bytes a second" in answer


def test_half_a_body_is_not_waited_for() -> None:
    with running(scripted("Hi"), Settings(idle_seconds=1)) as client:
        address = (client.base_url.host, client.base_url.port)
        assert address[1] is not None
        with socket.create_connection(address) as half:
            lines = (
                f"POST {CHAT} HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
                "Content-Length: 100",
            )
            half.sendall("\r\n".join([*lines, "", "{"]).encode())
            half.settimeout(60)
            assert b"408" in half.recv(4096).splitlines()[0]


def test_head_is_answered_as_get_is_without_the_body() -> None:
    with running(scripted("Hi"), Settings(api_keys=("one",))) as client:
        for path, status in (("/", 200), ("/health", 200), ("/v1/models", 401), ("/none", 401)):
            head = client.head(path)
            get = client.get(path)
            assert (head.status_code, head.content) == (status, b""), path
            assert head.headers["content-length"] == get.headers["content-length"]
        start = client.get("/").json()
        assert client.get(start["health"]).status_code == 200
        assert client.head("/").status_code == 200  # the connection is still of use
