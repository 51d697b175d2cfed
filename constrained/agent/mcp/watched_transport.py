"""A transport that reports its end at once, not only when the next request fails, and passes on no
more than a client can use: a server decides what it sends."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types.methods import validate_server_result
from pydantic import ValidationError

MAX_PARTS = 10_000  # of a result: texts and files
MAX_UNANSWERED = 100  # requests of a server; each waits in memory until the server reads its answer
STRICT = "2025-11-25"  # the version of the protocol that requires most of a tool


@asynccontextmanager
async def watch(
    transport: AbstractAsyncContextManager[tuple[Any, Any]],
    on_end: Callable[[], None],
    on_broken: Callable[[Sequence[str]], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """Wraps a transport of the package `mcp`: streams to read from and to write to.

    Args:
        on_end: called when the stream has ended.
        on_broken: called with what is wrong with tools that are left out of a list: the package
            would refuse the whole list.
    """
    async with transport as (read, write):
        unanswered = set[object]()
        yield _ReadStream(read, on_end, on_broken, unanswered), _WriteStream(write, unanswered)


class _Stream:
    """A stream with the methods that the package uses."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> "_Stream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stream.__aexit__(*exception)


class _WriteStream(_Stream):
    """Notes which requests of the server are answered."""

    def __init__(self, stream: Any, unanswered: set[object]):
        super().__init__(stream)
        self._unanswered = unanswered

    async def send(self, item: SessionMessage) -> None:
        await self._stream.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._unanswered.discard(item.message.id)


class _ReadStream(_Stream):
    """Reads messages of the server."""

    def __init__(
        self,
        stream: Any,
        on_end: Callable[[], None],
        on_broken: Callable[[Sequence[str]], None],
        unanswered: set[object],
    ):
        super().__init__(stream)
        self._on_end = on_end
        self._on_broken = on_broken
        self._unanswered = unanswered

    def __aiter__(self) -> "_ReadStream":
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
            while not self._admits(item):
                item = await self._stream.__anext__()
        except BaseException:  # the stream has ended, or its reader is cancelled
            self._on_end()
            raise
        return item

    def _admits(self, item: SessionMessage | Exception) -> bool:
        """Returns False for a request that is too many. Changes a result that cannot be used as it
        is."""
        if isinstance(item, Exception):
            return True
        message = item.message
        match message:
            case types.JSONRPCRequest():
                if len(self._unanswered) >= MAX_UNANSWERED:
                    return False
                self._unanswered.add(message.id)
            case types.JSONRPCNotification(method="notifications/cancelled"):
                id = (message.params or {}).get("requestId")
                if isinstance(id, int | str):
                    self._unanswered.discard(id)
            case types.JSONRPCResponse():
                item.message = self._check(message)
            case _:
                pass
        return True

    def _check(self, response: types.JSONRPCResponse) -> types.JSONRPCMessage:
        result = response.result
        parts = result.get("content")
        if isinstance(parts, list) and len(parts) > MAX_PARTS:
            message = f"its answer has {len(parts):,} parts, more than {MAX_PARTS:,}"
            fault = types.ErrorData(code=types.INVALID_REQUEST, message=message)
            return types.JSONRPCError(jsonrpc="2.0", id=response.id, error=fault)
        if "tools" in result:
            result["tools"] = self._list_whole(result["tools"])
        return response

    def _list_whole(self, listed: Any) -> list[Any]:
        """Returns the tools of a list that are tools."""
        whole: list[Any] = []
        faults: list[str] = []
        for number, tool in enumerate(listed if isinstance(listed, list) else [listed]):
            try:
                validate_server_result("tools/list", STRICT, {"tools": [tool]})
                whole.append(tool)
            except ValidationError as error:
                name = tool.get("name") if isinstance(tool, dict) else None
                first = error.errors()[0]
                place = "".join(f"/{step}" for step in first["loc"][2:])
                faults.append(f"/tools/{number}{place} ({name!r}): {first['msg']}")
        if faults:
            self._on_broken(faults)
        return whole
