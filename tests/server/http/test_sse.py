"""Streams of events."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from server.http.sse import EventStream


def test_a_client_that_takes_nothing_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And no failure of the server: whoever likes can be such a client, as often as he likes."""
    ended: list[str] = []

    async def make_events() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: {}\n\n"
        finally:
            ended.append("events")

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    stream = EventStream(
        make_events(),
        idle_seconds=0.05,
        ping_seconds=9,
        media_type="text/event-stream",
        headers={},
        cancel=lambda: ended.append("turns"),
    )
    with caplog.at_level(logging.WARNING, "constrained.server"):
        asyncio.run(stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send))
    assert sorted(ended) == ["events", "turns"]
    (record,) = caplog.records
    assert record.getMessage() == "a client read nothing from its stream for 0.05 seconds"
    assert record.exc_info is None
