"""Real MCP servers: as commands, and at an address."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.finished_run import Reason, Run
from constrained.agent.mcp.connection import McpError
from constrained.agent.mcp.results import McpResult
from constrained.agent.mcp.server import HttpTransport, ServerAddress, ServerCommand
from constrained.agent.mcp.servers import McpServers, connect_mcp
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.prompt.tools.execution import CallResult, call_function
from constrained.prompt.tools.functions import find_tool
from grammars.turn import ToolCall
from tests.constrained.agent.mcp.raw_command import raw
from tests.scripted_model import scripted
from tests.templates import hermes_call

ROOT = Path(__file__).parents[4]
GREEDY = Sampling(temperature=0)
SDK = ServerCommand(
    sys.executable, ("-m", "tests.constrained.agent.mcp.sdk_server"), cwd=str(ROOT), name="sdk"
)
WAIT = 20  # seconds, for what comes at once


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening("streamable-http") as origin:
        yield f"{origin}/mcp"


@contextmanager
def listening(transport: str) -> Iterator[str]:
    """A server at a port of its own; gives the address without the path."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "tests.constrained.agent.mcp.sdk_server", str(port), transport]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + WAIT
        while True:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module", params=["command", "address"])
def servers(request: pytest.FixtureRequest) -> Iterator[McpServers]:
    """The same server, reached in both ways."""
    source: Any = SDK
    if request.param == "address":
        source = ServerAddress(request.getfixturevalue("address"), name="sdk")
    with connect_mcp(source) as servers:
        yield servers


def run(servers: McpServers, *calls: tuple[str, dict[str, Any]], **options: Any) -> Run:
    """A run of a model that makes these calls, each in a turn of its own."""
    texts = [hermes_call(name, json.dumps(arguments)) for name, arguments in calls]
    with scripted(*texts, "Done.") as model:
        return model.run("Go.", servers.tools, sampling=GREEDY, **options)


def made(servers: McpServers, name: str, **arguments: Any) -> CallResult:
    ran = run(servers, (name, arguments))
    assert ran.reason is Reason.STOP
    return ran.calls[0]


def test_tools_are_called(servers: McpServers) -> None:
    assert made(servers, "add", a=1, b=2).content == "3"
    reads = {tool.name: tool.read_only for tool in servers.tools()}
    assert reads["add"]
    assert not reads["fail"]


def test_a_server_of_2024_is_spoken_to_over_sse() -> None:
    with listening("sse") as origin:
        url = f"{origin}/sse"
        told: Any = {"mcpServers": {"sdk": {"type": "sse", "url": url}}}
        for source in (told, f"sdk={url}"):
            with connect_mcp(source) as servers:
                assert made(servers, "add", a=1, b=2).content == "3"
        wrong = ServerAddress(url, transport=HttpTransport.STREAMABLE)
        for source in (wrong, f"{origin}/nothing"):
            with pytest.raises(McpError, match="cannot be reached"), connect_mcp(source):
                pass


def test_an_error_is_read_by_the_model(servers: McpServers) -> None:
    failed = made(servers, "fail", why="the disk is full")
    assert failed.outcome == "failed"
    assert "the disk is full" in failed.content


def test_an_image_is_not_lost(servers: McpServers) -> None:
    drawn = made(servers, "draw")
    assert drawn.content == "Here it is.\n[image, image/png, 17 bytes: not shown]"
    assert isinstance(drawn.result, McpResult)
    assert [(one.mime_type, len(one.data)) for one in drawn.result.media] == [("image/png", 17)]


def test_a_tool_that_asks_the_user_fails(servers: McpServers) -> None:
    asked = made(servers, "order")
    assert asked.outcome == "failed"
    assert "licitation" in asked.content


def wait_for(path: Path, text: str) -> None:
    end = time.monotonic() + WAIT
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.005)


def test_cancelling_a_call_cancels_the_request(servers: McpServers, tmp_path: Path) -> None:
    path = tmp_path / "state"
    text = hermes_call("wait", json.dumps({"path": str(path)}))
    with scripted(text, "Done.") as model:
        stream = model.stream

        def interrupted(*given: Any, **options: Any) -> Any:
            source = stream(*given, **options)

            class Source:
                cancel = staticmethod(source.cancel)

                def __iter__(self) -> Any:
                    yield from source
                    wait_for(path, "waiting")  # the call has begun early
                    raise RuntimeError("interrupted")

            return Source()

        model.stream = interrupted  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="interrupted"):
            model.run("Go.", servers.tools, sampling=GREEDY)
    wait_for(path, "cancelled")


def test_tools_that_are_new_are_there_at_the_next_turn(servers: McpServers) -> None:
    assert find_tool("shrink", servers.tools()) is None
    assert made(servers, "grow").content == "grown"
    end = time.monotonic() + WAIT
    while find_tool("shrink", servers.tools()) is None:
        assert time.monotonic() < end, "the tool does not come"
        time.sleep(0.005)
    assert made(servers, "shrink").content == "shrunk"


