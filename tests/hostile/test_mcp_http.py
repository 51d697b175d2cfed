"""MCP servers after an address that send what nobody has asked for."""

import asyncio
import gzip
import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp import types

from constrained.agent.mcp.connection import ConnectionSettings, McpConnection, McpError
from constrained.agent.mcp.results import McpResult
from constrained.agent.mcp.server import HttpTransport, ServerAddress
from constrained.agent.mcp.servers import MAX_NAME_LENGTH, name_tools
from constrained.agent.mcp.transports import EVENTS

LONGEST_BODY = 100_000  # bytes, in place of 32 MiB
PIECE = b" " * 65_536
RESULT = {"content": [{"type": "text", "text": "done"}]}


def _write(
    reply: BaseHTTPRequestHandler, data: bytes, kind: str = "application/json", encoding: str = ""
) -> None:
    reply.send_response(200)
    reply.send_header("Content-Type", kind)
    reply.send_header("Content-Encoding", encoding)
    reply.send_header("Connection", "close")
    reply.end_headers()
    reply.wfile.write(data)


def _write_without_end(reply: BaseHTTPRequestHandler, _: bytes) -> None:
    _write(reply, b"")
    try:
        while True:
            reply.wfile.write(PIECE)
    except OSError:
        pass  # the client has gone


def _write_compressed(reply: BaseHTTPRequestHandler, data: bytes) -> None:
    _write(reply, gzip.compress(data), encoding="gzip")


def _write_long_event(reply: BaseHTTPRequestHandler, data: bytes) -> None:
    event = b"data: " + data + b" " * LONGEST_BODY + b"\n\n"
    _write(reply, event, EVENTS)


def _write_no_result(reply: BaseHTTPRequestHandler, data: bytes) -> None:
    _write(reply, json.dumps({**json.loads(data), "result": {"content": "done"}}).encode())


def _write_long_error(reply: BaseHTTPRequestHandler, data: bytes) -> None:
    error = {"code": -32603, "message": "no" * 10_000}
    answered = {"jsonrpc": "2.0", "id": json.loads(data)["id"], "error": error}
    _write(reply, json.dumps(answered).encode())


CALLS: dict[str, tuple[Callable[[BaseHTTPRequestHandler, bytes], None], str]] = {
    "endless": (_write_without_end, "longer than 100,000 bytes"),
    "compressed": (_write_compressed, r"compressed \(gzip\)"),
    "long-event": (_write_long_event, "exceeded the 100000 byte limit"),
    "no-result": (_write_no_result, "has answered no-result with what is no answer"),
    "long-error": (_write_long_error, r"no \[\.\.\.\]"),
}
"""What a server answers to calls of these tools, and what is said of that."""


class HostileReply(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        name = request.get("params", {}).get("name")
        write, _ = CALLS.get(name, (_write, ""))
        answered = {"jsonrpc": "2.0", "id": request["id"], "result": _find_result(request)}
        write(self, json.dumps(answered).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def _find_result(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "n" * 10_000, "version": "1"},
            }
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in (*CALLS, "fine")]
            return {"tools": tools}
        case _:
            return RESULT


class HostileSession(HostileReply):
    """A server with sessions, the ends of which it takes as the test says."""

    on_delete: Callable[[BaseHTTPRequestHandler], None]

    def end_headers(self) -> None:
        self.send_header("Mcp-Session-Id", "one")
        super().end_headers()

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        type(self).on_delete(self)


