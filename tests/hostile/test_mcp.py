"""MCP servers that send more than anybody has asked for."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from mcp import types

from constrained.agent.mcp.connection import ConnectionSettings, McpConnection
from constrained.agent.mcp.server import ServerCommand
from constrained.agent.mcp.tool_list import MAX_ENTRIES, McpError, list_pages

SERVER = Path(__file__).with_name("mcp_server.py")
PAUSE = "constrained.agent.mcp.tool_list.LIST_AGAIN"
WAIT = 20  # seconds, for what comes at once


@asynccontextmanager
async def connected(*arguments: str) -> AsyncIterator[McpConnection]:
    server = ServerCommand(sys.executable, (str(SERVER), *arguments))
    connection = McpConnection(server, ConnectionSettings())
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()


async def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


def test_a_flood_of_changes_is_one_change() -> None:
    async def count_lists() -> str:
        async with connected() as connection:
            await connection.call("flood", {})
            return (await connection.call("lists", {})).text

    # The answer to the first list comes after the flood, so there is one more at most.
    assert int(asyncio.run(count_lists())) <= 2


def test_a_list_that_is_not_answered_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PAUSE, 0.01)

    async def lose_a_list() -> None:
        async with connected() as connection:
            patient = connection._tools._seconds
            connection._tools._seconds = 0.05
            await connection.call("lose", {})
            await wait_for(lambda: bool(caplog.records))
            connection._tools._seconds = patient
            await connection.call("add", {})
            await wait_for(lambda: connection.tools[-1].name == "added")

    asyncio.run(lose_a_list())
    assert "no answer within 0.05 s" in caplog.messages[0]


def test_a_server_that_notifies_behind_each_list_is_given_a_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PAUSE, 600)

    async def count_lists() -> str:
        async with connected() as connection:
            await connection.call("quarrel", {})
            await wait_for(lambda: bool(caplog.records))
            for _ in range(20):  # an answer comes after a notification, if there was a list
                await connection.call("lists", {})
            return (await connection.call("lists", {})).text

    assert asyncio.run(count_lists()) == "1"


def test_a_server_that_refuses_each_list_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PAUSE, 0)

    async def quarrel() -> None:
        async with connected() as connection:
            caplog.set_level(logging.DEBUG, "constrained.agent.mcp.tool_list")
            await connection.call("quarrel", {})
            await wait_for(lambda: len(caplog.records) > 3)

    asyncio.run(quarrel())
    levels = [record.levelno for record in caplog.records]
    assert levels.count(logging.WARNING) == 1


@pytest.mark.parametrize(
    ("entries", "text", "next_cursor", "fault"),
    [
        (MAX_ENTRIES + 1, "", None, "10,000 entries"),
        (3, "", "again", "100 pages"),
        (9, "a" * 1_000_000, "again", "33,554,432 characters"),
    ],
)
def test_a_list_that_is_too_long_is_refused(
    entries: int, text: str, next_cursor: str | None, fault: str
) -> None:
    tool = types.Tool(name="t", description=text, input_schema={"type": "object"})

    async def list_page(*, cursor: str | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool] * entries, next_cursor=next_cursor)

    with pytest.raises(McpError, match=f"the list of tools has more than {fault}"):
        asyncio.run(list_pages(list_page))


BROKEN = ({"name": "bad", "inputSchema": "x"}, {"name": 5, "inputSchema": {}}, None, {"name": "x"})


def test_a_broken_tool_does_not_take_the_others_away(caplog: pytest.LogCaptureFixture) -> None:
    whole = {"name": "whole", "inputSchema": {"type": "object"}}

    async def list_tools() -> list[str]:
        async with connected(json.dumps([*BROKEN, whole])) as connection:
            return [tool.name for tool in connection.tools]

    assert asyncio.run(list_tools())[-2:] == ["ask", "whole"]
    assert "4 of its tools cannot be used" in caplog.text
    assert "/tools/7/inputSchema ('bad'): Input should be a valid dictionary" in caplog.text


def test_a_server_without_a_usable_tool_says_why() -> None:
    async def connect() -> None:
        async with connected("null"):
            pass

    with pytest.raises(McpError, match="1 of its tools cannot be used, as /tools/0"):
        asyncio.run(connect())


def measure_memory() -> int:
    """Memory that this process has in use, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")
def test_requests_that_are_not_waited_for_are_bounded() -> None:
    async def call() -> int:
        async with connected() as connection:
            before = measure_memory()
            with suppress(McpError):
                await connection.call("ask", {})
            return measure_memory() - before

    assert asyncio.run(call()) < 60_000_000


def test_a_result_of_too_many_parts_is_refused() -> None:
    async def call() -> None:
        async with connected() as connection:
            await connection.call("parts", {})

    with pytest.raises(McpError, match="300,000 parts, more than 10,000"):
        asyncio.run(call())