def test_a_server_of_an_earlier_version(tmp_path: Path) -> None:
    """Its list of tools comes in pages, and it notifies by itself."""
    (folder := tmp_path / "there").mkdir()
    given = {"cwd": str(folder), "env": {"TOKEN": "t"}}
    with connect_mcp(raw(**given)) as servers:
        assert servers.names == ["raw"]
        names = [tool.name for tool in servers.tools()]
        assert names[:3] == ["echo", "look", "Odd_name__"]
        assert len(names) == 9
        assert made(servers, "Odd_name__", text="x").content == "Odd-name/é: x"
        where = json.loads(made(servers, "where").content)
        assert (where["cwd"], where["env"]["TOKEN"]) == (str(folder), "t")
        assert "PYTEST_CURRENT_TEST" not in where["env"]
        assert made(servers, "structured").content == 'It is warm.\n{"degrees": 31}'
        made(servers, "more")
        end = time.monotonic() + WAIT
        while find_tool("late", servers.tools()) is None:
            assert time.monotonic() < end, "the tool does not come"
            time.sleep(0.005)


def test_a_question_to_the_user_is_refused() -> None:
    with connect_mcp(raw()) as servers:
        answered = json.loads(made(servers, "question").content)
        assert answered == {"code": -32600, "message": "Elicitation not supported"}
        assert made(servers, "echo", text="x").content == "echo: x"


def test_a_call_takes_too_long(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with connect_mcp(raw(), timeout=0.3) as servers:
        made_call = made(servers, "hang", text=str(path))
        told = json.loads(made_call.content)["error"]
        assert told == "McpError: hang took longer than 0.3 s, and was cancelled"
        wait_for(path, "cancelled")


def test_a_server_that_ends_is_started_once_more() -> None:
    with connect_mcp(raw()) as servers:
        echo, die = ("echo", {"text": "a"}), ("die", {})
        ran = run(servers, die, echo, die)
        assert [one.outcome for one in ran.calls] == ["failed", "done", "failed"]
        assert "has ended during die; whether that had an effect" in ran.calls[0].content
        assert "has ended during die" in made(servers, "die").content
        assert "is not started any more" in made(servers, "echo", text="b").content


def test_a_server_that_has_ended_between_two_calls_is_started_for_the_next_one() -> None:
    with connect_mcp(raw()) as servers:
        for _ in range(2):
            process = json.loads(made(servers, "where").content)["process"]
            os.kill(process, signal.SIGTERM)
            end = time.monotonic() + WAIT
            while servers._connections[0]._client is not None:
                assert time.monotonic() < end, "nobody notices that it has ended"
                time.sleep(0.005)
            again = json.loads(made(servers, "where").content)["process"]
            assert again != process


def test_several_servers_have_name_spaces() -> None:
    with connect_mcp(raw("one"), raw("two", name="Other-1")) as servers:
        names = {tool.name for tool in servers.tools()}
        assert {"one__echo", "Other_1__echo"} <= names
        assert made(servers, "Other_1__echo", text="x").content == "echo: x"
        with pytest.raises(RequestError, match="connected already"):
            servers.__enter__()
    with pytest.raises(McpError, match="not connected"):
        servers.tools()
    twice = connect_mcp(raw(), raw())
    with pytest.raises(RequestError, match="two MCP servers are called 'raw'"), twice:
        pass


def test_asyncio(tmp_path: Path) -> None:
    async def go() -> Run:
        async with connect_mcp(raw("a"), raw("b")) as servers:
            names = ("a__echo", "b__echo")
            texts = "\n".join(hermes_call(name, '{"text": "x"}') for name in names)
            with scripted(texts, "Done.") as model:
                return await model.arun("Go.", servers.tools, sampling=GREEDY)

    ran = asyncio.run(go())
    assert [one.content for one in ran.calls] == ["echo: x", "echo: x"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none-such", "the MCP server none-such cannot be reached: there is no command"),
        ("http://127.0.0.1:9/mcp", "cannot be reached: All connection attempts failed"),
        (
            ServerCommand(sys.executable, ("-c", "raise SystemExit('no key')"), name="x"),
            "the MCP server x cannot be reached: Connection closed. It has printed: no key",
        ),
    ],
)
def test_servers_that_do_not_start(source: Any, message: str) -> None:
    with pytest.raises(McpError) as raised, connect_mcp(raw(), source):
        pass
    assert message in str(raised.value)


def test_a_server_that_is_never_ready() -> None:
    silent = ServerCommand(sys.executable, ("-c", "import sys; sys.stdin.read()"))
    servers = connect_mcp(silent, connect_timeout=0.3)
    with pytest.raises(McpError, match="it was not ready within"), servers:
        pass


def test_a_function_of_a_closed_server_says_so() -> None:
    with connect_mcp(raw()) as servers:
        tools = servers.tools()
    with pytest.raises(McpError, match="not connected"):
        call_function(ToolCall("echo", {"text": "a"}), tools)
