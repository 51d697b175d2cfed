"""A server that runs in this process, on a port of its own, for real clients."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from constrained.agent.model import Model
from server.app import make_app
from server.models.served_models import ModelBounds, ServedModel
from server.models.source import ModelSource
from server.settings import Settings
from tests.remote_model import sampled_elsewhere
from tests.server.typed_replies import type_replies

PATIENCE = 60  # seconds
DRAWS_ELSEWHERE = os.environ.get("TEST_ENGINE") == "llama-server"
"""Tokens come over HTTP, from a stand-in on the same engine: `make test-remote-dialects`."""
needs_own_engine = pytest.mark.skipif(
    DRAWS_ELSEWHERE, reason="a remote engine cannot do this, or the reply says that there is one"
)
Json = dict[str, Any]


@contextmanager
def running(
    model: Model | Callable[[], Model] | Sequence[ModelSource],
    settings: Settings | None = None,
    bounds: ModelBounds | None = None,
    *,
    name: str = "demo",
) -> Iterator[httpx.Client]:
    """Serves a model, or several, which are closed in the end; gives a client of the server, which
    holds every reply against the OpenAPI document and the types of the SDKs."""
    load = model if not isinstance(model, Model) else lambda: model
    with ExitStack() as stack:
        if DRAWS_ELSEWHERE and not isinstance(load, Sequence):
            load = stack.enter_context(sampled_elsewhere(load))
        app = make_app(load, settings, bounds, name=name)
        yield stack.enter_context(_serve(app))


@contextmanager
def _serve(app: FastAPI) -> Iterator[httpx.Client]:
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started and not is_starting(app.state.models), thread)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        hooks = {"response": [type_replies(app).check]}
        with httpx.Client(base_url=url, timeout=PATIENCE, event_hooks=hooks) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def is_starting(models: Iterable[ServedModel]) -> bool:
    """True while a server loads the models that it starts with."""
    return any(model.is_starting for model in models)


def wait_until(is_so: Callable[[], bool], thread: threading.Thread | None = None) -> None:
    """Waits until something is so, for a minute."""
    for _ in range(PATIENCE * 100):
        if is_so():
            return
        assert thread is None or thread.is_alive(), "the server has ended"
        time.sleep(0.01)
    raise AssertionError("it never came to be so")


def read_events(response: httpx.Response) -> list[tuple[str, Json]]:
    """The events of a stream: names ("" where they have none) and data; checks that it ended."""
    events = list[tuple[str, Json]]()
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and line != "data: [DONE]":
            events.append((name, json.loads(line.removeprefix("data: "))))
            name = ""
        else:
            assert line in ("", "data: [DONE]", ": alive"), line
    return events


def stream(client: httpx.Client, path: str, body: Json) -> list[tuple[str, Json]]:
    """The events of a request that is streamed."""
    with client.stream("POST", path, json={**body, "stream": True}) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return read_events(response)
