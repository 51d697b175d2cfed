"""Connections to MCP servers whose tools a run uses."""

import asyncio
import hashlib
import operator
import re
from collections.abc import Callable, Container, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from mcp import types

from constrained.agent.mcp.connection import ConnectionSettings, McpConnection, McpError
from constrained.agent.mcp.results import McpResult
from constrained.agent.mcp.sources import Source, read_sources
from constrained.errors import RequestError
from constrained.prompt.tools.functions import FunctionTool
from constrained.remote.event_loop import EventLoopThread

MAX_NAME_LENGTH = 64  # characters of a tool's name, the limit of OpenAI and Anthropic


class McpOptions(TypedDict, total=False):
    """Options of `connect_mcp`.

    Attributes:
        namespace: call tools `server__tool`. Default: only if there are several servers.
        timeout: seconds until a call is given up and cancelled; None: no limit. Default: 60.
        connect_timeout: seconds until a server has to be ready. Default: 60.
    """

    namespace: bool | None
    timeout: float | None
    connect_timeout: float


def connect_mcp(*sources: Source, **options: Unpack[McpOptions]) -> "McpServers":
    """Connects to MCP servers: `with connect_mcp("npx -y ...") as servers:`, or `async with`.

    Args:
        sources: each is a command line (stdio), an address (streamable HTTP), the path or the
            content of an `mcp.json`, a `ServerCommand` or a `ServerAddress`. `NAME=` before a
            command line or an address names the server.
        options: see `McpOptions`.

    Returns:
        The servers. `model.run(messages, servers.tools)` uses their tools.

    Raises:
        RequestError: a source is invalid; entering raises `McpError` if a server cannot be reached.
    """
    return McpServers(sources, options)


class McpServers:
    """Connections to MCP servers; make them with `connect_mcp`.

    Args:
        sources: see `connect_mcp`.
        options: see `McpOptions`.

    Attributes:
        notes: about fields of an `mcp.json` that were left out.
    """

    def __init__(self, sources: Sequence[Source], options: McpOptions):
        read = read_sources(sources)
        self.notes = read.notes
        self._servers = read.servers
        self._settings = ConnectionSettings(
            timeout=options.get("timeout", 60),
            connect_timeout=options.get("connect_timeout", 60),
        )
        self._has_namespace = options.get("namespace")
        if self._has_namespace is None:
            self._has_namespace = len(self._servers) > 1
        self._loop: EventLoopThread | None = None
        self._connections: list[McpConnection] = []
        self._listed: list[list[types.Tool]] = []
        self._tools: list[FunctionTool] = []

    def __enter__(self) -> "McpServers":
        loop = self._start()
        try:
            loop.run(self._open())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> "McpServers":
        loop = self._start()
        try:
            await loop.arun(self._open())
        except BaseException:
            await asyncio.to_thread(self.close)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.close)

    def _start(self) -> EventLoopThread:
        if self._loop is not None:
            raise RequestError("the MCP servers are connected already", where="/mcp")
        self._loop = EventLoopThread("mcp")
        return self._loop

    def close(self) -> None:
        """Closes the connections, and ends the servers that were started; further calls do
        nothing."""
        if self._loop is not None:
            if not self._loop.is_closed:
                self._loop.run(self._close())
            self._loop.close()

    async def _open(self) -> None:
        self._connections = [McpConnection(one, self._settings) for one in self._servers]
        opened = await asyncio.gather(
            *[connection.open() for connection in self._connections], return_exceptions=True
        )
        for failure in opened:
            if failure is not None:
                raise failure
        names = [make_word(connection.name) for connection in self._connections]
        for number, name in enumerate(names):
            if self._has_namespace and name in names[:number]:
                hint = "Name them: NAME= in front of a command or an address"
                message = f"two MCP servers are called {name!r}"
                raise RequestError(message, where=f"/mcp/{number}", hint=hint)

    async def _close(self) -> None:
        await asyncio.gather(*[connection.close() for connection in self._connections])

    def _find_loop(self) -> EventLoopThread:
        if self._loop is None or self._loop.is_closed:
            hint = "Use: with connect_mcp(...) as servers:"
            raise McpError("the MCP servers are not connected", where="/mcp", hint=hint)
        return self._loop

    @property
    def names(self) -> list[str]:
        """The names of the servers."""
        return [connection.name for connection in self._connections]

    def tools(self) -> list[FunctionTool]:
        """Returns the current tools of all servers.

        If `model.run` gets this function (`servers.tools`), it calls it before each turn, so the
        next turn has the tools that a server adds. Calls of read-only tools (`readOnlyHint`) start
        early.
        """
        self._find_loop()
        listed = [connection.tools for connection in self._connections]
        # A connection has a new list after each change.
        is_known = len(listed) == len(self._listed) and all(map(operator.is_, listed, self._listed))
        if not is_known:
            self._listed = listed
            self._tools = self._make_tools()
        return list(self._tools)

    def _make_tools(self) -> list[FunctionTool]:
        origins: list[tuple[str | None, str]] = []
        made: list[FunctionTool] = []
        for connection, tools in zip(self._connections, self._listed, strict=True):
            for tool in tools:
                made.append(FunctionTool.from_mcp(tool, self._make_call(connection, tool.name)))
                origins.append((connection.name if self._has_namespace else None, tool.name))
        names = name_tools(origins)
        return [replace(tool, name=name) for tool, name in zip(made, names, strict=True)]

    def _make_call(self, connection: McpConnection, tool: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> McpResult:
            return await self._find_loop().arun(connection.call(tool, arguments))

        return call


def name_tools(tools: Sequence[tuple[str | None, str]]) -> list[str]:
    """Returns a unique name for each tool, of letters, digits and `_`, such as `server__tool`.

    Args:
        tools: the names of server and tool, in order; None: without a server.
    """
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for server, tool in tools:
        name = make_word(tool)
        if server is not None:
            name = f"{make_word(server)}__{name}"
        if len(name) > MAX_NAME_LENGTH:
            name = f"{name[: MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        names[_make_unique(name, names, numbers)] = None
    return list(names)


def make_word(name: str) -> str:
    """Converts a name to letters, digits and `_`, without a digit at the beginning."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word


def _make_unique(name: str, taken: Container[str], numbers: MutableMapping[str, int]) -> str:
    """Adds a number to a name that is taken. `numbers` has the last number for each name, since a
    server may list thousands of tools with one name."""
    unique = name
    beginning = name[: MAX_NAME_LENGTH - 4]
    while unique in taken:
        number = numbers[beginning] = numbers.get(beginning, 1) + 1
        ending = f"_{number}"
        unique = f"{beginning[: MAX_NAME_LENGTH - len(ending)]}{ending}"
    return unique
