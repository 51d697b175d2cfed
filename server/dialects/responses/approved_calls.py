"""Responses: calls that the client has approved. They are executed before the model answers.

Each is executed once. A client may send a request again with the same approval, for example if the
answer was lost or the request was refused for its length: then it gets the result of the call, or
waits for it while it is running. With a shared store this is true for all servers, and after a
restart.
"""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, TypeAlias

from constrained.agent.actions import aexecute_call
from constrained.errors import ContextError, TokenLimitError
from constrained.tools.functions import FunctionTool
from grammars.errors import SchemaError
from grammars.lowering.lower import lower
from grammars.turn import ToolCall, Violation
from server.dialects.responses.mcp_items import show_error, show_result
from server.dialects.responses.store import ITEM_BYTES, pack
from server.errors import HttpError
from server.http.disconnects import do_together
from server.ids import make_id
from server.mcp.hosted_tools import BorrowedServer, HostedOffer
from server.store.shared_work import SharedWork

Json = dict[str, Any]
MAX_CONCURRENT_CALLS = 16  # calls of one request
UNKNOWN = "{}; the outcome is not known"
CALLS = "approved"
"""The namespace of these calls in a shared store."""
Borrow: TypeAlias = Callable[[str], Awaitable[BorrowedServer]]
"""Borrows the connection to the MCP server with a label, for the owner of a request."""


@dataclass(frozen=True)
class ApprovedCall:
    """A call that the client has approved, and that is not executed yet.

    Args:
        item: the request for approval.
        call: the call; `errors` has what is wrong with its arguments.
        tool: None: it is no longer offered.
    """

    item: Json
    call: ToolCall
    tool: FunctionTool | None


def find_approved(items: Sequence[Json], offer: HostedOffer) -> list[ApprovedCall]:
    """Finds the calls of a conversation that have to be executed now.

    Raises:
        HttpError: an approval refers to no request for approval, or a request is both approved
            and refused.
    """
    requests = {item["id"]: item for item in items if item["type"] == "mcp_approval_request"}
    done = {item.get("approval_request_id") for item in items if item["type"] == "mcp_call"}
    answers = dict[Any, bool]()
    found: list[ApprovedCall] = []
    for item in items:
        if item["type"] != "mcp_approval_response":
            continue
        id = item["approval_request_id"]
        if answers.setdefault(id, item["approve"]) != item["approve"]:
            message = f"the mcp_approval_request {id!r} is both approved and refused"
            raise HttpError(400, message, "invalid_value", where="/input")
        if id not in requests:
            message = f"there is no mcp_approval_request {id!r} in this conversation"
            raise HttpError(400, message, "invalid_value", where="/input")
        if item["approve"] and id not in done:
            done.add(id)
            found.append(_read_approved(requests[id], offer))
    return found


def _read_approved(item: Json, offer: HostedOffer) -> ApprovedCall:
    tool = offer.find(item["server_label"], item["name"])
    try:
        arguments = json.loads(item["arguments"])
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        message = f"the arguments of {item['id']!r} are not the JSON text of an object"
        raise HttpError(400, message, "invalid_value", where="/input")
    errors: list[Violation] = []
    if tool is not None:
        try:
            found = lower(dict(tool.parameters)).find_errors(arguments)
        except SchemaError:  # tools that cannot be lowered are not offered
            found, tool = [], None
        errors = [Violation(f"/arguments{error.pointer}", error.message) for error in found]
    return ApprovedCall(item, ToolCall(item["name"], arguments, errors=tuple(errors)), tool)


@contextmanager
def noting_executed(count: int) -> Iterator[None]:
    """Makes an error raised inside say that approved calls were executed, if the error is that
    context or tokens do not suffice for the reply.

    Args:
        count: how many calls were executed.
    """
    try:
        yield
    except (ContextError, TokenLimitError) as error:
        if count:
            note = _describe_executed(count)
            error.hint = note if error.hint is None else f"{error.hint}. {note}"
        raise


def _describe_executed(count: int) -> str:
    if count == 1:
        return (
            "1 approved call was executed; it is not executed again if the same approval is sent "
            "again"
        )
    return (
        f"{count} approved calls were executed; they are not executed again if the same approvals "
        "are sent again"
    )


class _NotExecutedError(Exception):
    """A call was not executed; a later request may execute it. The text says why."""


@dataclass(frozen=True)
class _ApprovedCallKey:
    """Identifies a call: the owner and the request for approval. Clients may write such a request
    themselves, so its id is not enough."""

    owner: str
    id: str
    server: str
    name: str
    arguments: str

    @property
    def digest(self) -> str:
        """Returns a hash of the key as text."""
        return hashlib.sha256(pack(astuple(self))).hexdigest()


def _find_key(owner: str, item: Json) -> _ApprovedCallKey:
    return _ApprovedCallKey(
        owner, item["id"], item["server_label"], item["name"], item["arguments"]
    )


