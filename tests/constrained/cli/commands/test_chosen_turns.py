"""Options of `call` and `chat` that choose the turn that is the reply, and that search tools."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.model import Model
from tests.command_line import Run, write
from tests.constrained.model.trace.choosing_model import PAINT, choosing
from tests.scripted_model import scripted
from tests.templates import hermes_call

LIKELY = {"b": 0.2, "g": 0.5, "r": 0.3}
UNSURE = ("--min-confidence", "0.6", "--unsure")
SEARCH = hermes_call("search_tools", '{"query": "paint house"}')
PAINTED = hermes_call("paint", '{"colour": "red", "coats": 1}')


@pytest.fixture
def command(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The command line over a model, with tools, and a user who types these lines."""

    def command(model: Model, tools: Any, *words: str, lines: str = "") -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        monkeypatch.setattr("constrained.agent.loading.load", lambda *_, **__: model)
        path = write(tmp_path / "tools.json", json.dumps(tools))
        return run(*words, "--tools", path, "--temp", "0")

    return command


def test_call_asks_in_place_of_a_call(command: Any) -> None:
    code, out, err = command(choosing(LIKELY, {"1": 1}), [PAINT], "call", "Go.", *UNSURE, "ask")
    assert code == 0
    assert re.fullmatch(r"[^?<{]+\?\n", out)
    assert "not made: paint (confidence 0.50)" in err
    words = ("call", "Go.", "--json", *UNSURE, "decline")
    reply = json.loads(command(choosing(LIKELY, {"1": 1}), [PAINT], *words)[1])
    assert reply["unsure_calls"][0]["confidence"]["lowest"] == pytest.approx(0.5, abs=0.01)
    assert "tool_calls" not in reply


def test_chat_asks_in_place_of_a_call(command: Any) -> None:
    words = ("chat", *UNSURE, "ask")
    code, out, _ = command(choosing(LIKELY, {"1": 1}), [PAINT], *words, lines="Go.\n")
    assert code == 0
    assert "(not made: paint (confidence 0.50))" in out
    assert "?" in out


def test_call_searches_tools_and_leaves_what_it_finds_to_the_user(command: Any) -> None:
    words = ("call", "Go.", "--json", "--search-tools")
    code, out, err = command(scripted(SEARCH, PAINTED), [PAINT], *words)
    assert (code, json.loads(out)["tool_calls"][0]["name"]) == (0, "paint")
    assert 'search_tools(query="paint house") -> ' in err


def test_chat_searches_tools(command: Any) -> None:
    model = scripted(SEARCH, PAINTED, "Done.")
    out = command(model, [PAINT], "chat", "--search-tools", lines="Go.\npainted\n")[1]
    assert out.splitlines()[-1] == "Done."
    assert 'paint(colour="red", coats=1)' in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--unsure", "ask"), "belong together. Give --min-confidence"),
        (("--min-confidence", "0.5"), "belong together. Give --unsure"),
        (("--min-confidence", "2", "--unsure", "ask"), "must be from 0 to 1"),
    ],
)
def test_what_cannot_be(command: Any, words: tuple[str, ...], message: str) -> None:
    code, _, err = command(scripted("x"), [PAINT], "call", "Go.", *words)
    assert code == 2
    assert message in err


def test_a_search_needs_tools(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.agent.loading.load", lambda *_, **__: scripted("x"))
    code, _, err = run("call", "Go.", "--search-tools")
    assert (code, "no tools to search" in err) == (2, True)
