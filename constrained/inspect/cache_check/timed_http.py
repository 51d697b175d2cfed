"""HTTP requests with limits on the time and the bytes of the whole reply."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from constrained.errors import DeadlineError, RequestError

_MAX_BYTES = 16 * 2**20  # of a reply


@dataclass(frozen=True)
class ReceivedReply:
    """The reply of a server.

    Args:
        status: the HTTP status.
        text: the body.
    """

    status: int
    text: str


class _ReplyTimer:
    """Closes the connections of a request when its time is over.

    An HTTP client only limits the time between two pieces of a reply. Headers, or the length of a
    chunk, may come in any number of pieces before the client checks the time.
    """

    def __init__(self, seconds: float):
        self.is_over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> "_ReplyTimer":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Notes the opened connections; called by httpcore as its `trace`."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._sockets.append(info["return_value"].get_extra_info("socket"))
                if self.is_over:
                    self._shut()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut()

    def _shut(self) -> None:
        """Shuts the sockets down, so that a waiting reader gets the end of the stream. Closing a
        socket would not wake the reader."""
        for each in self._sockets:
            with suppress(OSError):
                # The plain `shutdown`: that of a TLS socket would remove the encryption from a
                # running reader.
                socket.socket.shutdown(each, socket.SHUT_RDWR)


def send_in_time(
    client: httpx.Client, url: str, body: Mapping[str, Any] | None, *, seconds: float
) -> ReceivedReply:
    """Sends a request (a POST with a JSON body, or a GET) and returns the reply.

    Args:
        client: sends the request.
        url: the URL.
        body: the JSON body; None: send a GET.
        seconds: the time limit for the reply, from the first to the last byte.

    Raises:
        DeadlineError: it took longer.
        RequestError: there is no reply, or it has more than 16 MiB.
    """
    late = f"{url} took more than {seconds} s"
    with _ReplyTimer(seconds) as timer:
        try:
            answer = _receive(client, url, body, seconds=seconds, timer=timer)
        except httpx.TimeoutException as e:
            raise DeadlineError(late) from e
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            if timer.is_over:
                raise DeadlineError(late) from e
            hint = "Start the server, and check host and port"
            raise RequestError(f"{url} cannot be reached: {e}", hint=hint) from e
        if timer.is_over:  # the reply may be incomplete
            raise DeadlineError(late)
        return answer


def _receive(
    client: httpx.Client,
    url: str,
    body: Mapping[str, Any] | None,
    *,
    seconds: float,
    timer: _ReplyTimer,
) -> ReceivedReply:
    request = client.build_request(
        "GET" if body is None else "POST",
        url,
        json=body,
        timeout=seconds,
        extensions={"trace": timer.trace},
    )
    response = client.send(request, stream=True)
    try:
        received = bytearray()
        for piece in response.iter_bytes():
            received += piece
            if len(received) > _MAX_BYTES:
                raise RequestError(f"{url} answers with more than {_MAX_BYTES} bytes")
    finally:
        response.close()
    return ReceivedReply(response.status_code, received.decode("utf-8", "replace"))
