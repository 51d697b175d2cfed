"""The options that name MCP servers, and the connections to them."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from constrained.errors import RequestError
from constrained.terminal.output import print_notes

if TYPE_CHECKING:
    from constrained.mcp.elicitation import Elicit
    from constrained.mcp.servers import McpServers


def add_options(parser: argparse.ArgumentParser, *, approve: bool = True) -> None:
    """Declares the options of a command that calls tools of MCP servers.

    Args:
        parser: of the command.
        approve: the user is asked about calls, and may allow all of them at once.
    """
    add = parser.add_argument_group("MCP servers").add_argument
    help = "an MCP server, a command line or an address; may be given several times"
    add("--mcp", metavar="[NAME=]SERVER", action="append", default=[], help=help)
    help = "servers as Claude Desktop or VS Code have them (mcp.json); may be given several times"
    add("--mcp-config", metavar="FILE", action="append", default=[], help=help)
    help = "seconds until a call is given up; default: 60"
    add("--mcp-timeout", metavar="SECONDS", type=float, default=60, help=help)
    if approve:
        help = "carry out calls of MCP servers without asking, also those that change something"
        add("--yes", action="store_true", help=help)


def has_servers(options: argparse.Namespace) -> bool:
    """True if the options name a server."""
    return bool(options.mcp or options.mcp_config)


def connect(
    options: argparse.Namespace, elicit: "Elicit | None" = None
) -> "AbstractContextManager[McpServers | None]":
    """The servers that the options name, to be entered; None where they name none.

    Raises:
        RequestError: one is none, or the package `mcp` is not installed.
    """
    if not has_servers(options):
        return nullcontext()
    try:
        from constrained.mcp.config_file import read_config_file
        from constrained.mcp.servers import connect_mcp
    except ModuleNotFoundError as e:
        raise RequestError(str(e), where="/mcp") from e
    sources = list(options.mcp)
    for path in options.mcp_config:
        read = read_config_file(path)
        print_notes(read.notes)
        sources += read.servers
    return connect_mcp(*sources, elicit=elicit, timeout=options.mcp_timeout)
