"""The MCP tools of a request: which may be called. This server executes the calls."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from constrained.prompt.tools.functions import FunctionTool
from grammars.schema.json_values import JsonObject
from server.errors import refuse
from server.turns.offered_tools import OfferedTools, ToolForm, check_tool_count


@dataclass(frozen=True)
class HostedTool:
    """A tool of an MCP server.

    Args:
        name: the name on its server.
        listed: the tool as its server lists it (`mcp.types.Tool`, as JSON).
        function: a function that calls the server; its name is the one that the model sees.
        needs_approval: the operator requires approval for its calls.
    """

    name: str
    listed: Mapping[str, Any]
    function: FunctionTool
    needs_approval: bool = False

    def to_json(self) -> JsonObject:
        """Returns the tool in the form of OpenAI's `mcp_list_tools`."""
        return {
            "name": self.name,
            "description": self.listed.get("description"),
            "input_schema": self.listed.get("inputSchema", {}),
            "annotations": self.listed.get("annotations"),
        }


@dataclass(frozen=True)
class ListedServer:
    """An MCP server and its tools.

    Args:
        label: the clients' name for it.
        tools: empty if the server cannot be reached.
        error: why the server cannot be reached; None: it can.
    """

    label: str
    tools: tuple[HostedTool, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class BorrowedServer:
    """An MCP server with a connection for one owner, which stays open until it is given back.

    Args:
        server: the server and its tools.
        give_back: gives it back; call it exactly once.
    """

    server: ListedServer
    give_back: Callable[[], None]


class McpServerPool(Protocol):
    """The MCP servers that the operator has configured; see `server.hosting.mcp.mcp_pool`."""

    @property
    def labels(self) -> Sequence[str]:
        """The clients' names for the servers."""
        ...

    def find_address(self, label: str) -> str | None:
        """Returns the address of a server; None: it runs as a command."""
        ...

    async def start(self) -> None:
        """Connects to all servers, so that errors show before the first request."""
        ...

    async def borrow(self, owner: str, label: str) -> BorrowedServer:
        """Returns a server, connected for this owner."""
        ...

    async def close(self) -> None:
        """Closes all connections, and ends the servers that were started."""
        ...


def _always(tool: HostedTool) -> bool:
    return True


@dataclass(frozen=True)
class RequestedServer:
    """How a request uses an MCP server.

    Args:
        label: the label of the server.
        pointer: the JSON pointer of this use in the request.
        allows: whether a tool may be called.
    """

    label: str
    pointer: str
    allows: Callable[[HostedTool], bool] = field(default=_always)


@dataclass(frozen=True)
class HostedOffer:
    """The tools of MCP servers in a request.

    Args:
        tools: the tools, as functions that can be called.
        listed: the servers that the request uses.
    """

    tools: OfferedTools = field(default_factory=OfferedTools)
    listed: tuple[ListedServer, ...] = ()

    def join(self, offered: OfferedTools, max_tools: int) -> OfferedTools:
        """Returns the tools of the client, followed by these tools.

        Args:
            max_tools: the limit for the number of all tools.

        Raises:
            HttpError: there are more.
        """
        functions = (*offered.functions, *self.tools.functions)
        if self.tools.places:
            pointer, _, _ = self.tools.places[0].rpartition("/")
            check_tool_count(len(functions), max_tools, where=pointer)
        places = (*offered.places, *self.tools.places)
        forms = {**offered.forms, **self.tools.forms}
        return replace(offered, functions=functions, places=places, forms=forms)


NO_HOSTED = HostedOffer()


def offer_tools(
    requested_servers: Iterable[RequestedServer],
    servers: Mapping[str, ListedServer],
    max_output: int,
) -> HostedOffer:
    """Returns the MCP tools of a request.

    Args:
        requested_servers: how the request uses the servers.
        servers: the servers, by label.
        max_output: how many characters of a result the model reads, at most.

    Raises:
        HttpError: the operator wants approval for a tool, for which no dialect has a form.
    """
    functions: list[FunctionTool] = []
    places: list[str] = []
    forms: dict[str, ToolForm] = {}
    listed: list[ListedServer] = []
    for requested in requested_servers:
        server = servers[requested.label]
        allowed = tuple(tool for tool in server.tools if requested.allows(tool))
        listed.append(replace(server, tools=allowed))
        for tool in allowed:
            if tool.needs_approval:
                message = (
                    f"the operator wants calls of {tool.name!r} to be approved, for which this "
                    "server cannot ask: leave the tool out"
                )
                raise refuse(message, requested.pointer, "approval_needed")
            functions.append(bound_output(tool.function, max_output))
            places.append(requested.pointer)
            forms[tool.function.name] = ToolForm(tool.name, server=requested.label)
    return HostedOffer(OfferedTools(tuple(functions), forms, places=tuple(places)), tuple(listed))


def bound_output(tool: FunctionTool, max_length: int) -> FunctionTool:
    """Returns the tool, with results of at most `max_length` characters; a note says how much is
    missing."""
    call = tool.function
    assert call is not None

    async def call_within(**arguments: Any) -> str:
        text = str(await call(**arguments))
        if len(text) <= max_length:
            return text
        return f"{text[:max_length]}\n[cut here: {max_length:,} of {len(text):,} characters]"

    return replace(tool, function=call_within)


def check_label(label: Any, pool: McpServerPool | None, pointer: str) -> str:
    """Returns the label if it names a configured server.

    Raises:
        HttpError: there is no server with this label.
    """
    if not isinstance(label, str) or not label:
        raise refuse("it names no MCP server", pointer)
    labels = () if pool is None else pool.labels
    if label not in labels:
        known = ", ".join(labels) or "none: start it with --mcp or --mcp-config"
        message = f"this server has no MCP server {label!r}. It has {known}"
        raise refuse(message, pointer, "unknown_mcp_server")
    return label


def check_address(url: Any, label: str, pool: McpServerPool | None, pointer: str) -> None:
    """Refuses an address that is not that of the configured server: only the operator decides what
    this server connects to. For a server that runs as a command, the address is `mcp:LABEL`.

    Raises:
        HttpError: it is another address.
    """
    address = None if pool is None else pool.find_address(label)
    known = [f"mcp:{label}", *([address] if address else [])]
    if url is not None and url not in known:
        message = (
            f"this server connects only to its own MCP servers: leave the address out, or write "
            f"{known[0]!r}"
        )
        raise refuse(message, pointer, "mcp_address_not_allowed")


def check_names(names: Any, pointer: str) -> frozenset[str] | None:
    """Reads a list of tool names; None: there is no list.

    Raises:
        HttpError: it is not a list of names.
    """
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise refuse("it must be a list of names of tools", pointer)
    return frozenset(names)


def check_requested_servers(requested_servers: Sequence[RequestedServer]) -> None:
    """Refuses a request that uses a server twice.

    Raises:
        HttpError: points to the second use.
    """
    seen: set[str] = set()
    for requested in requested_servers:
        if requested.label in seen:
            raise refuse(f"the MCP server {requested.label!r} is named twice", requested.pointer)
        seen.add(requested.label)
