"""A connection to one MCP server, which is opened again if the server has ended."""

import asyncio
import logging
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
from mcp import Client, MCPError, types

from constrained.agent.mcp.results import McpResult
from constrained.agent.mcp.server import McpServer, ServerCommand
from constrained.agent.mcp.tool_list import NO_ANSWER, McpError, ToolList, shorten
from constrained.agent.mcp.transports import Transport, list_transports
from constrained.agent.mcp.watched_transport import watch
from constrained.errors import RequestError

LOG = logging.getLogger(__name__)
MAX_NAME_LENGTH = 200  # characters of a server's own name
MAX_LOG_LENGTH = 500  # characters of a server's log, in our message
PATIENCE = 5.0  # seconds to wait for the cause of an end, before it is reported without


@dataclass(frozen=True)
class ConnectionSettings:
    """Settings for connections to servers.

    Args:
        timeout: seconds before a call is given up. None: no limit.
        connect_timeout: the maximum number of seconds until a server is ready, and for each new
            list of its tools.
    """

    timeout: float | None = 60
    connect_timeout: float = 60

    def __post_init__(self) -> None:
        for name in ("timeout", "connect_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise RequestError(f"{name} is {seconds}, must be above 0", where=f"/{name}")


class McpConnection:
    """A connection to a server. All of it runs in one event loop."""

    def __init__(self, server: McpServer, settings: ConnectionSettings):
        self._server = server
        self._settings = settings
        self._name: str | None = server.name
        self._client: Client | None = None
        self._keeper: asyncio.Task[Exception | None] | None = None
        self._end = asyncio.Event()
        self._lock = asyncio.Lock()
        self._may_reopen = True
        self._tools = ToolList(lambda: self.name, settings.connect_timeout)

    @property
    def tools(self) -> list[types.Tool]:
        """The tools of the server; a new list after each change."""
        return self._tools.tools

    @property
    def name(self) -> str:
        """The name of the server: the given one, or else the server's own."""
        return self._name or str(self._server)

    async def open(self) -> None:
        """Starts the server, or connects to it."""
        ready = asyncio.get_running_loop().create_future()
        self._end = end = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(ready, end))
        try:
            client = await ready
        except asyncio.CancelledError:
            self._keeper.cancel()
            raise
        if end.is_set():
            raise McpError(f"the MCP server {self.name} has ended at once")
        self._client = client

    async def close(self) -> None:
        """Ends the connection, and a server that was started."""
        self._client = None
        self._end.set()
        self._tools.leave()
        if self._keeper is not None:
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _keep(self, ready: "asyncio.Future[Client]", end: asyncio.Event) -> Exception | None:
        """Holds the connection open, and returns why it failed. The package requires that the task
        which opens it also closes it."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            try:
                async with asyncio.timeout(None) as closing, AsyncExitStack() as stack:
                    async with asyncio.timeout(self._settings.connect_timeout):
                        client = await self._connect(stack, log, end)
                    ready.set_result(client)
                    watching = asyncio.create_task(self._tools.follow(client))
                    try:
                        await end.wait()
                    finally:
                        watching.cancel()
                        # Over HTTP, the server gets a request about the end and may never answer.
                        # The package itself limits the time for the end of a command, and would
                        # leave its process running if this was cancelled.
                        if not isinstance(self._server, ServerCommand):
                            now = asyncio.get_running_loop().time()
                            closing.reschedule(now + self._settings.connect_timeout)
            except Exception as e:  # of the package, in groups of any kind; `open` raises it
                if not ready.done():
                    ready.set_exception(self._explain_start(e, _read_end(log)))
                else:
                    LOG.debug("the connection to %s has ended: %r", self.name, e)
                return e
            finally:
                if not ready.done():
                    ready.cancel()
            return None

    async def _connect(self, stack: AsyncExitStack, log: IO[str], end: asyncio.Event) -> Client:
        """Opens a client by the first transport that the server supports."""
        first: Exception | None = None
        for transport in list_transports(self._server, log, self._settings.connect_timeout):
            try:
                return await self._open_client(stack, transport, end)
            except Exception as failure:  # in groups of any kind; the cause decides
                # As in MCP's specification: a server of 2024 refuses the request. The first failure
                # is what the user is told.
                first = first or failure
                if not isinstance(_find_cause(failure), MCPError | httpx2.HTTPStatusError):
                    break
        assert first is not None
        raise first

    async def _open_client(
        self, stack: AsyncExitStack, transport: Transport, end: asyncio.Event
    ) -> Client:
        """Yields a client that is ready; when its connection ends, sets `end`, unless it never was
        ready."""
        state = _ClientState()

        def leave() -> None:
            state.has_ended = True
            if state.is_ready:
                self._leave(end)

        client = Client(
            watch(transport, leave, self._tools.note_faults),
            message_handler=self._tools.take_message,
            cache=None,
        )
        async with AsyncExitStack() as attempt:
            await attempt.enter_async_context(client)
            if self._name is None and client.server_info is not None:
                self._name = client.server_info.name[:MAX_NAME_LENGTH]
            await self._tools.read(client)
            stack.push_async_exit(attempt.pop_all())
        state.is_ready = True
        if state.has_ended:
            self._leave(end)
        return client

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> McpResult:
        """Calls a tool; cancelling this also cancels the request at the server. If the server has
        ended, it is restarted once.

        Raises:
            McpError: the tool reports an error, or the server refuses the call, ends, or does not
                answer in time.
        """
        client = await self._find_client()
        end, keeper = self._end, self._keeper
        deadline = asyncio.timeout(self._settings.timeout)
        try:
            async with deadline:
                result = await client.call_tool(tool, dict(arguments))
                read = McpResult(result.content, result.structured_content)
        except TimeoutError as e:
            if not deadline.expired():
                raise
            message = f"{tool} took longer than {self._settings.timeout:g} s, and was cancelled"
            raise McpError(message) from e
        except MCPError as e:
            # The code is not enough, because a server may use it for other errors. Over HTTP, it
            # may also mean a lost request.
            is_command = isinstance(self._server, ServerCommand)
            if e.code == types.CONNECTION_CLOSED and (end.is_set() or not is_command):
                self._leave(end)
                failure = await self._find_failure(keeper)
                raise self._explain_end(tool, failure or e) from e
            raise McpError(f"{self.name}: {shorten(e.message)}") from e
        except NO_ANSWER as e:
            message = f"{self.name} has answered {tool} with what is no answer: {shorten(str(e))}"
            raise McpError(message) from e
        self._may_reopen = True
        if result.is_error:
            raise McpError(read.text or f"{tool} failed, and does not say why")
        return read

    async def _find_client(self) -> Client:
        async with self._lock:
            if self._client is not None:
                return self._client
            if self._keeper is None:
                raise McpError(f"the MCP server {self.name} is closed")
            if not self._may_reopen:
                message = f"the MCP server {self.name} has ended again, and is not started any more"
                raise McpError(message)
            await self.open()
            self._may_reopen = False
            assert self._client is not None
            return self._client

    def _leave(self, end: asyncio.Event) -> None:
        """Notes that the connection of this event has ended, during a request or between two."""
        end.set()
        if self._end is end:
            self._client = None
            self._tools.leave()

    async def _find_failure(
        self, keeper: asyncio.Task[Exception | None] | None
    ) -> Exception | None:
        """Returns why a connection has failed. Over HTTP, the package raises the cause only when
        the connection is closed."""
        if keeper is None or isinstance(self._server, ServerCommand):
            return None
        await asyncio.wait({keeper}, timeout=PATIENCE)
        if not keeper.done() or keeper.cancelled():
            return None
        return keeper.result()

    def _explain_end(self, what: str, failure: Exception) -> McpError:
        message = f"the MCP server {self.name} has ended during {what}; whether that had an effect"
        cause = shorten(str(_find_cause(failure)))
        why = f" ({cause})" if cause else ""
        more = ". The next call starts it again" if self._may_reopen else ""
        return McpError(f"{message} is not known{why}{more}")

    def _explain_start(self, error: Exception, printed: str) -> McpError:
        cause = _find_cause(error)
        text = shorten(str(cause)) or type(cause).__name__
        if isinstance(cause, TimeoutError):
            text = f"it was not ready within {self._settings.connect_timeout:g} s"
        elif isinstance(cause, FileNotFoundError) and isinstance(self._server, ServerCommand):
            text = f"there is no command {self._server.command!r}. {_suggest(self._server.command)}"
        if printed:
            text += f". It has printed: {printed}"
        return McpError(f"the MCP server {self.name} cannot be reached: {text}")


@dataclass
class _ClientState:
    """Whether a client is ready, and whether its connection has ended."""

    is_ready: bool = False
    has_ended: bool = False


def _suggest(command: str) -> str:
    """Says what to do if there is no program of this name."""
    if " " in command:
        return "Only the program is its `command`; the words after it are `args`"
    if Path(command).is_file():
        return f"It is a file: write the program that runs it in front, such as python {command}"
    return "Install it, or write its whole path"


def _find_cause(error: BaseException) -> BaseException:
    """Returns the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _read_end(log: IO[str]) -> str:
    """Returns the end of a command's output."""
    with suppress(OSError, ValueError):
        log.seek(0)
        return log.read().strip()[-MAX_LOG_LENGTH:]
    return ""
