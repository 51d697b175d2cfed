"""The options that name MCP servers, and the connections to them."""

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from constrained.cli.terminal.output import print_notes
from constrained.errors import RequestError

if TYPE_CHECKING:
    from constrained.agent.mcp.server import McpServer
    from constrained.agent.mcp.servers import McpServers


def add_options(parser: argparse.ArgumentParser, *, approve: bool = True) -> None:
    """Declares the options of a command that calls tools of MCP servers.

    Args:
        parser: of the command.
        approve: add an option to allow all calls without questions.
    """
    add = parser.add_argument_group("MCP servers").add_argument
    help = "an MCP server: a command line or an address; may be repeated"
    add("--mcp", metavar="[NAME=]SERVER", action="append", default=[], help=help)
    help = "list of servers, in Claude Desktop's or VS Code's form (mcp.json); may be repeated"
    add("--mcp-config", metavar="FILE", action="append", default=[], help=help)
    help = "maximum seconds for a call; default: 60"
    add("--mcp-timeout", metavar="SECONDS", type=float, default=60, help=help)
    if approve:
        help = "execute calls without asking, even if they may change something"
        add("--yes", action="store_true", help=help)


def has_servers(options: argparse.Namespace) -> bool:
    """Returns whether the options name a server."""
    return bool(options.mcp or options.mcp_config)


def connect(options: argparse.Namespace) -> "AbstractContextManager[McpServers | None]":
    """Returns the servers that the options name, as a context manager; None: there are none.

    Raises:
        RequestError: a source is invalid, or the package `mcp` is not installed.
    """
    if not has_servers(options):
        return nullcontext()
    servers = read_servers(options)
    from constrained.agent.mcp.servers import connect_mcp

    return connect_mcp(*servers, timeout=options.mcp_timeout)


def read_servers(options: argparse.Namespace) -> "Sequence[McpServer]":
    """Returns the commands or addresses of the servers that the options name.

    Raises:
        RequestError: a source is invalid, or the package `mcp` is not installed.
    """
    try:
        from constrained.agent.mcp.sources import read_sources
    except ModuleNotFoundError as e:
        raise RequestError(str(e), where="/mcp") from e
    read = read_sources([*options.mcp, *map(Path, options.mcp_config)])
    print_notes(read.notes)
    return read.servers
