"""Connections to MCP servers: one for each owner, closed when nobody uses it."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.mcp.connection import McpError
from constrained.agent.mcp.server import ServerCommand
from constrained.errors import BusyError, RequestError
from server.dialects.common.hosted_tools import ListedServer
from server.hosting.mcp.mcp_pool import McpPool
from tests.constrained.agent.mcp.raw_command import raw

RAW = raw().args[0]
RUN_RAW = f"runpy.run_path({RAW!r})"


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


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def die(server: ListedServer) -> None:
    (tool,) = [tool for tool in server.tools if tool.name == "die"]
    assert tool.function.function is not None
    with pytest.raises(McpError, match="has ended"):
        await tool.function.function()


def test_each_owner_has_a_process_of_its_own() -> None:
    async def check(pool: McpPool) -> None:
        assert (pool.labels, pool.find_address("raw")) == (["raw"], None)
        servers = [(await pool.borrow(who, "raw")).server for who in ("ann", "ann", "bob")]
        ann, ann_again, bob = [await find_process(server) for server in servers]
        assert ann == ann_again != bob
        assert servers[0].tools[0].function.name == "raw__echo"

    run(check)


def test_what_nobody_uses_makes_room() -> None:
    async def check(pool: McpPool) -> None:
        ann = await pool.borrow("ann", "raw")
        first = await find_process(ann.server)
        with pytest.raises(BusyError, match="all 1 connections"):
            await pool.borrow("bob", "raw")
        ann.give_back()
        ann = await pool.borrow("ann", "raw")
        assert await find_process(ann.server) == first
        ann.give_back()
        bob = await pool.borrow("bob", "raw")
        assert await find_process(bob.server) != first  # in its place

    run(check, max_sessions=1)


def test_what_nobody_uses_for_long_ends_though_nobody_asks_again() -> None:
    async def check(pool: McpPool) -> None:
        ann = await pool.borrow("ann", "raw")
        process = await find_process(ann.server)
        await asyncio.sleep(0.1)
        assert is_running(process)  # somebody has it
        ann.give_back()
        async with asyncio.timeout(10):
            while is_running(process):
                await asyncio.sleep(0.01)

    run(check, idle_seconds=0.05)


def test_a_server_that_has_gone_is_connected_anew_for_the_next_request() -> None:
    async def check(pool: McpPool) -> None:
        gone = await pool.borrow("ann", "raw")
        await die(gone.server)
        await die(gone.server)  # it was started once more, and is not any more
        # The next one need not wait for the first to be over.
        next_one = await pool.borrow("ann", "raw")
        process = await find_process(next_one.server)
        gone.give_back()
        assert await find_process(next_one.server) == process
        next_one.give_back()
        assert await find_process((await pool.borrow("ann", "raw")).server) == process

    run(check)


def test_a_server_that_could_not_be_reached_is_tried_again_by_the_next_request(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "gone"
    script = f"import os, sys, runpy; os.path.exists({str(missing)!r}) and sys.exit(1); {RUN_RAW}"

    async def check() -> None:
        pool = McpPool([ServerCommand(sys.executable, ("-c", script), name="raw")], timeout=20)
        await pool.start()
        (await pool.borrow("ann", "raw")).give_back()
        missing.touch()
        broken = await pool.borrow("bob", "raw")
        assert "cannot be reached" in str(broken.server.error)
        missing.unlink()
        assert (await pool.borrow("bob", "raw")).server.error is None
        broken.give_back()
        await pool.close()

    asyncio.run(check())


def test_what_is_given_back_to_a_closed_pool_is_no_error() -> None:
    async def check() -> None:
        pool = McpPool([raw()], timeout=20)
        await pool.start()
        borrowed = await pool.borrow("ann", "raw")
        await pool.close()
        borrowed.give_back()

    asyncio.run(check())


def test_what_is_wrong_shows_at_the_start() -> None:
    async def start(*servers: ServerCommand) -> None:
        await McpPool(servers, timeout=20).start()

    with pytest.raises(RequestError, match="two MCP servers are called 'raw'"):
        asyncio.run(start(raw(), raw()))
    broken = ServerCommand(sys.executable, ("-c", "raise SystemExit(1)"))
    with pytest.raises(McpError, match="cannot be reached"):
        asyncio.run(start(raw(), broken))
