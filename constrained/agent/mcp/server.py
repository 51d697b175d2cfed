"""MCP servers, given by a command or by an address."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True)
class ServerCommand:
    """A server that is started as a command, and uses stdin and stdout.

    Args:
        command: the program.
        args: its arguments.
        env: its environment variables, besides PATH, HOME and the like; others are not passed on.
        cwd: its working directory. Default: that of this process.
        name: of the server. Default: the server's own name.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.name or shlex.join([self.command, *self.args])


class HttpTransport(StrEnum):
    """The HTTP transport of a server.

    Attributes:
        ANY: streamable HTTP, or SSE if the server does not support it.
        STREAMABLE: streamable HTTP.
        SSE: the transport of 2024: a stream of events, and an address to post to.
    """

    ANY = "any"
    STREAMABLE = "http"
    SSE = "sse"


@dataclass(frozen=True)
class ServerAddress:
    """A server that listens at an address.

    Args:
        url: the address.
        headers: sent with each request.
        name: of the server. Default: the server's own name.
        transport: see `HttpTransport`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str | None = None
    transport: HttpTransport = HttpTransport.ANY

    def __str__(self) -> str:
        return self.name or self.url


McpServer: TypeAlias = ServerCommand | ServerAddress


@dataclass(frozen=True)
class McpSources:
    """Servers, and notes about fields that were left out of their files."""

    servers: tuple[McpServer, ...]
    notes: tuple[str, ...] = ()
