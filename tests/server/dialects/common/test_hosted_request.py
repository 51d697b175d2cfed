"""The MCP servers that a request wants."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request

from constrained.errors import BusyError
from server.dialects.common.hosted_request import borrow_servers
from server.hosting.mcp.mcp_pool import McpPool
from server.http.leases import Leases
from server.http.server_end import ServerEnd
from server.settings import Settings
from tests.constrained.agent.mcp.raw_command import raw

SCOPE: Any = {"type": "http"}
NOBODY: Any = None


def test_a_server_is_given_back_where_another_one_is_refused() -> None:
    async def check() -> None:
        pool = McpPool([raw("one"), raw("two")], timeout=20, max_sessions=2)
        await pool.start()
        kept = [await pool.borrow("ann", label) for label in pool.labels]
        kept.pop().give_back()
        models = SimpleNamespace(end=ServerEnd())
        state = SimpleNamespace(mcp=pool, settings=Settings(), models=models)

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def app(scope: Any, *_: Any) -> None:
            scope["app"] = SimpleNamespace(state=state)
            with pytest.raises(BusyError, match="all 2 connections"):
                await borrow_servers(Request(scope, receive), ["one", "two"])

        await Leases(app)(dict(SCOPE), NOBODY, NOBODY)
        # Had it kept the one that it got, there would be no room for this one.
        (await pool.borrow("carl", "two")).give_back()
        await pool.close()

    asyncio.run(check())
