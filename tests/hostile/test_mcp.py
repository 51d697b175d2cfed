"""MCP servers that send more than anybody has asked for."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from constrained.mcp.connection import (
    MOST_ENTRIES,
    ConnectionSettings,
    McpConnection,
    McpError,
    list_pages,
)
from constrained.mcp.server import ServerCommand

SERVER = Path(__file__).with_name("mcp_server.py")


def test_a_flood_of_changes_is_one_change() -> None:
    async def count_lists() -> str:
        server = ServerCommand(sys.executable, (str(SERVER),))
        connection = McpConnection(server, ConnectionSettings())
        await connection.open()
        try:
            await connection.call("flood", {})
            return (await connection.call("lists", {})).text
        finally:
            await connection.close()

    # The answer to the first list comes behind the flood, so there is one more at most.
    assert int(asyncio.run(count_lists())) <= 2


@pytest.mark.parametrize(
    ("entries", "next_cursor", "fault"),
    [(MOST_ENTRIES + 1, None, "10,000 entries"), (3, "again", "100 pages")],
)
def test_a_list_that_is_too_long_is_refused(
    entries: int, next_cursor: str | None, fault: str
) -> None:
    async def list_page(*, cursor: str | None) -> SimpleNamespace:
        return SimpleNamespace(tools=[None] * entries, next_cursor=next_cursor)

    with pytest.raises(McpError, match=f"the list of tools has more than {fault}"):
        asyncio.run(list_pages(list_page, "tools"))
