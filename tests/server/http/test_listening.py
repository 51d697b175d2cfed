"""Connections on which nothing comes are closed, and a server stops in order."""

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from constrained.errors import RequestError
from server.http.listening import (
    FREE_CHUNKS,
    MIN_CHUNK,
    ONE_STOP,
    DrainingServer,
    make_protocol,
    open_socket,
    write_address,
)
from tests.server.running_server import wait_until
from tests.server.started_server import PATIENCE, start

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """An application that says yes."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def count_bytes(scope: Any, receive: Any, send: Any) -> None:
    """An application that says how long the body was."""
    size = 0
    message: dict[str, Any] = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        size += len(message.get("body", b""))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % size})


@contextmanager
def listen(
    *, idle_seconds: float = 0.3, most: int = 100, application: Any = answer
) -> Iterator[tuple[str, int]]:
    """A server of that application; gives its address."""
    protocol = make_protocol(idle_seconds, most)
    config = uvicorn.Config(application, port=0, http=protocol, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    listening = open_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    wait_until(lambda: server.started, thread)
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()


def read_to_the_end(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    client.settimeout(PATIENCE)
    read = b""
    while True:
        try:
            part = client.recv(4096)
        except ConnectionResetError:
            return read
        if not part:
            return read
        read += part


@pytest.mark.parametrize("sent", [b"", b"G", HEAD[:20], HEAD + HEAD[:20]])
def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    with listen() as address, socket.create_connection(address) as client:
        client.sendall(sent)
        assert read_to_the_end(client).count(b"204") == sent.count(HEAD)


def test_a_head_that_comes_in_drops_is_closed_too() -> None:
    with listen(idle_seconds=1) as address, socket.create_connection(address) as client:
        client.settimeout(0.1)
        closed = False
        for _ in range(PATIENCE * 10):
            try:
                client.sendall(b"a")
            except OSError:
                closed = True
                break
            time.sleep(0.05)
        assert closed


def send_chunks(address: tuple[str, int], chunk: bytes, count: int) -> bytes:
    """What a server answers to a body of equal chunks."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    written = b"%x\r\n%s\r\n" % (len(chunk), chunk)
    with socket.create_connection(address) as client:
        with suppress(ConnectionError):  # the server has closed it meanwhile
            client.sendall(head + b"Connection: close\r\n\r\n" + written * count + b"0\r\n\r\n")
        return read_to_the_end(client)


def test_a_body_of_tiny_chunks_is_refused() -> None:
    with listen(application=count_bytes) as address:
        assert b" 400 " in send_chunks(address, b"x", 200_000).partition(b"\r\n")[0]
        assert b"\r\n%d\r\n" % FREE_CHUNKS in send_chunks(address, b"x", FREE_CHUNKS)
        assert b"\r\n4096000\r\n" in send_chunks(address, b"x" * MIN_CHUNK, 4_000)


