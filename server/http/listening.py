"""The server's socket and connections: limits for slow clients, and an orderly stop."""

import asyncio
import errno
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from constrained.errors import RequestError
from server.http.server_end import end_process
from server.settings import MIN_RATE

if sys.platform != "win32":
    import resource

ACCEPTED = 8
"""Connections that are accepted at a time, before any of them can be refused: uvicorn's `backlog`.
asyncio accepts as many even if there is no descriptor left, and logs an error for each."""
QUEUE = 1_024  # connections that the system keeps until they are accepted
MAX_PORT = 2**16 - 1
MAX_DESCRIPTORS = 8_192
QUIET_SECONDS = 60  # between two equal lines in the log
DELIVERY_SECONDS = 1  # for the last replies, after the time of running requests
ONE_STOP = 0.2
"""Seconds in which signals to stop count once: `timeout` signals a process and its whole group, and
terminals signal a program and what has started it, which passes the signal on."""
MAX_HEAD_BYTES = 64 * 1024  # bytes
SLICE = 16 * 1024  # bytes that h11 gets at a time
FREE_CHUNKS = 1_024  # a body may have so many chunks of any size
MIN_CHUNK = 1_024  # the mean bytes per chunk that a body with more chunks must have
LOG = logging.getLogger("constrained.server")


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket bound to an address.

    Raises:
        RequestError: the port is not available, or there is no such host; with a hint.
    """
    if not 0 <= port <= MAX_PORT:
        raise RequestError(f"--port is {port}, must be from 0 to {MAX_PORT:,}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small writes at once only if the protocol is named. Otherwise the second of two
    # waits until the client confirms the first one: 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        hint = "Choose another address with --host"
        if error.errno == errno.EADDRINUSE:
            hint = (
                "Stop the server that runs there, or choose another port with --port (0: any free)"
            )
        elif error.errno == errno.EACCES:
            hint = "Choose a port of 1,024 or more with --port"
        message = f"the server cannot listen on {write_address(host, port)}: {error.strerror}"
        raise RequestError(message, hint=hint) from error
    opened.set_inheritable(True)
    return opened


def write_address(host: str, port: int) -> str:
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{port}"


def find_max_connections() -> int:
    """Raises the limit of file descriptors as far as the system allows. Returns half of it as the
    number of connections: the others are for files, models, and connections that are refused."""
    limit = MAX_DESCRIPTORS
    if sys.platform == "win32":
        return limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        limit = min(hard, limit)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(1, limit // 2)


_Base: Any = H11Protocol
"""Not uvicorn's default: httptools does not limit headers and trailers."""


class ImpatientProtocol(_Base):
    """A connection that limits the time in which it waits for its client.

    Attributes:
        idle_seconds: a connection is closed if the headers of a request are incomplete after this
            time, or if its client reads the rest of a reply too slowly (`MIN_RATE`).
        max_connections: if there are more, the one that has waited longest for a request is closed.
            Without free descriptors, the event loop could not even accept a connection to refuse
            it.
        waiting: the connections that wait for a request, in the order in which they began.
    """

    idle_seconds: ClassVar[float]
    max_connections: ClassVar[int]
    waiting: ClassVar[dict["ImpatientProtocol", None]]
    _warned_at: ClassVar[float] = -float(QUIET_SECONDS)
    _expiry: asyncio.TimerHandle | None = None
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.conn = _CheckedConnection(h11.SERVER, MAX_HEAD_BYTES)
        self._expect_head()
        if len(self.connections) > self.max_connections:
            self._make_room()

    def _make_room(self) -> None:
        served = type(self)
        if self.loop.time() - served._warned_at > QUIET_SECONDS:
            served._warned_at = self.loop.time()
            message = "%d connections are open: each new one closes the one that was idle longest"
            LOG.warning(message, self.max_connections)
        oldest = next(iter(self.waiting))  # this one, if all others have requests
        oldest._stop_expecting()
        oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        # h11 limits only what is incomplete, so it must not get a long head at once.
        for begin in range(0, len(data), SLICE):
            if not self.transport.is_closing():
                super().data_received(data[begin : begin + SLICE])
        if self._has_request:
            self._stop_expecting()
        elif self._expiry is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._look is None:  # otherwise a client could delay it with further requests
            self._watch_rest()
        if self._expiry is None and self._look is None and not self._has_request:
            self._expect_head()

    def _watch_rest(self) -> None:
        """Begins to check that the client reads the rest of a reply, which is in the buffer until
        then."""
        self._look = None
        rest = self.transport.get_write_buffer_size()
        if rest:
            check = partial(self._check_rest, rest, self.conn.written)
            self._look = self.loop.call_later(self.idle_seconds, check)

    def _check_rest(self, before: int, written: int) -> None:
        """Ends the connection if the client has read too little since the last check. The reply to
        its next request may have been written since."""
        rest = self.transport.get_write_buffer_size()
        taken = before + self.conn.written - written - rest
        if rest and taken < min(before, MIN_RATE * self.idle_seconds):
            self._look = None
            self.transport.abort()
        else:
            self._watch_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self.waiting[self] = None
        self._expiry = self.loop.call_later(self.idle_seconds, self._expire)

    def _stop_expecting(self) -> None:
        self.waiting.pop(self, None)
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _expire(self) -> None:
        self._stop_expecting()
        if not self._has_request:
            self.transport.close()


def make_protocol(idle_seconds: float, max_connections: int) -> type[asyncio.Protocol]:
    """Returns the protocol class for the connections of one server, for uvicorn;
    `ImpatientProtocol` explains the limits."""
    limits = {"idle_seconds": idle_seconds, "max_connections": max_connections, "waiting": {}}
    return type("LimitedProtocol", (ImpatientProtocol,), limits)


class _CheckedConnection(h11.Connection):
    """An h11 connection that refuses two kinds of bodies: those with too many small chunks, each of
    which takes as long as kilobytes of a large chunk, and those with two statements of their
    length. A proxy that trusts the other statement would take the rest of the body for a request
    (request smuggling).

    Attributes:
        written: the bytes of replies so far.
    """

    def __init__(self, role: type[h11.SERVER], max_head_bytes: int):
        super().__init__(role, max_head_bytes)
        self.written = 0
        self._chunks = self._bytes = 0

    def send(self, event: h11.Event) -> Any:
        data = super().send(event)
        self.written += len(data or b"")
        return data

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if names >= {b"transfer-encoding", b"content-length"}:
                raise h11.RemoteProtocolError("the length of the body is said in two ways")
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._bytes < (self._chunks - 1) * MIN_CHUNK:
                raise h11.RemoteProtocolError(f"{self._chunks} chunks have {self._bytes} bytes")
        return event


class DrainingServer(uvicorn.Server):
    """A server with an orderly stop: the first signal ends listening and calls `drain`; a second
    signal ends everything at once."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], None]):
        super().__init__(config)
        self._drain = drain
        self._stopped_at = 0.0  # seconds of the monotonic clock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(QUEUE)  # asyncio has told the system the other number

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            if time.monotonic() - self._stopped_at < ONE_STOP:
                return
            LOG.warning("%s again: all requests end now", signal.Signals(sig).name)
            self.force_exit = True
            end_process(0)
            return
        self._stopped_at = time.monotonic()
        super().handle_exit(sig, frame)
        self._drain()
