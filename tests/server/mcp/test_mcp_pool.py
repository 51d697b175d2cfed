"""Connections to MCP servers: one for each owner, closed when nobody uses it."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from constrained.errors import BusyError, RequestError
from constrained.mcp.connection import McpError
from constrained.mcp.server import ServerCommand
from server.mcp.hosted_tools import ListedServer
from server.mcp.mcp_pool import McpPool
from tests.constrained.mcp.test_servers import raw


def run(check: Callable[[McpPool], Awaitable[None]], *names: str, **options: Any) -> None:
    """Checks a pool of such servers, and closes it."""

    async def work() -> None:
        pool = McpPool([raw(name) for name in names or ("raw",)], timeout=20, **options)
        await pool.start()
        try:
            await check(pool)
        finally:
            await pool.close()

    asyncio.run(work())


async def find_process(server: ListedServer) -> int:
    """The process of a server."""
    (where,) = [tool for tool in server.tools if tool.name == "where"]
    assert where.function.function is not None
    return json.loads(str(await where.function.function()))["process"]


async def die(server: ListedServer) -> None:
    (tool,) = [tool for tool in server.tools if tool.name == "die"]
    assert tool.function.function is not None
    with pytest.raises(McpError, match="has ended"):
        await tool.function.function()


def test_each_owner_has_a_process_of_its_own() -> None:
    async def check(pool: McpPool) -> None:
        assert (pool.labels, pool.find_address("raw")) == (["raw"], None)
        ann, ann_again, bob = [await pool.borrow(who, "raw") for who in ("ann", "ann", "bob")]
        processes = [await find_process(server) for server in (ann, ann_again, bob)]
        assert processes[0] == processes[1] != processes[2]
        assert ann.tools[0].function.name == "raw__echo"

    run(check)


def test_what_nobody_uses_is_closed_first() -> None:
    now = [0.0]

    async def check(pool: McpPool) -> None:
        first = await find_process(await pool.borrow("ann", "raw"))
        with pytest.raises(BusyError, match="all 1 connections"):
            await pool.borrow("bob", "raw")
        pool.give_back("ann", "raw")
        now[0] = 5
        assert await find_process(await pool.borrow("ann", "raw")) == first
        pool.give_back("ann", "raw")
        now[0] = 20
        second = await find_process(await pool.borrow("ann", "raw"))
        assert second != first  # it was closed
        pool.give_back("ann", "raw")
        assert await find_process(await pool.borrow("bob", "raw")) != second  # in its place

    run(check, most=1, idle_seconds=10, clock=lambda: now[0])


def test_a_server_that_has_gone_is_connected_anew_for_the_next_request() -> None:
    async def check(pool: McpPool) -> None:
        server = await pool.borrow("ann", "raw")
        await die(server)
        await die(server)  # it was started once more, and is not any more
        pool.give_back("ann", "raw")
        assert await find_process(await pool.borrow("ann", "raw"))

    run(check)


def test_what_is_wrong_shows_at_the_start() -> None:
    async def start(*servers: ServerCommand) -> None:
        await McpPool(servers, timeout=20).start()

    with pytest.raises(RequestError, match="two MCP servers are called 'raw'"):
        asyncio.run(start(raw(), raw()))
    broken = ServerCommand(sys.executable, ("-c", "raise SystemExit(1)"))
    with pytest.raises(McpError, match="cannot be reached"):
        asyncio.run(start(raw(), broken))
