"""Lines of a server that runs as a command."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from constrained import connect_mcp
from constrained.agent.mcp import command_transport
from constrained.agent.mcp.command_transport import (
    LineReader,
    LongLineError,
    find_answered,
    run_command,
)
from constrained.agent.mcp.connection import McpError
from constrained.agent.mcp.server import ServerCommand

SERVER = """
import json, sys

def answer(request, **fields):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **fields}), flush=True)

NAMES = ("long", "bad", "fail", "ping")
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "lines", "version": "1"},
}
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        answer(request, result=INFO)
    elif request["method"] == "tools/list":
        answer(request, result={"tools": TOOLS})
    elif request["method"] == "tools/call":
        name = request["params"]["name"]
        if name == "long":
            sys.stdout.write("x" * 100_000)
            sys.stdout.flush()
        elif name == "bad":
            answer(request, result="x" * 40_000)
        elif name == "fail":
            answer(request, error={"code": -32000, "message": "not here"})
        else:
            sys.stdout.buffer.write(b"\\xff no message\\n")
            answer(request, result={"content": [{"type": "text", "text": "pong"}]})
    elif "id" in request:
        answer(request, error={"code": -32601, "message": "unknown"})
"""


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_lines_do_not_depend_on_the_pieces_in_which_they_come(size: int) -> None:
    text = b"one\n\nthree\r\nfo"
    reader = LineReader(max_bytes=6)
    lines: list[bytes] = []
    for place in range(0, len(text), size):
        lines += reader.take(text[place : place + size])
    assert lines == [b"one", b"", b"three\r"]


@pytest.mark.parametrize("pieces", [[b"1234567"], [b"1234", b"567"], [b"1\n123", b"4567\n"]])
def test_a_line_that_is_too_long_is_refused(pieces: list[bytes]) -> None:
    reader = LineReader(max_bytes=6)
    *earlier, last = pieces
    for piece in earlier:
        list(reader.take(piece))
    with pytest.raises(LongLineError, match="longer than 6 bytes"):
        list(reader.take(last))


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"id": 7, "result": {"a": "\\ud800"}}', 7),
        (b'{"id": "x", "result": {"a": NaN}}', "x"),
        (b'{"id": 7, "result": "\xff"}', 7),
        (b'{"id": 7, "result": ' + b"9" * 5_000 + b"}", 7),
        (b'{"id": 7, "method": "\\ud800"}', None),
        (b'{"id": true, "result": {}}', None),
        (b"[7]", None),
        (b"Traceback", None),
    ],
)
def test_the_request_of_an_answer_that_cannot_be_read(line: bytes, id: int | str | None) -> None:
    assert find_answered(line) == id


def test_a_server_is_told_apart_from_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_transport, "MAX_MESSAGE_LENGTH", 50_000)
    monkeypatch.setattr(command_transport, "MAX_SEARCHED_LENGTH", 30_000)
    server = ServerCommand(sys.executable, ("-c", SERVER), name="lines")

    async def check() -> None:
        async with connect_mcp(server, timeout=30) as servers:
            long, bad, fail, ping = (tool.function for tool in servers.tools())
            assert long is not None
            assert bad is not None
            assert fail is not None
            assert ping is not None
            with pytest.raises(McpError, match=r"^lines: not here$"):  # the code of a lost one
                await fail()
            assert str(await ping()) == "pong"
            with pytest.raises(McpError, match=r"longer than 50,000 bytes.* starts it again"):
                await long()
            assert str(await ping()) == "pong"
            with pytest.raises(
                McpError, match=r"(?s)of 40,\d+ bytes cannot be read.* starts it again"
            ):
                await bad()
            assert str(await ping()) == "pong"

    asyncio.run(check())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    """Also where the server itself ends when its stdin is closed."""
    started = tmp_path / "pid"
    script = f'sleep 1000 >&- 2>&- & echo $! > "{started}"; read line; exit 0'
    server = ServerCommand("/bin/sh", ("-c", script), name="parent")

    failures: list[Exception] = []

    async def run() -> None:
        with (tmp_path / "log").open("w") as log:
            async with run_command(server, log, failures.append):
                while not started.exists() or not started.read_text().strip():
                    await asyncio.sleep(0.01)

    asyncio.run(run())
    assert not failures
    assert not is_running(int(started.read_text()))


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody has waited for."""
    shown = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
    )
    return bool(shown.stdout.strip()) and not shown.stdout.strip().startswith("Z")