class ExecutedCalls:
    """Approved calls that are running or were executed; the oldest are forgotten. For one event
    loop.

    Args:
        max_calls: the maximum number of calls; running ones are kept in addition.
        max_bytes: of all items together.
        shared: the calls of all servers; None: only this server.
    """

    def __init__(self, max_calls: int, max_bytes: int, shared: SharedWork | None = None):
        self._shared = shared
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._size = 0
        self._kept: OrderedDict[_ApprovedCallKey, asyncio.Task[Json]] = OrderedDict()
        self._sizes: dict[_ApprovedCallKey, int] = {}  # of completed calls

    async def carry_out(
        self, approved: Sequence[ApprovedCall], owner: str, *, seconds: float, borrow: Borrow
    ) -> list[Json]:
        """Executes the calls that were not executed before; returns the items of all calls.

        A running call continues if its client disconnects. A client that sends the request again
        gets its result.

        Args:
            owner: of the request.
            seconds: the maximum time; calls that have not started by then are not executed.
            borrow: connects to their servers.
        """
        end = asyncio.get_running_loop().time() + seconds
        places = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

        async def take(call: ApprovedCall) -> Json:
            if call.tool is None or call.call.errors:  # the server is not asked
                return await _carry_out(call)
            key = _find_key(owner, call.item)
            async with places:
                if key not in self._kept:
                    if asyncio.get_running_loop().time() >= end:
                        return _give_up(call, f"not executed: {seconds:g} seconds are over")
                    self._begin(key, self._carry_out_once(key, end, call, borrow))
                # Only outcomes of calls are kept, here and in the shared store.
                try:
                    return await asyncio.shield(self._kept[key])
                except _NotExecutedError as reason:
                    return _give_up(call, f"not executed: {reason}")
                except TimeoutError:
                    return _give_up(call, UNKNOWN.format("another server is still at it"))

        return await do_together(map(take, approved))

    async def _carry_out_once(
        self, key: _ApprovedCallKey, end: float, call: ApprovedCall, borrow: Borrow
    ) -> Json:
        """Executes a call, unless another server does so or has done so.

        Raises:
            _NotExecutedError: it was not executed.
            TimeoutError: another server is still executing it.
        """
        if self._shared is None:
            return await _carry_out_until(end, call, borrow)

        async def work() -> bytes:
            return pack(await _carry_out_until(end, call, borrow))

        def lost() -> bytes:
            return pack(_give_up(call, UNKNOWN.format("the server that carried it out has gone")))

        patience = max(0.0, end - asyncio.get_running_loop().time())
        return json.loads(await self._shared.do(key.digest, work, lost=lost, patience=patience))

    def _begin(self, key: _ApprovedCallKey, work: Coroutine[Any, Any, Json]) -> None:
        task = self._kept[key] = asyncio.create_task(work)
        task.add_done_callback(partial(self._note_end, key))

    def _note_end(self, key: _ApprovedCallKey, task: asyncio.Task[Json]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._kept[key]
            return
        self._sizes[key] = len(pack(task.result())) + ITEM_BYTES
        self._size += self._sizes[key]
        while len(self._sizes) > self._max_calls or self._size > self._max_bytes:
            oldest = next(iter(self._sizes))
            self._size -= self._sizes.pop(oldest)
            del self._kept[oldest]


async def _carry_out_until(end: float, approved: ApprovedCall, borrow: Borrow) -> Json:
    """Executes a call and holds its server meanwhile, since the request may be over.

    Raises:
        _NotExecutedError: its server is not connected in time.
    """
    try:
        async with asyncio.timeout_at(end):
            borrowed = await borrow(approved.item["server_label"])
    except TimeoutError:
        raise _NotExecutedError("its server was not connected in time") from None
    try:
        async with asyncio.timeout_at(end):
            return await _carry_out(approved)
    except TimeoutError:
        return _give_up(approved, UNKNOWN.format("the time for calls is over"))
    finally:
        borrowed.give_back()


async def _carry_out(approved: ApprovedCall) -> Json:
    head = _begin_item(approved)
    if approved.tool is None:
        text = f"not executed: the tools of this request do not have {head['name']}"
        return _give_up(approved, text)
    named = ToolCall(approved.tool.name, approved.call.arguments, errors=approved.call.errors)
    return head | show_result(await aexecute_call(named, [approved.tool]))


def _give_up(approved: ApprovedCall, text: str) -> Json:
    return _begin_item(approved) | show_error(text) | {"status": "failed"}


def _begin_item(approved: ApprovedCall) -> Json:
    item = approved.item
    return {
        "type": "mcp_call",
        "id": make_id("mcp_"),
        "approval_request_id": item["id"],
        "server_label": item["server_label"],
        "name": item["name"],
        "arguments": item["arguments"],
    }
