"""MCP servers: how each is reached."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True)
class ServerCommand:
    """A server that is started as a command, and spoken to over its stdin and stdout.

    Args:
        command: the program.
        args: its arguments.
        env: its variables, beside PATH, HOME and the like: it gets no others of this process.
        cwd: the folder it runs in. Default: that of this process.
        name: default: what the server calls itself.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.name or shlex.join([self.command, *self.args])


class HttpTransport(StrEnum):
    """How a server is spoken to over HTTP.

    Attributes:
        ANY: streamable HTTP, or SSE if the server does not know it.
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
        name: default: what the server calls itself.
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
    """Servers, and notes about what was left out of their files."""

    servers: tuple[McpServer, ...]
    notes: tuple[str, ...] = ()
