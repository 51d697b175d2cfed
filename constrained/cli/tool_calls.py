"""Tools whose calls a command executes: the options that name MCP servers, the connections to them,
and the consent of the user."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from constrained.cli.terminal.output import escape_controls, print_notes
from constrained.cli.terminal.show import describe_call
from constrained.errors import RequestError
from grammars.turn import ToolCall

if TYPE_CHECKING:
    from constrained.agent.mcp.server import McpServer
    from constrained.agent.mcp.servers import McpServers
    from constrained.prompt.tools.execution import CallResult

Read: TypeAlias = Callable[[str], str]
"""Shows a prompt, and returns the typed line."""
YES = ("y", "yes")
NO = ("", "n", "no")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of a command that calls tools of MCP servers."""
    add = parser.add_argument_group("MCP servers").add_argument
    help = "an MCP server: a command line or an address; may be repeated"
    add("--mcp", metavar="[NAME=]SERVER", action="append", default=[], help=help)
    help = "list of servers, in Claude Desktop's or VS Code's form (mcp.json); may be repeated"
    add("--mcp-config", metavar="FILE", action="append", default=[], help=help)
    help = "maximum seconds for a call; default: 60"
    add("--mcp-timeout", metavar="SECONDS", type=float, default=60, help=help)
    help = "execute calls without asking, even if they may change something"
    add("--yes", action="store_true", help=help)


def has_servers(options: argparse.Namespace) -> bool:
    """Returns whether the options name a server."""
    return bool(options.mcp or options.mcp_config)


def connect(options: argparse.Namespace) -> "AbstractContextManager[McpServers | None]":
    """Returns the servers that the options name, as a context manager; None: there are none."""
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


class CallExecutor:
    """Executes calls, one after the other.

    Args:
        read: asks the user before calls that may change something; None: there is no user, so they
            are declined.
        approve_all: execute all calls without asking.
    """

    def __init__(self, read: Read | None, *, approve_all: bool):
        self._read = read
        self._approve_all = approve_all

    def execute(self, call: ToolCall, tools: Sequence[Any]) -> "CallResult":
        """Returns the result of a call, or that it is declined; Ctrl-C cancels it."""
        import asyncio  # slow to import, and most commands do without

        from constrained.agent.actions import aexecute_call
        from constrained.prompt.tools.execution import decline
        from constrained.prompt.tools.functions import find_tool

        tool = find_tool(call.name, tools)
        is_free = self._approve_all or (tool is not None and tool.read_only)
        if not is_free and (verdict := self._approve(call)) is not True:
            return decline(call, verdict)
        return asyncio.run(aexecute_call(call, tools))

    def _approve(self, call: ToolCall) -> bool | str:
        if self._read is None:
            return "it may change something, and nobody can be asked"
        shown = escape_controls(describe_call(call))
        line = self._read(f"run {shown}? y/N, or why not: ").strip()
        if line.lower() in YES:
            return True
        return False if line.lower() in NO else line
