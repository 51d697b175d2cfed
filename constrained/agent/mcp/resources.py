"""Resources and prompts of MCP servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.agent.mcp.connection import McpConnection
from constrained.agent.mcp.results import McpResult, describe
from constrained.agent.mcp.tool_list import McpError, list_pages


@dataclass(frozen=True)
class McpResource:
    """A resource of a server; `read_resource` reads it."""

    server: str
    uri: str
    name: str
    description: str = ""
    mime_type: str | None = None


@dataclass(frozen=True)
class McpPrompt:
    """A prompt of a server; `get_prompt` fills it in. `arguments` has True for each required
    argument, False for others."""

    server: str
    name: str
    description: str
    arguments: Mapping[str, bool]


async def list_resources(connections: Sequence[McpConnection]) -> list[McpResource]:
    """Returns the resources of all servers."""
    found: list[McpResource] = []
    for connection, one in await _list_all(connections, "resources"):
        about = one.description or ""
        found.append(McpResource(connection.name, str(one.uri), one.name, about, one.mime_type))
    return found


async def read_resource(
    connections: Sequence[McpConnection], uri: str, server: str | None
) -> McpResult:
    """Reads a resource; see `McpServers.read_resource`."""
    connection = await _find_owner(connections, "resources", uri, server)
    read = await connection.ask(uri, lambda client: client.read_resource(uri))
    return McpResult(read.contents)


async def list_prompts(connections: Sequence[McpConnection]) -> list[McpPrompt]:
    """Returns the prompts of all servers."""
    found: list[McpPrompt] = []
    for connection, prompt in await _list_all(connections, "prompts"):
        arguments = {one.name: bool(one.required) for one in prompt.arguments or ()}
        about = prompt.description or ""
        found.append(McpPrompt(connection.name, prompt.name, about, arguments))
    return found


async def get_prompt(
    connections: Sequence[McpConnection],
    name: str,
    arguments: Mapping[str, str] | None,
    server: str | None,
) -> list[dict[str, Any]]:
    """Fills a prompt in; see `McpServers.get_prompt`."""
    connection = await _find_owner(connections, "prompts", name, server)
    given = dict(arguments or {})
    filled = await connection.ask(name, lambda client: client.get_prompt(name, given))
    return [{"role": one.role, "content": describe(one.content)} for one in filled.messages]


async def _list_all(
    connections: Sequence[McpConnection], kind: str
) -> list[tuple[McpConnection, Any]]:
    """Lists all resources or prompts, each with its connection."""

    async def list_those(client: Any) -> list[Any]:
        if getattr(client.server_capabilities, kind) is None:
            return []
        return await list_pages(getattr(client, f"list_{kind}"), kind)

    found: list[tuple[McpConnection, Any]] = []
    for connection in connections:
        for entry in await connection.ask(f"list_{kind}", list_those):
            found.append((connection, entry))
    return found


async def _find_owner(
    connections: Sequence[McpConnection], kind: str, key: str, server: str | None
) -> McpConnection:
    """Finds the server of a resource or a prompt."""
    if server is not None:
        for connection in connections:
            if connection.name == server:
                return connection
        names = [connection.name for connection in connections]
        raise McpError(f"there is no MCP server {server!r}", hint=f"There are {names}")
    if len(connections) == 1:
        return connections[0]
    for connection, entry in await _list_all(connections, kind):
        if key in (str(getattr(entry, "uri", "")), entry.name):
            return connection
    hint = "Name the server"
    raise McpError(f"no MCP server lists {key!r} among its {kind}", hint=hint)
