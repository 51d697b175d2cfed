"""Messages: `mcp_servers` and tools of type `mcp_toolset`, as Anthropic's beta describes them. They
name servers of the operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

TOOLSET = "mcp_toolset"
"""The type of the tools."""


@dataclass(frozen=True)
class _Toolset:
    """The options of a request for the tools of a server.

    Args:
        default: the options of all other tools.
        configs: of single ones, by name.
    """

    default: Mapping[str, Any]
    configs: Mapping[str, Mapping[str, Any]]

    def enables(self, tool: HostedTool) -> bool:
        """Returns whether a tool may be called."""
        given = self.configs.get(tool.name, {}).get("enabled", self.default.get("enabled"))
        return True if given is None else given


def read_requested_servers(
    servers: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    pool: McpServerPool | None,
) -> tuple[RequestedServer, ...]:
    """Reads what a request wants of MCP servers.

    Args:
        servers: `mcp_servers` of the request.
        tools: of the request.
        pool: the servers that the operator has configured; None: none.

    Raises:
        HttpError: there is no such server, or a field is invalid; with its JSON pointer.
    """
    names = [server.get("name") for server in servers]
    toolsets: dict[str, _Toolset] = {}
    for number, tool in enumerate(tools):
        if tool.get("type") != TOOLSET:
            continue
        where = f"/tools/{number}"
        name = tool.get("mcp_server_name")
        if not isinstance(name, str) or name not in names or name in toolsets:
            message = "it has to name one of mcp_servers, and no other toolset may name it"
            raise refuse(message, f"{where}/mcp_server_name")
        toolsets[name] = _read_toolset(tool, where)
    requested_servers: list[RequestedServer] = []
    for number, server in enumerate(servers):
        requested_servers.append(
            _read_requested_server(server, f"/mcp_servers/{number}", toolsets, pool)
        )
    check_requested_servers(requested_servers)
    return tuple(requested_servers)


def _read_requested_server(
    server: Mapping[str, Any],
    where: str,
    toolsets: Mapping[str, _Toolset],
    pool: McpServerPool | None,
) -> RequestedServer:
    if server.get("type", "url") != "url":
        raise refuse('it must be "url"', f"{where}/type")
    label = check_label(server.get("name"), pool, f"{where}/name")
    check_address(server.get("url"), label, pool, f"{where}/url")
    if server.get("authorization_token"):
        message = "the operator sets how MCP servers are reached (mcp.json): leave it out"
        where = f"{where}/authorization_token"
        raise refuse(message, where, "unsupported_field")
    given = server.get("tool_configuration") or {}
    configuration = _read_fields(given, ("enabled",), f"{where}/tool_configuration")
    names = configuration.get("allowed_tools")
    allowed = check_names(names, f"{where}/tool_configuration/allowed_tools")
    toolset = toolsets.get(label, _Toolset({}, {}))

    def allows(tool: HostedTool) -> bool:
        if configuration.get("enabled") is False:
            return False
        if allowed is not None and tool.name not in allowed:
            return False
        return toolset.enables(tool)

    return RequestedServer(label, where, allows=allows)


def _read_toolset(tool: Mapping[str, Any], where: str) -> _Toolset:
    if tool.get("tools") is not None:
        message = "the tools are those that the server lists: leave it out"
        raise refuse(message, f"{where}/tools", "unsupported_field")
    fields = ("enabled", "defer_loading")
    default = _read_fields(tool.get("default_config") or {}, fields, f"{where}/default_config")
    given = tool.get("configs") or {}
    if not isinstance(given, Mapping):
        raise refuse("it must be an object, by the names of tools", f"{where}/configs")
    configs: dict[str, Mapping[str, Any]] = {}
    for name, config in given.items():
        configs[name] = _read_fields(config, fields, f"{where}/configs/{name}")
    return _Toolset(default, configs)


def _read_fields(given: Any, booleans: Sequence[str], where: str) -> Mapping[str, Any]:
    """Checks an object with some boolean fields."""
    if not isinstance(given, Mapping):
        raise refuse("it must be an object", where)
    for name in booleans:
        if given.get(name) is not None and not isinstance(given[name], bool):
            raise refuse("it must be a boolean", f"{where}/{name}")
    return given
