"""MCP servers behind an address that send what nobody has asked for."""

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp import types

from constrained.mcp.connection import ConnectionSettings, McpConnection, McpError
from constrained.mcp.elicitation import Elicitation, answer
from constrained.mcp.results import McpResult
from constrained.mcp.server import HttpTransport, ServerAddress
from constrained.mcp.tool_names import LONGEST, name_tools

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
    _write(reply, event, "text/event-stream")


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


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), HostileReply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_no_answer_is_an_error_of_bounded_length(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constrained.mcp.bounded_http.LONGEST_MESSAGE", LONGEST_BODY)
    monkeypatch.setattr("constrained.mcp.connection.LONGEST_MESSAGE", LONGEST_BODY)
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


def test_thousands_of_tools_of_one_name_have_names_of_their_own() -> None:
    names = name_tools([(None, "same")] * 5_000 + [("long", "t" * 100)] * 5_000)
    assert len(set(names)) == 10_000
    assert max(map(len, names)) <= LONGEST


def test_a_long_text_is_not_searched_for_thousands_of_values() -> None:
    text = types.TextContent(text="a" * 10_000_000 + "0123456789" * 10)
    values = [*range(100), *[str(number) for number in range(10)]]
    assert McpResult([text], values).text.endswith("\n" + json.dumps(values))
    assert McpResult([text], {"last": 123456789}).text == text.text


@pytest.mark.parametrize(
    "schema", [{"properties": [1]}, {"properties": {"a": 1}}, {"properties": {"a": {"enum": 1}}}]
)
def test_nobody_is_asked_a_question_that_cannot_be_read(schema: dict[str, Any]) -> None:
    def elicit(question: Elicitation) -> None:
        raise AssertionError("it is asked")

    answered = answer(elicit, Elicitation("evil", "your name", schema))
    assert isinstance(answered, types.ErrorData)
    assert "cannot be read" in answered.message
