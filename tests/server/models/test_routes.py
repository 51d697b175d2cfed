"""Requests name the model that answers them, in all dialects; paths load and unload models."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from constrained.agent.model import Model
from constrained.decode.schedule.workers import Order, Workers
from constrained.errors import ModelError
from server.app import make_app
from server.dialects.common import reading
from server.dialects.common.body import read_object
from server.http import time_left
from server.models.served_models import ModelBounds
from server.models.source import ModelSource
from server.settings import Settings
from server.turns import active_request
from server.turns.active_request import launch
from tests.scripted_model import OPENED, scripted
from tests.server.running_server import is_starting, running, wait_until

Json = dict[str, Any]
HELLO = [{"role": "user", "content": "Hello"}]


class FakeClock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def load_broken() -> Model:
    raise ModelError("broken")


def make_sources() -> list[ModelSource]:
    def source(name: str, *aliases: str, preloaded: bool = False) -> ModelSource:
        def load() -> Model:
            return scripted(f"I am {name}.", turn=OPENED)

        return ModelSource(name, load, aliases, preloaded=preloaded)

    return [
        source("first", preloaded=True),
        source("org/second", "gpt-4o", "claude-*"),
        source("third"),
        ModelSource("broken", load_broken),
    ]


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with running(make_sources(), bounds=ModelBounds(count=2)) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"messages": HELLO, **fields})


def states(client: httpx.Client) -> dict[str, str]:
    described = client.get("/v1/models").json()["data"]
    return {model["id"]: model["status"]["value"] for model in described}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HELLO}),
        ("/v1/responses", {"input": "Hello"}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 50}),
        ("/api/chat", {"messages": HELLO, "stream": False}),
        ("/api/generate", {"prompt": "Hello", "stream": False}),
    ],
)
def test_every_dialect_names_the_model(client: httpx.Client, path: str, body: Json) -> None:
    for name, called in (("third", "third"), ("claude-9", "org/second"), (None, "first")):
        asked = body if name is None else {**body, "model": name}
        if name is None and path.startswith(("/v1/messages", "/api")):
            asked = {**body, "model": "first"}  # these ask for a name
        reply = client.post(path, json=asked)
        assert reply.status_code == 200, reply.text
        assert f"I am {called}." in reply.text
        assert reply.json()["model"] == called
    refused = client.post(path, json={**body, "model": "fourth"})
    assert refused.status_code == 404
    assert "there is no model 'fourth'; this server has 'first', 'org/second'" in refused.text


@pytest.mark.parametrize("quick", [1 << 20, 0])
def test_a_body_is_read_once_and_in_the_threads_of_all_models(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, quick: int
) -> None:
    seen: list[str] = []

    def note(*given: Any) -> Any:
        seen.append(threading.current_thread().name)
        return read_object(*given)

    monkeypatch.setattr(reading, "read_object", note)
    monkeypatch.setattr(reading, "QUICK", quick)
    assert ask(client, model="first").status_code == 200
    assert client.post("/models/unload", json={"model": "third"}).status_code == 200
    assert len(seen) == 2
    assert all(name.startswith("read") for name in seen), seen
    body = {"messages": HELLO, "model": "third"}
    reply = client.post("/v1/chat/completions", params={"model": "first"}, json=body)
    assert reply.json()["model"] == "first"  # the query says which: its own threads read
    assert len(seen) == 3
    assert seen[-1].startswith("compile")


@pytest.mark.parametrize("quick", [1 << 20, 0])
def test_reading_takes_its_time_from_that_of_the_request(
    monkeypatch: pytest.MonkeyPatch, quick: int
) -> None:
    """Each of three parts had the whole time once."""
    clock = FakeClock()
    limits: list[float | None] = []

    def read_slowly(*given: Any) -> Any:
        clock.seconds += 200
        return read_object(*given)

    def launch_noted(*given: Any, timeout: float | None, **options: Any) -> Any:
        limits.append(timeout)
        return launch(*given, timeout=timeout, **options)

    def load_slowly() -> Model:
        clock.seconds += 5_000
        return scripted("Hello", turn=OPENED)

    monkeypatch.setattr(time_left, "TimeLeft", partial(time_left.TimeLeft, clock=clock))
    monkeypatch.setattr(reading, "read_object", read_slowly)
    monkeypatch.setattr(reading, "QUICK", quick)
    monkeypatch.setattr(active_request, "launch", launch_noted)
    sources = [*make_sources(), ModelSource("slow", load_slowly)]
    with running(sources, Settings(timeout=1_000)) as client:
        for name in ("first", "slow"):
            assert ask(client, model=name).status_code == 200
    assert limits == [800, 800]


def test_a_body_that_is_no_object_names_no_model(client: httpx.Client) -> None:
    header = {"Content-Type": "application/json"}
    for text in ("[]", "null", '"first"'):
        refusal = client.post("/v1/chat/completions", content=text, headers=header)
        assert (refusal.status_code, refusal.json()["error"]["param"]) == (400, "")
        assert "must be a JSON object" in refusal.text


def test_no_more_bodies_wait_than_the_server_takes() -> None:
    held, release = threading.Event(), threading.Event()

    def load() -> Model:
        return scripted("Hello", turn=OPENED)

    sources = [ModelSource("a", load, preloaded=True), ModelSource("b", load)]
    app = make_app(sources, Settings(max_waiting=1))
    readers: Workers = app.state.models.readers

    def hold() -> None:
        held.set()
        assert release.wait(60)

    async def run() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking,
        ):
            while is_starting(app.state.models):
                await asyncio.sleep(0.01)
            try:
                readers.submit(hold)
                assert await asyncio.to_thread(held.wait, 60)
                readers.submit(hold)
                body = {"messages": HELLO, "model": "a"}
                refused = await asking.post("/v1/chat/completions", json=body)
            finally:
                release.set()
            await asyncio.to_thread(readers.submit(int, Order(is_bounded=False)).result)
            answered = await asking.post("/v1/chat/completions", json=body)
            return [refused.status_code, answered.status_code]

    assert asyncio.run(run()) == [503, 200]


def test_a_name_that_is_nobodys_is_an_error_with_its_place(client: httpx.Client) -> None:
    error = ask(client, model="fourth").json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "/model")
    # What is no name is for the dialect to refuse.
    assert ask(client, model=5).status_code == 400


def test_names_as_clients_write_them(client: httpx.Client) -> None:
    assert ask(client, model="gpt-4o").json()["model"] == "org/second"
    body = {"model": "third:latest", "messages": HELLO, "stream": False}
    assert client.post("/api/chat", json=body).json()["model"] == "third"


def test_two_are_loaded_and_the_third_takes_the_place_of_one(client: httpx.Client) -> None:
    assert states(client)["first"] == "loaded"
    ask(client, model="gpt-4o")
    ask(client, model="third")
    assert states(client) == {
        "first": "unloaded",
        "org/second": "loaded",
        "third": "loaded",
        "broken": "unloaded",
    }
    assert ask(client).json()["model"] == "first"


def test_a_model_that_cannot_be_loaded(client: httpx.Client) -> None:
    reply = ask(client, model="broken")
    assert reply.status_code == 503
    assert reply.json()["error"]["message"] == "the model 'broken' cannot be loaded: broken"
    described = client.get("/v1/models/broken").json()["status"]
    assert described == {"value": "failed", "failed": True, "message": "broken"}
    assert client.get("/health").status_code == 200


def test_a_stream_holds_its_model(client: httpx.Client) -> None:
    """The one other place is free for whoever asks, until the stream has ended."""
    ask(client, model="third")
    body = {"model": "first", "messages": HELLO, "stream": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = response.iter_lines()
        next(lines)
        ask(client, model="gpt-4o")
        assert states(client)["third"] == "unloaded"
        text = "".join(lines)
    assert "[DONE]" in text
    ask(client, model="third")
    assert states(client)["first"] == "unloaded"


def test_models_are_loaded_and_unloaded_by_llama_servers_paths(client: httpx.Client) -> None:
    for path, state in (("load", "loaded"), ("unload", "unloaded"), ("unload", "unloaded")):
        reply = client.post(f"/models/{path}", json={"model": "third"})
        assert (reply.status_code, reply.json()) == (200, {"success": True})
        assert states(client)["third"] == state
    for path in ("load", "unload"):
        assert client.post(f"/models/{path}", json={"model": "x"}).status_code == 404
        assert client.post(f"/models/{path}", json={}).status_code == 400


def test_ollama_lists_loads_and_unloads(client: httpx.Client) -> None:
    tags = [model["name"] for model in client.get("/api/tags").json()["models"]]
    assert tags == ["first", "org/second", "third", "broken"]

    def running_models() -> list[str]:
        return [model["name"] for model in client.get("/api/ps").json()["models"]]

    assert running_models() == ["first"]
    asked: Json = {"model": "third", "stream": False}
    reply = client.post("/api/generate", json=asked).json()
    assert (reply["done_reason"], running_models()) == ("load", ["first", "third"])
    for keep_alive in (0, "0s"):
        reply = client.post("/api/generate", json={**asked, "keep_alive": keep_alive}).json()
        assert reply["done_reason"] == "unload"
        wait_until(lambda: running_models() == ["first"])
    assert client.post("/api/show", json={"model": "third"}).status_code == 200
    assert client.post("/api/show", json={"model": "x"}).json()["error"].startswith("there is no")


def test_metrics_are_those_of_all_models(client: httpx.Client) -> None:
    def count_sequences() -> float:
        lines = client.get("/metrics").text.splitlines()
        [line] = [line for line in lines if line.startswith("constrained_sequences ")]
        return float(line.split()[1])

    one = count_sequences()
    ask(client, model="third")
    assert count_sequences() == 2 * one


def test_where_none_is_loaded_at_the_start_a_request_has_to_say_which() -> None:
    with running([source for source in make_sources() if not source.preloaded]) as client:
        reply = ask(client)
        assert reply.status_code == 400
        message = "the request names no model: this server has 'org/second', 'third', 'broken'"
        assert reply.json()["error"]["message"] == message
        assert client.get("/health").status_code == 200


def test_one_model_answers_to_any_name() -> None:
    with running(scripted("I am alone.", turn=OPENED)) as client:
        assert ask(client, model="gpt-9").status_code == 200
        assert client.get("/v1/models/gpt-9").status_code == 404
