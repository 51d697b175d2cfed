"""Tools of MCP servers as a request wants them: which may be called, which of these run at once,
and which wait for the client's approval."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from constrained.tools.functions import FunctionTool
from server.errors import HttpError
from server.turns.offered_tools import OfferedTools, ToolForm, check_tool_count

Json = dict[str, Any]


@dataclass(frozen=True)
class HostedTool:
    """A tool of an MCP server.

    Args:
        name: that the server calls it by.
        listed: the tool as the server lists it (`mcp.types.Tool`, as JSON).
        function: the same as a function that calls the server, under the name that the model sees.
        needs_approval: the operator has clients approve its calls.
    """

    name: str
    listed: Mapping[str, Any]
    function: FunctionTool
    needs_approval: bool = False

    def to_json(self) -> Json:
        """The tool as OpenAI's `mcp_list_tools` has it."""
        return {
            "name": self.name,
            "description": self.listed.get("description"),
            "input_schema": self.listed.get("inputSchema", {}),
            "annotations": self.listed.get("annotations"),
        }


@dataclass(frozen=True)
class ListedServer:
    """An MCP server, and what it lists.

    Args:
        label: what clients call it.
        tools: none where it cannot be reached.
        error: why it cannot be reached; None: it can.
    """

    label: str
    tools: tuple[HostedTool, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class BorrowedServer:
    """An MCP server, connected for an owner, and not closed before it is given back.

    Args:
        server: as it is.
        give_back: what it was borrowed for is done; to be called once.
    """

    server: ListedServer
    give_back: Callable[[], None]


class McpServerPool(Protocol):
    """The MCP servers that the operator has configured; see `server.mcp.mcp_pool`."""

    @property
    def labels(self) -> Sequence[str]:
        """What clients call them."""
        ...

    def find_address(self, label: str) -> str | None:
        """The address of a server; None: it is a command."""
        ...

    async def start(self) -> None:
        """Connects to all of them, so that what is wrong shows before anybody asks."""
        ...

    async def borrow(self, owner: str, label: str) -> BorrowedServer:
        """A server, connected for this owner."""
        ...

    async def close(self) -> None:
        """Ends all connections, and the servers that were started."""
        ...


def _always(tool: HostedTool) -> bool:
    return True


def _never(tool: HostedTool) -> bool:
    return False


@dataclass(frozen=True)
class ServerWish:
    """What a request wants of an MCP server.

    Args:
        label: which one.
        where: the place in the request.
        allows: whether a tool may be called.
        asks: whether the client is asked before a call of a tool is carried out.
        can_ask: the dialect has a form for that.
        defers: whether a tool is left to a search.
    """

    label: str
    where: str
    allows: Callable[[HostedTool], bool] = field(default=_always)
    asks: Callable[[HostedTool], bool] = field(default=_never)
    can_ask: bool = False
    defers: Callable[[HostedTool], bool] = field(default=_never)


@dataclass(frozen=True)
class HostedOffer:
    """The tools of MCP servers that a request offers.

    Args:
        functions: by the names that the model sees; all of them can be called.
        forms: by the same names, how the client knows them.
        places: by the same names, the places in the request.
        deferred: the names of those that are left to a search.
        listed: the servers that the request wants, as they are.
    """

    functions: Mapping[str, FunctionTool] = field(default_factory=dict[str, FunctionTool])
    forms: Mapping[str, ToolForm] = field(default_factory=dict[str, ToolForm])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    deferred: frozenset[str] = frozenset()
    listed: tuple[ListedServer, ...] = ()

    def join(self, offered: OfferedTools, max_tools: int) -> OfferedTools:
        """The tools of the client, and behind them these. What waits for approval has no function:
        its calls are left to the client.

        Args:
            max_tools: so many tools may there be, all together.

        Raises:
            HttpError: there are more.
        """
        if self.places:
            where, _, _ = next(iter(self.places.values())).rpartition("/")
            check_tool_count(len(offered.functions) + len(self.functions), max_tools, where=where)
        functions: list[FunctionTool] = []
        for name, function in self.functions.items():
            runs = self.forms[name].runs_here
            functions.append(function if runs else replace(function, function=None))
        return replace(
            offered,
            functions=(*offered.functions, *functions),
            places=(*offered.places, *self.places.values()),
            forms={**offered.forms, **self.forms},
        )

    def find(self, label: str, name: str) -> FunctionTool | None:
        """The function of a tool as its server calls it; None: it is not offered."""
        for function, form in self.forms.items():
            if (form.server, form.name) == (label, name):
                return self.functions[function]
        return None


NO_HOSTED = HostedOffer()


def offer_tools(
    wishes: Iterable[ServerWish], servers: Mapping[str, ListedServer], max_output: int
) -> HostedOffer:
    """The tools that a request wants.

    Args:
        wishes: of the request.
        servers: those that it names, by their labels.
        max_output: characters of a result that the model reads.

    Raises:
        HttpError: a call has to be approved, and the dialect has no form for that.
    """
    functions: dict[str, FunctionTool] = {}
    forms: dict[str, ToolForm] = {}
    places: dict[str, str] = {}
    deferred: set[str] = set()
    listed: list[ListedServer] = []
    for wish in wishes:
        server = servers[wish.label]
        allowed = tuple(tool for tool in server.tools if wish.allows(tool))
        listed.append(replace(server, tools=allowed))
        for tool in allowed:
            if tool.needs_approval and not wish.can_ask:
                message = (
                    f"calls of {tool.name!r} have to be approved here, for which this API has no "
                    "form: leave the tool out, or ask /v1/responses"
                )
                raise HttpError(400, message, "approval_needed", where=wish.where)
            waits = tool.needs_approval or wish.asks(tool)
            name = tool.function.name
            functions[name] = bound_output(tool.function, max_output)
            forms[name] = ToolForm(tool.name, server=wish.label, runs_here=not waits)
            places[name] = wish.where
            if wish.defers(tool):
                deferred.add(name)
    return HostedOffer(functions, forms, places, frozenset(deferred), tuple(listed))


def bound_output(tool: FunctionTool, max_length: int) -> FunctionTool:
    """The tool with results of so many characters at most; a note says what is missing."""
    call = tool.function
    assert call is not None

    async def call_within(**arguments: Any) -> str:
        text = str(await call(**arguments))
        if len(text) <= max_length:
            return text
        return f"{text[:max_length]}\n[cut here: {max_length:,} of {len(text):,} characters]"

    return replace(tool, function=call_within)


def check_label(label: Any, pool: McpServerPool | None, where: str) -> str:
    """The label of a server that the operator has configured.

    Raises:
        HttpError: there is none of that label.
    """
    if not isinstance(label, str) or not label:
        raise HttpError(400, "it names no MCP server", "invalid_value", where=where)
    labels = () if pool is None else pool.labels
    if label not in labels:
        known = ", ".join(labels) or "none: start it with --mcp or --mcp-config"
        message = f"this server has no MCP server {label!r}. It has {known}"
        raise HttpError(400, message, "unknown_mcp_server", where=where)
    return label


def check_address(url: Any, label: str, pool: McpServerPool | None, where: str) -> None:
    """Refuses an address that is not the one of the configured server: nobody but the operator says
    what this server connects to. A command has none: `mcp:LABEL` stands for it.

    Raises:
        HttpError: it is another one.
    """
    address = None if pool is None else pool.find_address(label)
    known = [f"mcp:{label}", *([address] if address else [])]
    if url is not None and url not in known:
        message = (
            f"this server connects to its own MCP servers alone: leave the address out, or write "
            f"{known[0]!r}"
        )
        raise HttpError(400, message, "mcp_address_not_allowed", where=where)


def check_names(names: Any, where: str) -> frozenset[str] | None:
    """A list of names of tools; None: there is none.

    Raises:
        HttpError: it is no such list.
    """
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        message = "it has to be a list of names of tools"
        raise HttpError(400, message, "invalid_value", where=where)
    return frozenset(names)


def check_wishes(wishes: Sequence[ServerWish]) -> None:
    """Refuses a server that is named twice.

    Raises:
        HttpError: says where the second time is.
    """
    seen: set[str] = set()
    for wish in wishes:
        if wish.label in seen:
            message = f"the MCP server {wish.label!r} is named twice"
            raise HttpError(400, message, "invalid_value", where=wish.where)
        seen.add(wish.label)
