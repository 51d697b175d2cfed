"""Batches where the time is over, or the server stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import State

from server.app import make_routes
from server.errors import HttpError
from server.hosting.batches.batch_runner import BatchRunner
from server.hosting.batches.file_store import StoredFile
from server.models.served_models import ServedModels
from server.settings import Settings
from server.turns.service import Service
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import HELLO
from tests.server.hosting.batches.batch_client import HeldModel, make_bodies, write_lines
from tests.server.hosting.batches.local_batches import submit, wait_until


@asynccontextmanager
async def running_batches(model: Any, settings: Settings) -> AsyncIterator[BatchRunner]:
    service = Service(model, settings)
    state = State({"models": ServedModels.of(service), "settings": settings})
    yield BatchRunner(make_routes(state), state.models, settings)
    await asyncio.to_thread(model.close)


def read_codes(file: StoredFile | None) -> dict[str, str]:
    assert file is not None
    lines = [json.loads(line) for line in file.content.splitlines()]
    return {line["custom_id"]: line["error"]["code"] for line in lines}


def test_a_server_that_stops() -> None:
    """Lines under way have the time that the server has; then the batch says why it failed."""

    async def run() -> None:
        held = HeldModel(2)
        async with running_batches(held.model, Settings(drain_seconds=0.2)) as runner:
            first = submit(runner, write_lines(*make_bodies(3)))
            second = submit(runner, write_lines(*make_bodies(1)))
            await wait_until(lambda: held.model.metrics().running == 1)
            await runner.stop()
            assert (first.status, second.status) == ("failed", "failed")
            assert [fault.code for fault in first.faults] == ["server_stopped"]
            assert [fault.code for fault in second.faults] == ["server_stopped"]
            assert set(read_codes(first.errors).values()) == {"server_stopped"}
            assert sorted(read_codes(first.errors)) == ["r0", "r1", "r2"]
            with pytest.raises(HttpError, match="server stops"):
                submit(runner, write_lines(*make_bodies(1)))

    asyncio.run(run())


def test_lines_under_way_end_before_the_server_stops() -> None:
    async def run() -> None:
        held = HeldModel(2)
        async with running_batches(held.model, Settings()) as runner:
            batch = submit(runner, write_lines(*make_bodies(3)))
            await wait_until(lambda: held.model.metrics().running == 1)
            stopping = asyncio.create_task(runner.stop())
            await asyncio.sleep(0)
            held.may_end.set()
            await stopping
            assert (batch.status, batch.completed, batch.failed) == ("failed", 1, 2)
            assert sorted(read_codes(batch.errors)) == ["r1", "r2"]

    asyncio.run(run())


def test_a_window_that_is_over() -> None:
    async def run() -> None:
        held = HeldModel(2)
        async with running_batches(held.model, Settings()) as runner:
            batch = submit(runner, write_lines(*make_bodies(2)))
            batch.window = 0  # the task reads it when it begins
            await wait_until(lambda: batch.is_finished)
            assert batch.status == "expired"
            batch = submit(runner, write_lines(*make_bodies(2)))
            held.may_end.set()
            await wait_until(lambda: batch.is_finished)
            assert batch.status == "completed"

    asyncio.run(run())


def test_a_line_that_finds_the_queue_full_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.hosting.batches.batch_runner.BUSY_SECONDS", 0.01)

    async def run() -> None:
        model = scripted("Hello")
        settings = Settings()
        service = Service(model, settings)
        state = State({"models": ServedModels.of(service), "settings": settings})
        routes = make_routes(state)
        (served,) = state.models
        asked = 0

        async def busy(scope: Any, receive: Any, send: Any) -> None:
            nonlocal asked
            asked += 1
            served.is_starting = asked < 3
            await routes(scope, receive, send)

        runner = BatchRunner(busy, state.models, settings)
        batch = submit(runner, write_lines({"messages": HELLO}))
        await wait_until(lambda: batch.is_finished)
        assert (batch.status, batch.completed, asked) == ("completed", 1, 3)
        await asyncio.to_thread(model.close)

    asyncio.run(run())


def test_a_line_whose_model_cannot_be_loaded_has_failed() -> None:
    async def run() -> None:
        settings = Settings()
        model = scripted("Hello")
        state = State({"models": ServedModels.of(Service(model, settings)), "settings": settings})
        (served,) = state.models
        served.start_failure = ValueError("the file is damaged")
        runner = BatchRunner(make_routes(state), state.models, settings)
        batch = submit(runner, write_lines({"messages": HELLO}))
        await wait_until(lambda: batch.is_finished)
        assert (batch.status, batch.completed, batch.failed) == ("completed", 0, 1)
        assert batch.errors is not None
        assert b"the file is damaged" in batch.errors.content
        await asyncio.to_thread(model.close)

    asyncio.run(run())


def test_a_line_that_is_tried_again_leaves_its_place_to_other_batches() -> None:
    async def run() -> None:
        model = scripted("Hello")
        settings = Settings()
        state = State({"models": ServedModels.of(Service(model, settings)), "settings": settings})
        routes = make_routes(state)

        async def refuse_some(scope: Any, receive: Any, send: Any) -> None:
            unread = [await receive()]
            if b"busy" not in unread[0]["body"]:

                async def receive_again() -> Any:
                    return unread.pop() if unread else await receive()

                await routes(scope, receive_again, send)
                return
            headers = [(b"retry-after", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b"{}"})

        runner = BatchRunner(refuse_some, state.models, settings)
        busy = submit(runner, write_lines({"messages": HELLO, "user": "busy"}), owner="a")
        served = submit(runner, write_lines({"messages": HELLO}), owner="b")
        await wait_until(lambda: served.is_finished)
        assert (served.status, served.completed) == ("completed", 1)
        assert not busy.is_finished
        runner.cancel(busy)
        await wait_until(lambda: busy.is_finished)
        assert busy.status == "cancelled"
        await asyncio.to_thread(model.close)

    asyncio.run(run())


def test_limits_are_checked() -> None:
    for name in ("max_file", "max_files", "max_files_bytes", "max_batches"):
        limits: dict[str, Any] = {name: 0}
        with pytest.raises(ValueError, match=name):
            replace(Settings(), **limits)
