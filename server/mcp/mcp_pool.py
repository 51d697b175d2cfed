"""Connections to MCP servers: for each API key one of its own, opened when it is first needed.

Servers have a state: files that they have open, a browser, what they remember. So the holders of
different keys never share one; a command is started once for each. What nobody has used for a while
is closed.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from constrained.errors import BusyError, Error, RequestError
from constrained.mcp.server import McpServer, ServerAddress
from constrained.mcp.servers import McpServers, connect_mcp
from constrained.mcp.tool_names import make_word
from server.mcp.forced_approval import ForcedApproval
from server.mcp.hosted_tools import BorrowedServer, HostedTool, ListedServer

LOG = logging.getLogger("constrained.server")
MAX_OPEN_SESSIONS = 64
IDLE_SECONDS = 600.0
NOBODY = ""
"""The owner where there are no keys."""


@dataclass(eq=False)
class _Session:
    """A connection of one owner to one server.

    Args:
        servers: the server.
        opening: connects to it.
        users: how many have borrowed it.
        used_at: when it was given back last.
        closing: ends it when nobody has used it for long; None: somebody uses it.
    """

    servers: McpServers
    opening: asyncio.Task[McpServers]
    users: int = 0
    used_at: float = 0.0
    closing: asyncio.TimerHandle | None = None

    @property
    def is_spent(self) -> bool:
        """True if it could not be opened, or its server has gone."""
        if not self.opening.done():
            return False
        has_failed = self.opening.cancelled() or self.opening.exception() is not None
        return has_failed or self.servers.is_lost

    def keep_open(self) -> None:
        """It is not ended for want of use."""
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None


class McpPool:
    """MCP servers, for the event loop of the server.

    Args:
        servers: how they are reached; one without a name is called as it calls itself.
        timeout: seconds until a call is given up.
        approval: which calls clients have to approve, whatever a request says.
        max_sessions: connections that are open at a time.
        idle_seconds: a connection that nobody has used for so long is closed.
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
        """Those that nobody gets any more, but some still have."""
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def labels(self) -> Sequence[str]:
        """What clients call the servers."""
        return list(self._servers)

    def find_address(self, label: str) -> str | None:
        """The address of a server; None: it is a command."""
        server = self._servers.get(label)
        return server.url if isinstance(server, ServerAddress) else None

    async def start(self) -> None:
        """Connects to all servers, for nobody in particular: what is wrong shows at once, and the
        first who asks need not wait.

        Raises:
            Error: one cannot be reached, or two have the same name.
        """
        opened = await asyncio.gather(*map(self._open, self._given), return_exceptions=True)
        for failure in opened:
            if isinstance(failure, BaseException):
                await self._close_all([one for one in opened if isinstance(one, McpServers)])
                raise failure
        words: set[str] = set()
        for server, servers in zip(self._given, opened, strict=True):
            assert isinstance(servers, McpServers)
            (label,) = servers.names
            if make_word(label) in words:
                hint = "Name them: NAME= in front of a command or an address"
                await self._close_all([one for one in opened if isinstance(one, McpServers)])
                raise RequestError(f"two MCP servers are called {label!r}", hint=hint)
            words.add(make_word(label))
            self._servers[label] = replace(server, name=label)
            opening = asyncio.ensure_future(_give(servers))
            session = self._sessions[NOBODY, label] = _Session(servers, opening)
            self._rest(session)
            LOG.info("MCP server %s: %d tools", label, len(servers.tools()))

    async def borrow(self, owner: str, label: str) -> BorrowedServer:
        """A server, connected for this owner. One that cannot be reached says so in its `error`.

        Raises:
            BusyError: as many connections as can be are in use.
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
            waits = self._approval.holds_for(tool.function)
            listed.append(HostedTool(tool.name, tool.listed, tool.function, needs_approval=waits))
        return BorrowedServer(ListedServer(label, tuple(listed)), give_back)

    def _give_back(self, session: _Session) -> None:
        session.users -= 1
        if session.users:
            return
        if session in self._leaving:
            self._end(session)
        elif session in self._sessions.values():  # else the pool is closed
            self._rest(session)

    async def close(self) -> None:
        """Ends all connections, and the servers that were started."""
        for session in [*self._sessions.values(), *self._leaving]:
            self._end(session)
        await asyncio.gather(*self._closing)

    def _find(self, owner: str, label: str) -> _Session:
        """The session of an owner, which is opened if there is none that could be used."""
        self._take_out_spent()
        key = owner, label
        if key not in self._sessions:
            spare = self._sessions.pop((NOBODY, label), None)
            if spare is not None:  # nobody has used it: where there are keys, it has no owner yet
                self._sessions[key] = spare
        if key not in self._sessions:
            self._make_room()
            servers = self._connect(self._servers[label])
            opening = asyncio.ensure_future(servers.__aenter__())
            opening.add_done_callback(_note_failure)
            self._sessions[key] = _Session(servers, opening)
        return self._sessions[key]

    def _take_out_spent(self) -> None:
        """Nobody gets the sessions any more that could not be opened, or whose servers have gone;
        those who have them keep them."""
        for key, session in list(self._sessions.items()):
            if not session.is_spent:
                continue
            if session.users:
                self._leaving.add(self._sessions.pop(key))
            else:
                self._end(session)

    def _rest(self, session: _Session) -> None:
        """Nobody uses the session now."""
        loop = asyncio.get_running_loop()
        session.used_at = loop.time()
        session.closing = loop.call_later(self._idle_seconds, self._end, session)

    def _make_room(self) -> None:
        """Closes the session that nobody has used for longest, if there are too many.

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