class HostileEvents(BaseHTTPRequestHandler):
    """A server of the transport of 2024: answers come as events of one long reply."""

    answers: "queue.Queue[bytes | None]"
    on_call: "Callable[[HostileEvents], bytes | None]"

    def do_GET(self) -> None:
        _write(self, b"event: endpoint\ndata: /post\n\n", EVENTS)
        while (answered := self.answers.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + answered + b"\n\n")
        self.close_connection = True

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        padding: bytes | None = b""
        if request["method"] == "tools/call":
            padding = type(self).on_call(self)
        if padding is None:
            return  # it has been answered
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if "id" in request:
            answered = {"jsonrpc": "2.0", "id": request["id"], "result": _find_result(request)}
            self.answers.put(json.dumps(answered).encode() + padding)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(kind: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(HostileReply) as address:
        yield address


def write_many_events(reply: BaseHTTPRequestHandler, refused: "queue.Queue[bool]") -> None:
    """Writes 64 MB of no event, and says whether the client has refused to read them."""
    _write(reply, b"", EVENTS)
    try:
        for _ in range(1_000):
            reply.wfile.write(PIECE)
    except OSError:
        refused.put(True)
    else:
        refused.put(False)


def test_what_is_no_answer_is_an_error_of_bounded_length(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constrained.agent.mcp.transports.MAX_MESSAGE_LENGTH", LONGEST_BODY)
    server = ServerAddress(address, transport=HttpTransport.STREAMABLE)

    async def call_all() -> None:
        connection = McpConnection(server, ConnectionSettings())
        await connection.open()
        try:
            assert len(connection.name) < 1_000
            for name, (_, fault) in CALLS.items():
                with pytest.raises(McpError, match=fault) as caught:
                    await connection.call(name, {})
                assert len(str(caught.value)) < 10_000
                assert (await connection.call("fine", {})).text == "done"
        finally:
            await connection.close()

    asyncio.run(call_all())


def close_session(on_delete: Callable[[BaseHTTPRequestHandler], None]) -> None:
    """Opens a session and closes it, within 30 seconds."""

    class Session(HostileSession):
        pass

    Session.on_delete = on_delete

    async def open_and_close(address: str) -> None:
        server = ServerAddress(address, transport=HttpTransport.STREAMABLE)
        connection = McpConnection(server, ConnectionSettings())
        await connection.open()
        # Only now: the machine may be busy while the connection is opened.
        connection._settings = ConnectionSettings(connect_timeout=0.2)
        async with asyncio.timeout(30):
            await connection.close()

    with serving(Session) as address:
        asyncio.run(open_and_close(address))


def test_the_answer_to_the_end_of_a_session_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.agent.mcp.transports.MAX_MESSAGE_LENGTH", LONGEST_BODY)
    refused = queue.Queue[bool]()
    close_session(lambda reply: write_many_events(reply, refused))
    assert refused.get(timeout=30)


def test_a_server_that_does_not_answer_the_end_of_a_session_is_left() -> None:
    is_over = threading.Event()

    def wait(reply: BaseHTTPRequestHandler) -> None:
        is_over.wait(60)

    try:
        close_session(wait)
    finally:
        is_over.set()


def call_over_sse(on_call: Callable[[HostileEvents], bytes | None]) -> McpError:
    """The error of a call."""

    class Events(HostileEvents):
        answers = queue.Queue[bytes | None]()

    Events.on_call = on_call

    async def call(address: str) -> McpError:
        server = ServerAddress(address, transport=HttpTransport.SSE)
        connection = McpConnection(server, ConnectionSettings())
        await connection.open()
        try:
            with pytest.raises(McpError) as caught:
                await connection.call("fine", {})
        finally:
            Events.answers.put(None)
            await connection.close()
        return caught.value

    with serving(Events) as address:
        return asyncio.run(call(address))


def test_the_answer_to_what_is_posted_over_sse_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.agent.mcp.transports.MAX_MESSAGE_LENGTH", LONGEST_BODY)
    refused = queue.Queue[bool]()

    def write(reply: HostileEvents) -> None:
        write_many_events(reply, refused)
        reply.answers.put(None)  # which ends the call

    call_over_sse(write)
    assert refused.get(timeout=30)


def test_a_message_over_sse_that_is_too_long_is_named() -> None:
    error = call_over_sse(lambda reply: b" " * 2**20)
    assert "event exceeded the 1048576 byte limit" in str(error)


def test_thousands_of_tools_of_one_name_have_names_of_their_own() -> None:
    names = name_tools([(None, "same")] * 5_000 + [("long", "t" * 100)] * 5_000)
    assert len(set(names)) == 10_000
    assert max(map(len, names)) <= MAX_NAME_LENGTH


def test_a_long_text_is_not_searched_for_thousands_of_values() -> None:
    text = types.TextContent(text="a" * 10_000_000 + "0123456789" * 10)
    values = [*range(100), *[str(number) for number in range(10)]]
    assert McpResult([text], values).text.endswith("\n" + json.dumps(values))
    assert McpResult([text], {"last": 123456789}).text == text.text
