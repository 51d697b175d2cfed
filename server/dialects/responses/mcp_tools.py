"""Responses: tools of type `mcp`, in OpenAI's form. They name servers that the operator has
configured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from server.dialects.common.hosted_tools import (
    HostedTool,
    McpServerPool,
    RequestedServer,
    check_address,
    check_label,
    check_names,
    check_requested_servers,
)
from server.errors import refuse

MCP = "mcp"
"""The type of the tools."""
_OPERATORS = ("connector_id", "tunnel_id", "authorization", "headers")
"""Fields with the address of a server, which only the operator may set."""
Matches = Callable[[HostedTool], bool]


def read_requested_servers(
    tools: Sequence[Mapping[str, Any]], pool: McpServerPool | None
) -> tuple[RequestedServer, ...]:
    """Reads which tools of MCP servers a request asks for.

    Args:
        pool: the servers that the operator has configured; None: there are none.

    Raises:
        HttpError: there is no such server, or a field is invalid; says where.
    """
    requested_servers: list[RequestedServer] = []
    for number, tool in enumerate(tools):
        if tool.get("type") == MCP:
            requested_servers.append(_read_requested_server(tool, f"/tools/{number}", pool))
    check_requested_servers(requested_servers)
    return tuple(requested_servers)


def _read_requested_server(
    tool: Mapping[str, Any], where: str, pool: McpServerPool | None
) -> RequestedServer:
    label = check_label(tool.get("server_label"), pool, f"{where}/server_label")
    check_address(tool.get("server_url"), label, pool, f"{where}/server_url")
    for name in _OPERATORS:
        if tool.get(name):
            message = "the operator says how MCP servers are reached (mcp.json): leave it out"
            raise refuse(message, f"{where}/{name}", "unsupported_field")
    if tool.get("require_approval") != "never":  # without the field, it is "always"
        message = (
            'this server carries calls out without asking: write "require_approval": "never", or '
            "offer functions that your own program executes"
        )
        raise refuse(message, f"{where}/require_approval", "approval_needed")
    allows = _read_filter(tool.get("allowed_tools"), f"{where}/allowed_tools")
    return RequestedServer(label, where, allows=allows)


def _read_filter(given: Any, where: str) -> Matches:
    """Returns which tools a filter matches: a list of names, or an object."""
    if given is None:
        return lambda _: True
    if isinstance(given, list):
        given = {"tool_names": given}
    if not isinstance(given, Mapping):
        raise refuse("it must be a list of names, or an object with tool_names or read_only", where)
    names = check_names(given.get("tool_names"), f"{where}/tool_names")
    read_only = given.get("read_only")
    if read_only is not None and not isinstance(read_only, bool):
        raise refuse("it must be a boolean", f"{where}/read_only")

    def matches(tool: HostedTool) -> bool:
        if names is not None and tool.name not in names:
            return False
        return read_only is None or tool.function.read_only is read_only

    return matches


def list_servers(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the labels of the servers whose tools a conversation lists already."""
    for item in items:
        if item["type"] == "mcp_list_tools":
            yield item["server_label"]
