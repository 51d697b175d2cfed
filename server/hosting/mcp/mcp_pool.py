"""Connections to MCP servers: each API key has its own, opened at the first use.

MCP servers have state, such as open files, a browser, or memory. So different keys never share a
connection, and a command is started once for each key. Unused connections are closed after a while.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from constrained.agent.mcp.server import McpServer, ServerAddress
from constrained.agent.mcp.servers import McpServers, connect_mcp, make_word
from constrained.errors import BusyError, Error, RequestError
from server.dialects.common.hosted_tools import BorrowedServer, HostedTool, ListedServer
from server.hosting.mcp.forced_approval import ForcedApproval

LOG = logging.getLogger("constrained.server")
MAX_OPEN_SESSIONS = 64
IDLE_SECONDS = 600.0
NOBODY = ""
"""The owner if there are no keys."""


@dataclass(eq=False)
class _Session:
    """The connection of one owner to one server.

    Args:
        servers: the server.
        opening: the task that connects to it.
        users: how many borrowers there are now.
        used_at: when it was last given back.
        closing: the timer that closes it when it is unused; None: it is in use.
    """

    servers: McpServers
    opening: asyncio.Task[McpServers]
    users: int = 0
    used_at: float = 0.0
    closing: asyncio.TimerHandle | None = None

    @property
    def is_spent(self) -> bool:
        """True if it could not be opened, or its server has ended."""
        if not self.opening.done():
            return False
        has_failed = self.opening.cancelled() or self.opening.exception() is not None
        return has_failed or self.servers.is_lost

    def keep_open(self) -> None:
        """Stops the timer that would close it."""
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None


class McpPool:
    """MCP servers, for the event loop of the server.

    Args:
        servers: the configured servers; one without a name gets the name that it reports.
        timeout: the time limit of a call, in seconds.
        approval: which calls need approval in every request.
        max_sessions: the limit for open connections.
        idle_seconds: connections are closed when unused for this time.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        timeout: float,
        *,
        approval: ForcedApproval = ForcedApproval.NONE,
        max_sessions: int = MAX_OPEN_SESSIONS,
        idle_seconds: float = IDLE_SECONDS,
    ):
        self._given = servers
        self._timeout = timeout
        self._approval = approval
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._servers: dict[str, McpServer] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._leaving: set[_Session] = set()
        """Sessions that are not given to new requests, but are still in use."""
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def labels(self) -> Sequence[str]:
        """The clients' names for the servers."""
        return list(self._servers)

    def find_address(self, label: str) -> str | None:
        """Returns the address of a server; None: it runs as a command."""
        server = self._servers.get(label)
        return server.url if isinstance(server, ServerAddress) else None

    async def start(self) -> None:
        """Connects to all servers, for no owner yet: so errors show immediately, and the first
        request need not wait.

        Raises:
            Error: a server cannot be reached, or two have the same name.
        """
        opening = [asyncio.ensure_future(self._open(server)) for server in self._given]
        try:
            opened = await asyncio.gather(*opening, return_exceptions=True)
        except asyncio.CancelledError:  # those that are open have to be closed
            opened = await asyncio.gather(*opening, return_exceptions=True)
            await self._close_all([one for one in opened if isinstance(one, McpServers)])
            raise
        for failure in opened:
            if isinstance(failure, BaseException):
                await self._close_all([one for one in opened if isinstance(one, McpServers)])
                raise failure
        words: set[str] = set()
        for server, servers in zip(self._given, opened, strict=True):
            assert isinstance(servers, McpServers)
            (label,) = servers.names
            if make_word(label) in words:
                hint = "Give them names: NAME= before a command or an address"
                await self._close_all([one for one in opened if isinstance(one, McpServers)])
                raise RequestError(f"two MCP servers are called {label!r}", hint=hint)
            words.add(make_word(label))
            self._servers[label] = replace(server, name=label)
            given = asyncio.ensure_future(_give(servers))
            session = self._sessions[NOBODY, label] = _Session(servers, given)
            self._start_idle_timer(session)
            LOG.info("MCP server %s: %d tools", label, len(servers.tools()))

    async def borrow(self, owner: str, label: str) -> BorrowedServer:
        """Returns a server, connected for this owner. If it cannot be reached, it has an `error`.

        Raises:
            BusyError: all connections are in use.
        """
        session = self._find(owner, label)
        session.keep_open()
        session.users += 1
        give_back = partial(self._give_back, session)
        try:
            servers = await asyncio.shield(session.opening)
            tools = servers.list_tools()
        except Error as error:
            return BorrowedServer(ListedServer(label, error=str(error)), give_back)
        except BaseException:
            give_back()
            raise
        listed: list[HostedTool] = []
        for tool in tools:
            waits = self._approval.applies_to(tool.function)
            listed.append(HostedTool(tool.name, tool.listed, tool.function, needs_approval=waits))
        return BorrowedServer(ListedServer(label, tuple(listed)), give_back)

    def _give_back(self, session: _Session) -> None:
        session.users -= 1
        if session.users:
            return
        if session in self._leaving:
            self._end(session)
        elif session in self._sessions.values():  # otherwise the pool is closed
            self._start_idle_timer(session)

    async def close(self) -> None:
        """Closes all connections, and ends the servers that were started."""
        for session in [*self._sessions.values(), *self._leaving]:
            self._end(session)
        await asyncio.gather(*self._closing)

    def _find(self, owner: str, label: str) -> _Session:
        """Returns the session of an owner; opens one if there is no usable session."""
        self._remove_spent()
        key = owner, label
        if key not in self._sessions:
            spare = self._sessions.pop((NOBODY, label), None)
            if spare is not None:  # unused since the start, so it has no owner yet
                self._sessions[key] = spare
        if key not in self._sessions:
            self._make_room()
            servers = self._connect(self._servers[label])
            opening = asyncio.ensure_future(servers.__aenter__())
            opening.add_done_callback(_note_failure)
            self._sessions[key] = _Session(servers, opening)
        return self._sessions[key]

    def _remove_spent(self) -> None:
        """Removes sessions that could not be opened, or whose servers have ended. Their current
        borrowers keep them."""
        for key, session in list(self._sessions.items()):
            if not session.is_spent:
                continue
            if session.users:
                self._leaving.add(self._sessions.pop(key))
            else:
                self._end(session)

    def _start_idle_timer(self, session: _Session) -> None:
        """Starts the timer that closes an unused session."""
        loop = asyncio.get_running_loop()
        session.used_at = loop.time()
        session.closing = loop.call_later(self._idle_seconds, self._end, session)

    def _make_room(self) -> None:
        """If there are too many sessions, closes the one that has been unused for the longest time.

        Raises:
            BusyError: all are in use.
        """
        if len(self._sessions) < self._max_sessions:
            return
        idle = [session for session in self._sessions.values() if not session.users]
        if not idle:
            raise BusyError(f"all {self._max_sessions} connections to MCP servers are in use")
        self._end(min(idle, key=lambda session: session.used_at))

    def _end(self, session: _Session) -> None:
        session.keep_open()
        self._leaving.discard(session)
        for key, kept in list(self._sessions.items()):
            if kept is session:
                del self._sessions[key]
        task = asyncio.ensure_future(_close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _connect(self, server: McpServer) -> McpServers:
        return connect_mcp(server, namespace=True, timeout=self._timeout)

    async def _open(self, server: McpServer) -> McpServers:
        return await self._connect(server).__aenter__()

    async def _close_all(self, opened: Sequence[McpServers]) -> None:
        for servers in opened:
            await asyncio.to_thread(servers.close)


async def _give(servers: McpServers) -> McpServers:
    return servers


async def _close(session: _Session) -> None:
    session.opening.cancel()
    await asyncio.gather(session.opening, return_exceptions=True)
    await asyncio.to_thread(session.servers.close)


def _note_failure(opening: asyncio.Task[McpServers]) -> None:
    if not opening.cancelled() and (error := opening.exception()) is not None:
        LOG.warning("%s", error)
