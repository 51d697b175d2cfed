"""The tools that a server lists, which it may change at any time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp import Client, MCPError, types
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

from constrained.agent.mcp.transports import MAX_MESSAGE_LENGTH
from constrained.errors import Error

LOG = logging.getLogger(__name__)
MAX_PAGES = 100  # of a list
MAX_ENTRIES = 10_000  # of a list
MAX_LIST_LENGTH = MAX_MESSAGE_LENGTH  # characters of all entries, as JSON
MAX_ERROR_LENGTH = 4_000  # characters of a server's error, in our message
LISTEN_AGAIN = (1.0, 60.0)  # seconds before notifications are requested again: first and maximum
LIST_AGAIN = 1.0  # seconds between two lists of the tools
NO_ANSWER = (ValueError, RuntimeError)
"""Errors that the package raises for an invalid answer of a server: a value that pydantic refuses,
a structured value that does not fit its schema."""


class McpError(Error):
    """An MCP server failed to carry out a request, or reports an error."""


class ToolList:
    """The tools of one connection.

    Args:
        find_name: returns the name of the server, for messages.
        seconds: the limit for each new list.

    Attributes:
        tools: a new list after each change.
    """

    def __init__(self, find_name: Callable[[], str], seconds: float):
        self._find_name = find_name
        self._seconds = seconds
        self._client: Client | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._changes = 0  # notifications that the tools have changed
        self._is_stale = False  # listing the tools again has failed
        self._faults: list[str] = []  # of tools in the last list
        self.tools: list[types.Tool] = []

    def note_faults(self, faults: Sequence[str]) -> None:
        """Notes what is wrong with tools that were left out of a list."""
        self._faults += faults

    async def read(self, client: Client) -> None:
        """Lists the tools of a server; an error if it has none that can be used, or too many."""
        if client.server_capabilities.tools is None:
            return
        self._faults.clear()
        tools = await list_pages(client.list_tools)
        if self._faults:
            count, first = len(self._faults), shorten(self._faults[0])
            message = f"{count} of its tools cannot be used, as {first}"
            if not tools:
                raise McpError(message)
            LOG.warning("the MCP server %s: %s", self._find_name(), message)
        self.tools = tools

    async def follow(self, client: Client) -> None:
        """Follows the changes of a server's tools, until it is cancelled. Requests notifications
        from a server that does not send them by itself."""
        self._client = client
        tools = client.server_capabilities.tools
        pause, longest = LISTEN_AGAIN
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    pause = LISTEN_AGAIN[0]
                    async for _ in changes:
                        self._note_change()
            except ListenNotSupportedError:
                return  # the server sends them by itself: see `take_message`
            except (MCPError, SubscriptionLost, TimeoutError, *NO_ANSWER):
                pass
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
            self._note_change()  # changes may have been missed until now

    async def take_message(self, message: Any) -> None:
        """Takes a notification of the server. It must not wait for further requests: their answers
        come through the same stream."""
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    def leave(self) -> None:
        """Stops asking: the connection has ended."""
        self._client = None
        if self._refreshing is not None:
            self._refreshing.cancel()

    def _note_change(self) -> None:
        self._changes += 1
        if self._client is None:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Lists the tools until they no longer change, with a pause after each list, since a server
        may send notifications without end, even in answer to each list."""
        listed = 0
        while listed != self._changes and self._client is not None:
            listed = self._changes
            await self._refresh(self._client)
            await asyncio.sleep(LIST_AGAIN)

    async def _refresh(self, client: Client) -> None:
        """Lists the tools again; if that fails, keeps the previous list."""
        try:
            async with asyncio.timeout(self._seconds):
                await self.read(client)
        except (MCPError, Error, TimeoutError, *NO_ANSWER) as e:
            cause = shorten(str(e))
            if isinstance(e, TimeoutError):
                cause = f"no answer within {self._seconds:g} s"
            # One warning until a list succeeds: the server decides how often this happens.
            level = logging.DEBUG if self._is_stale else logging.WARNING
            self._is_stale = True
            message = "the tools of the MCP server %s cannot be listed again: %s"
            LOG.log(level, message, self._find_name(), cause)
        else:
            self._is_stale = False


async def list_pages(
    list_page: Callable[..., Awaitable[types.ListToolsResult]],
) -> list[types.Tool]:
    """Returns all tools of a list that comes in pages; `list_page` takes a cursor.

    Raises:
        McpError: the list does not end, or is too long.
    """
    entries: list[types.Tool] = []
    cursor: str | None = None
    length = 0
    for _ in range(MAX_PAGES):
        page = await list_page(cursor=cursor)
        entries += page.tools
        if len(entries) > MAX_ENTRIES:
            raise McpError(f"the list of tools has more than {MAX_ENTRIES:,} entries")
        length += len(page.model_dump_json())
        if length > MAX_LIST_LENGTH:
            raise McpError(f"the list of tools has more than {MAX_LIST_LENGTH:,} characters")
        cursor = page.next_cursor
        if cursor is None:
            return entries
    raise McpError(f"the list of tools has more than {MAX_PAGES} pages")


def shorten(text: str) -> str:
    """Shortens a server's text for a message."""
    return text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]} [...]"
