"""Connections that are no ordinary ones end, with an answer that says so, and others are served."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from benchmarks.attacks.connections import BODY, CONNECTIONS, RawAttack, send_raw, write_request
from benchmarks.processes.served import Served, serve
from tests.hostile.health import Visitor, measure_peak
from tests.hostile.serving import MAX_CONNECTIONS

IDLE = 1.0  # seconds
READERS = 8
TOKENS = 1_200  # of a byte: a stream of 2 MB
KEPT = 65_536  # bytes of it that the system keeps for a client
PATIENCE = 60  # seconds: a bound against hangs, no measure of speed
MAX_MEGABYTES = 200
PLAIN = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    options = ["--idle-timeout", str(IDLE), "--send-buffer", str(KEPT)]
    options += ["--text", "word " * (TOKENS // 5)]
    with serve(options, ["tests.hostile.serving"]) as server:
        yield server


@pytest.mark.parametrize("attack", CONNECTIONS, ids=lambda attack: attack.name)
def test_it_is_answered_and_closed(served: Served, attack: RawAttack) -> None:
    assert send_raw(served.url, attack) == attack.statuses
    assert httpx.get(f"{served.url}/health").status_code == 200


def test_a_burst_of_connections_stops_nobody(served: Served) -> None:
    place = urlsplit(served.url)
    with Visitor(served.url) as visitor, ExitStack() as burst:
        for _ in range(3 * MAX_CONNECTIONS):
            connection = burst.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex((place.hostname, place.port))
        chat = f"{served.url}/v1/chat/completions"
        assert httpx.post(chat, json=PLAIN, timeout=PATIENCE).status_code == 200
    assert visitor.failures == []


class SlowReader:
    """A client that asks for a long stream, and hardly takes anything of it.

    Args:
        url: of the server.
        max_tokens: of the reply; each comes with 20 others, in 2 kB.
    """

    def __init__(self, url: str, max_tokens: int):
        place = urlsplit(url)
        assert place.hostname is not None
        self._connection = socket.socket()
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._connection.settimeout(PATIENCE)
        self._connection.connect((place.hostname, place.port))
        asked = {**json.loads(BODY), "max_tokens": max_tokens, "stream": True}
        asked |= {"logprobs": True, "top_logprobs": 20}
        body = json.dumps(asked).encode()
        self._connection.sendall(write_request(f"Content-Length: {len(body)}", body=body))

    def read_byte(self) -> bool:
        """Takes one byte; False: the connection is over."""
        try:
            return self._connection.recv(1) != b""
        except ConnectionResetError:
            return False

    def read_rest(self) -> int:
        """The number of bytes that come until the server closes the connection."""
        count = 0
        try:
            while part := self._connection.recv(65_536):
                count += len(part)
        except ConnectionResetError:
            pass
        return count

    def close(self) -> None:
        """Goes away."""
        self._connection.close()


def count_busy(url: str) -> int:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    [count] = [line for line in lines if line.startswith("constrained_running ")]
    return int(float(count.split()[1]))


def test_readers_that_take_hardly_anything_keep_nothing(served: Served) -> None:
    """They are cut off after `--idle-timeout`: neither a sequence, nor memory, nor a connection is
    theirs for longer."""
    before = measure_peak(served)
    readers = [SlowReader(served.url, TOKENS) for _ in range(READERS)]
    with Visitor(served.url) as visitor:
        for reader in readers:
            assert reader.read_byte()
        chat = f"{served.url}/v1/chat/completions"
        reply = httpx.post(chat, json=PLAIN, timeout=PATIENCE).json()
        assert reply["choices"][0]["message"]["content"] == "wor"
        end = time.monotonic() + PATIENCE
        while count_busy(served.url) and time.monotonic() < end:
            readers[0].read_byte()
            time.sleep(0.05)
        assert count_busy(served.url) == 0
        taken = [reader.read_rest() for reader in readers]
    for reader in readers:
        reader.close()
    assert visitor.failures == []
    assert measure_peak(served) - before < MAX_MEGABYTES
    assert max(taken) < 10 * KEPT, "the whole stream was kept for it"
