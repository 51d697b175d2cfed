"""Servers whose replies never end, a byte at a time."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from constrained.cache_check.chat_client import ChatClient
from constrained.conformance.chat_server import ChatServer
from constrained.errors import DeadlineError


class DrippingReply(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.005)
        except OSError:
            pass  # the client has gone

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), DrippingReply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("connect", "patience"),
    [
        (ChatServer, "constrained.conformance.chat_server.TIMEOUT"),
        (ChatClient, "constrained.cache_check.chat_client._PATIENCE"),
    ],
)
def test_a_reply_has_its_time(
    connect: Callable[[str], object], patience: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, 0.5)
    with pytest.raises(DeadlineError, match=r"took more than 0\.5 s"):
        connect(url)
