"""Tools of MCP servers in `call` and `chat`."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import hermes_call

SERVER = str(Path(__file__).parents[2] / "agent" / "mcp" / "raw_server.py")
MCP = ("--mcp", f"{sys.executable} {SERVER}")
ECHO = hermes_call("echo", '{"text": "hi"}')
LOOK = hermes_call("look", '{"text": "hi"}')


@pytest.fixture
def command(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line over a scripted model, whose user types these lines."""

    def command(*words: str, scripts: tuple[str, ...], lines: tuple[str, ...] = ()) -> Any:
        data = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr("constrained.agent.loading.load", lambda *_, **__: scripted(*scripts))
        return run(*words)

    return command


def chat(command: Any, *lines: str, scripts: tuple[str, ...], words: tuple[str, ...] = ()) -> Any:
    return command("chat", *MCP, "--temp", "0", *words, scripts=scripts, lines=("Go.", *lines))


def test_the_user_of_a_chat_allows_calls(command: Any) -> None:
    code, out, err = chat(command, "y", scripts=(ECHO, "Done."))
    assert (code, out.splitlines(), err) == (0, ['echo(text="hi")', "-> echo: hi", "Done."], "")


@pytest.mark.parametrize(("line", "said"), [("", "not allow"), ("Not now.", "Not now.")])
def test_the_user_of_a_chat_declines_calls(command: Any, line: str, said: str) -> None:
    out = chat(command, line, scripts=(ECHO, "Done."))[1]
    assert "not executed: " in out
    assert said in out


def test_calls_that_only_read_are_not_asked_about(command: Any) -> None:
    out = chat(command, scripts=(LOOK, "Done."))[1]
    assert out.splitlines()[1:] == ["-> look: hi", "Done."]
    out = chat(command, scripts=(ECHO, "Done."), words=("--yes",))[1]
    assert out.splitlines()[1:] == ["-> echo: hi", "Done."]


def test_call_goes_on_until_the_model_answers(command: Any) -> None:
    words = ("call", "Go.", *MCP, "--temp", "0", "--json")
    code, out, err = command(*words, "--yes", scripts=(ECHO, LOOK, "Done."))
    assert (code, json.loads(out)["content"]) == (0, "Done.")
    assert 'echo(text="hi") -> echo: hi' in err
    assert 'look(text="hi") -> look: hi' in err
    err = command(*words, scripts=(ECHO, "Done."))[2]
    assert "nobody can be asked" in err
    assert "ended" not in err


def test_tools_without_a_server_are_left_to_the_user(command: Any, tmp_path: Path) -> None:
    tools = write(tmp_path / "tools.json", [{"name": "ping"}])
    words = ("call", "Go.", *MCP, "--temp", "0", "--tools", tools)
    code, out, err = command(*words, scripts=(hermes_call("ping"),))
    assert (code, out) == (0, "ping()\n")
    assert "ended: tool_calls" in err


def test_several_servers_of_a_file(command: Any, tmp_path: Path) -> None:
    servers = {
        "a": {"command": sys.executable, "args": [SERVER], "unknown": 1},
        "b": {"command": sys.executable, "args": [SERVER]},
    }
    path = write(tmp_path / "mcp.json", {"mcpServers": servers})
    calls = "\n".join(hermes_call(f"{name}__look", '{"text": "x"}') for name in "ab")
    words = ("call", "Go.", "--mcp-config", path, "--temp", "0")
    code, out, err = command(*words, scripts=(calls, "Done."))
    assert (code, out) == (0, "Done.\n")
    assert f"{path}: /mcpServers/a/unknown is ignored" in err
    assert 'b__look(text="x") -> look: x' in err


@pytest.mark.parametrize("name", ["call", "chat"])
def test_mistakes(command: Any, name: str, tmp_path: Path) -> None:
    message = ("Go.",) if name == "call" else ()
    for words, said in (
        (("--mcp", "none-such"), "there is no command 'none-such'"),
        (("--mcp-config", "none.json"), "none.json: No such file"),
        ((*MCP, "--mcp-timeout", "0"), "timeout is 0"),
    ):
        code, _, err = command(name, *message, *words, scripts=("Done.",))
        assert code != 0
        assert said in err
