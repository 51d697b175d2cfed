"""Requests that may use MCP servers of the operator: connects to these, for the API key of the
request, until its answer is complete; and starts the request, whose calls this server may execute.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from fastapi import Request
from pydantic import BaseModel

from server.dialects.common.hosted_tools import (
    NO_HOSTED,
    HostedOffer,
    ListedServer,
    McpServerPool,
    RequestedServer,
    offer_tools,
)
from server.dialects.common.reading import read_request, run_off_loop
from server.dialects.common.replies import RunningRequest
from server.dialects.common.serving import find_key_owner
from server.http.disconnects import do_together, wait_for_client
from server.http.leases import hold
from server.turns.active_request import start_request
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
StartRun: TypeAlias = Callable[[Service, TurnRequest], Awaitable[RunningRequest]]
"""Starts a request whose calls this server executes."""


@dataclass(frozen=True)
class _Wanted:
    """The MCP servers that a request uses, in place of what it reads as."""

    servers: Sequence[RequestedServer]


def find_pool(request: Request) -> McpServerPool | None:
    """Returns the MCP servers that the operator has configured; None: none."""
    return request.app.state.mcp


async def borrow_servers(request: Request, labels: Sequence[str]) -> dict[str, ListedServer]:
    """Connects to servers, by label. A server that cannot be reached has an `error`.

    Args:
        request: holds the servers until its answer is complete.
        labels: labels of configured servers.

    Raises:
        BusyError: all connections are in use.
        HttpError: the client has disconnected.
    """
    pool = find_pool(request)
    assert pool is not None or not labels
    owner = find_key_owner(request)

    async def borrow(label: str) -> ListedServer:
        assert pool is not None
        borrowed = await pool.borrow(owner, label)
        hold(request.scope, borrowed.give_back)
        return borrowed.server

    servers = await wait_for_client(request, do_together(map(borrow, labels)))
    return {server.label: server for server in servers}


async def read_hosted_request(
    request: Request,
    kind: type[M],
    read: Callable[[M, Service, HostedOffer], T],
    read_requested_servers: Callable[[M, McpServerPool | None], Sequence[RequestedServer]],
) -> tuple[Service, M, T]:
    """Reads a request, as `read_request`. If it uses MCP servers, connects to them before `read`.

    Args:
        kind: the pydantic model of the request.
        read: makes the value from the request and the tools of its MCP servers.
        read_requested_servers: returns which MCP servers the request uses.

    Raises:
        HttpError, Error: as `read_request`, or a server is not configured.
    """
    pool = find_pool(request)

    def read_unless_hosted(body: M, service: Service) -> T | _Wanted:
        wanted = read_requested_servers(body, pool)
        return _Wanted(wanted) if wanted else read(body, service, NO_HOSTED)

    service, body, value = await read_request(request, kind, read_unless_hosted)
    if not isinstance(value, _Wanted):
        return service, body, value
    servers = await borrow_servers(request, [wanted.label for wanted in value.servers])
    offer = offer_tools(value.servers, servers, service.settings.max_tool_output)
    made = partial(read, body, service, offer)
    return service, body, await run_off_loop(request, service, made, quick=False)


async def start_hosted(
    request: Request, service: Service, turn_request: TurnRequest
) -> RunningRequest:
    """Starts a request: a run of several turns if this server executes calls of its tools, else one
    turn.

    Raises:
        Error: as in `Model.run`.
    """
    if not turn_request.tools.runs_here:
        return await start_request(service, turn_request)
    start_run: StartRun = request.app.state.start_run
    return await start_run(service, turn_request)