@pytest.mark.parametrize("length", [b"5", b"31"])
def test_a_body_whose_length_is_said_in_two_ways_is_refused(length: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    smuggled = b"0\r\n\r\n" + HEAD
    with listen() as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(head + b"Content-Length: " + length + b"\r\n\r\n" + smuggled)
        answers = client.makefile("rb").read()
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_connection_too_many_takes_the_place_of_the_one_that_was_idle_longest() -> None:
    with listen(idle_seconds=PATIENCE, most=2) as address:
        idle, busy, third = (socket.create_connection(address) for _ in range(3))
        assert read_to_the_end(idle) == b""
        for client in (busy, third):
            client.sendall(HEAD)
            assert b"204" in client.recv(4096)
        for client in (idle, busy, third):
            client.close()


async def wait_for_end(scope: Any, receive: Any, send: Any) -> None:
    """An application whose replies do not end before their clients leave."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_connection_too_many_is_refused_if_all_have_requests() -> None:
    with listen(idle_seconds=PATIENCE, most=2, application=wait_for_end) as address:
        clients = [socket.create_connection(address) for _ in range(2)]
        for client in clients:
            client.sendall(HEAD)
            assert b"200" in client.recv(4096)
        with socket.create_connection(address) as third:
            assert read_to_the_end(third) == b""
        for client in clients:
            client.close()


def test_small_writes_are_sent_at_once() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # then asyncio does so


LARGE = 1 << 24  # bytes: more than the system keeps of what is sent


async def send_much(scope: Any, receive: Any, send: Any) -> None:
    """An application whose reply is large, and sent as a whole."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_whole_reply_is_kept_for_who_takes_it(is_slow: bool) -> None:
    with listen(application=send_much, idle_seconds=0.6) as address, socket.socket() as client:
        if is_slow:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(HEAD)
        for _ in range(30 if is_slow else 0):
            client.recv(1)
            time.sleep(0.05)
        client.settimeout(PATIENCE)
        taken = 0
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                taken += len(part)
    assert (taken < LARGE) == is_slow


class ShiftedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves on."""

    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift

    async def move_on(self, seconds: float) -> None:
        self.shift += seconds
        for _ in range(10):  # whatever is due, and what follows from it
            await asyncio.sleep(0)


class KeepingTransport(asyncio.Transport):
    """A connection whose client takes what a test says."""

    kept = 0
    is_ended = False

    def write(self, data: Any) -> None:
        self.kept += len(data)

    def get_write_buffer_size(self) -> int:
        return self.kept

    def is_closing(self) -> bool:
        return self.is_ended

    def abort(self) -> None:
        self.is_ended = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.mark.parametrize(
    ("size", "taken", "is_slow"),
    [
        (LARGE, 0, True),
        (LARGE, 9_000, True),
        (LARGE, 11_000, False),
        (99, 0, True),
        (99, 99, False),
    ],
)
def test_the_next_reply_is_no_rest_of_the_last_one(size: int, taken: int, is_slow: bool) -> None:
    """The client has 10 seconds; shortly before their end, another reply is begun."""

    async def send_some(scope: Any, receive: Any, send: Any) -> None:
        is_next = scope["path"] == "/next"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size), "more_body": is_next})
        while is_next and (await receive())["type"] != "http.disconnect":
            pass

    async def ask_twice(loop: ShiftedLoop) -> bool:
        config = uvicorn.Config(send_some, timeout_keep_alive=1000, log_level="error")
        protocol: Any = make_protocol(10, 1)
        connection = protocol(config, ServerState(), {}, _loop=loop)
        transport = KeepingTransport()
        connection.connection_made(transport)
        connection.data_received(HEAD)
        await loop.move_on(0)
        written = transport.kept
        transport.kept -= written if taken == size else taken
        rest = transport.kept
        await loop.move_on(9.9)
        connection.data_received(HEAD.replace(b"/", b"/next", 1))
        await loop.move_on(0)
        assert transport.kept > rest + size
        await loop.move_on(0.2)
        is_ended = transport.is_ended
        await loop.move_on(10)
        assert transport.is_ended  # nothing was taken meanwhile
        connection.connection_lost(OSError())
        await loop.move_on(0)
        return is_ended

    loop = ShiftedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(ask_twice(loop)) == is_slow


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "minLength": 2000}},
    "required": ["a"],
}
FUNCTION = {"name": "write", "parameters": SCHEMA}
MESSAGES = {"messages": [{"role": "user", "content": "Write."}], "max_tokens": 3900}
CHAT = {
    **MESSAGES,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "required",
}
# Longer than any test waits, for each dialect.
LONG: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": {
        **MESSAGES,
        "tools": [{"name": "write", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
    },
    "/v1/responses": {
        "input": "Write.",
        "max_output_tokens": 3900,
        "tools": [{"type": "function", **FUNCTION}],
        "tool_choice": "required",
    },
}


def test_requests_end_with_an_error_that_says_why() -> None:
    """In every dialect, streamed and whole, all under way in one server."""
    process, port = start("-t", "1", "-np", str(2 * len(LONG)), "--drain", "0.1")
    address = f"http://127.0.0.1:{port}"
    begun = threading.Semaphore(0)

    def ask(path: str) -> httpx.Response:
        return httpx.post(f"{address}{path}", json=LONG[path], timeout=PATIENCE)

    def follow(path: str) -> list[str]:
        lines: list[str] = []
        body = {**LONG[path], "stream": True}
        with httpx.stream("POST", f"{address}{path}", json=body, timeout=PATIENCE) as response:
            for line in response.iter_lines():
                if not lines:
                    begun.release()
                lines.append(line)
        return lines

    with ThreadPoolExecutor(2 * len(LONG)) as pool:
        whole = [pool.submit(ask, path) for path in LONG]
        streamed = [pool.submit(follow, path) for path in LONG]
        for _ in LONG:
            assert begun.acquire(timeout=PATIENCE)
        process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    for stream in streamed:
        data = [line for line in stream.result() if line.startswith("data: {")]
        ended = json.loads(data[-1].removeprefix("data: "))
        assert "the model shuts down" in json.dumps(ended)
    for reply in whole:
        assert reply.result().status_code == 503
        assert "the model shuts down" in reply.result().text
    assert "Traceback" not in log


def test_a_second_signal_ends_at_once() -> None:
    process, port = start("-t", "1", "--drain", "600")
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    with (
        suppress(httpx.TransportError),  # or the stream just ends
        httpx.stream("POST", url, json={**CHAT, "stream": True}, timeout=PATIENCE) as response,
    ):
        for number, _ in enumerate(response.iter_lines()):
            if number == 0:
                for _ in range(20):  # on a busy machine, two may come at the same time
                    process.send_signal(signal.SIGTERM)
                    time.sleep(2 * ONE_STOP)
                    if process.poll() is not None:
                        break
    _, log = process.communicate(timeout=PATIENCE)  # and not after 600 seconds
    assert "again: all requests end now" in log


def test_two_signals_at_the_same_time_are_one() -> None:
    drained: list[bool] = []
    server = DrainingServer(uvicorn.Config(lambda: None), lambda: drained.append(True))
    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(signal.SIGTERM, None)
    assert drained == [True]
    assert server.should_exit
    assert not server.force_exit


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_said_with_what_to_do(host: str) -> None:
    with open_socket(host, 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(RequestError) as caught:
            open_socket(host, port)
    assert f"cannot listen on {write_address(host, port)}: Address already in use" in str(
        caught.value
    )
    assert "choose another port with --port" in str(caught.value)


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(RequestError, match="must be from 0 to 65,535"):
        open_socket("127.0.0.1", port)


def test_a_host_that_is_not_here_is_refused() -> None:
    with pytest.raises(RequestError, match="Choose another address with --host"):
        open_socket("192.0.2.1", 0)
