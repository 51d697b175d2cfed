"""Servers whose replies never end, a byte at a time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from constrained.errors import DeadlineError
from constrained.inspect.cache_check.chat_client import ChatClient
from constrained.inspect.conformance.chat_server import ChatServer

BEGINNINGS = {
    "a line of the head": b"HTTP/1.1 200 OK\r\nX-Long: ",
    "lines of the head": b"HTTP/1.1 200 OK\r\n",
    "a body without a length": b"HTTP/1.1 200 OK\r\n\r\n",
    "a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "the length of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    "an error": b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n",
    "the name in a gzip head": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08"
    + bytes(6),
}
DRIPS = {"lines of the head": b"A: a\r\n"}


@contextmanager
def dripping(beginning: bytes, drip: bytes) -> Iterator[str]:
    """A server whose replies begin so; gives its URL."""

    class DrippingReply(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                self.wfile.write(beginning)
                while True:
                    self.wfile.write(drip)
                    time.sleep(0.005)
            except OSError:
                pass  # the client has gone

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), DrippingReply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def connect_chat_server(url: str) -> object:
    return ChatServer(url, api_key="", model="")


@pytest.mark.parametrize(
    ("connect", "patience"),
    [
        (connect_chat_server, "constrained.inspect.conformance.chat_server.TIMEOUT"),
        (ChatClient, "constrained.inspect.cache_check.chat_client._PATIENCE"),
    ],
)
@pytest.mark.parametrize("part", BEGINNINGS)
def test_a_reply_has_its_time(
    part: str, connect: Callable[[str], object], patience: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, 0.1)
    late = pytest.raises(DeadlineError, match=r"took more than 0\.1 s")
    with dripping(BEGINNINGS[part], DRIPS.get(part, b"a")) as url, late:
        connect(url)
