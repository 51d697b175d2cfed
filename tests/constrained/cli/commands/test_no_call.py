"""`call` and `chat` say that there is no call where small models hardly call, once."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.cli.request import NO_CALL
from constrained.prompt.format_selection.generic import CHATML
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import PING, hermes_call

CALL = hermes_call("ping")


@pytest.fixture
def command(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Counts the notes on stderr of a command whose user types these lines."""

    def command(model: Model, *words: str, lines: str = "") -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        monkeypatch.setattr("constrained.agent.loading.load", lambda *_, **__: model)
        path = write(tmp_path / "tools.json", json.dumps([PING]))
        code, _, err = run(*words, "--tools", path, "--temp", "0")
        assert code == 0
        return err.count(NO_CALL)

    return command


@pytest.mark.parametrize("way", [(), ("--stream",), ("--json",)])
def test_call_says_so(command: Any, way: tuple[str, ...]) -> None:
    assert command(scripted("Hi.", source=CHATML), "call", "Ping!", *way) == 1
    assert command(scripted(CALL, source=CHATML), "call", "Ping!", *way) == 0
    assert command(scripted("Hi."), "call", "Ping!", *way) == 0


def test_call_says_nothing_where_calls_are_not_optional(command: Any) -> None:
    model = scripted(CALL, source=CHATML)
    assert command(model, "call", "Ping!", "--tool-choice", "required") == 0
    assert command(scripted("Hi.", source=CHATML), "call", "Ping!", "--tool-choice", "none") == 0


def test_chat_says_so_once(command: Any) -> None:
    assert command(scripted("Hi.", source=CHATML), "chat", lines="Ping!\nPing!\n") == 1
    model = scripted(CALL, "Pong.", source=CHATML)
    assert command(model, "chat", lines="Ping!\nwell\n") == 0
