"""`constrained batch`: on the demo model of the package."""

import io
import json
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from constrained.cli.parser import main
from server.commands import BATCH

ROOT = Path(__file__).parents[3]
CHAT = "/v1/chat/completions"
Batch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def batch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Batch:
    """The command; gives its code and what it prints."""
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["batch", *arguments], [BATCH])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run


def write_lines(*ids: str, **changes: Any) -> str:
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4} | changes
    lines: list[str] = []
    for id in ids:
        line = {"custom_id": id, "method": "POST", "url": CHAT, "body": body}
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


def read_results(text: str) -> dict[str, Any]:
    return {line["custom_id"]: line for line in map(json.loads, text.splitlines())}


def test_lines_in_lines_out(batch: Batch, tmp_path: Path) -> None:
    given = tmp_path / "in.jsonl"
    messages = {"custom_id": "m", "method": "POST", "url": "/v1/messages"}
    messages["body"] = json.loads(write_lines("x"))["body"]
    given.write_text(write_lines("a", "b") + json.dumps(messages))
    code, out, err = batch(str(given))
    assert code == 0
    assert "note: no model is given" in err
    results = read_results(out)
    assert sorted(results) == ["a", "b", "m"]
    assert {result["response"]["status_code"] for result in results.values()} == {200}
    assert results["a"]["response"]["body"]["object"] == "chat.completion"
    assert results["a"]["response"]["body"]["model"] == "demo"
    assert results["m"]["response"]["body"]["type"] == "message"


def test_a_line_that_fails(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_lines("a") + write_lines("b", temperature="hot") + write_lines("c", stream=True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    out = tmp_path / "out.jsonl"
    code, printed, _ = batch("-", "-o", str(out))
    assert (code, printed) == (1, "")
    results = read_results(out.read_text())
    statuses = {name: result["response"]["status_code"] for name, result in results.items()}
    assert statuses == {"a": 200, "b": 400, "c": 400}
    assert "temperature" in json.dumps(results["b"])


def test_resuming(batch: Batch, tmp_path: Path) -> None:
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(write_lines("a", "b"))
    assert batch(str(given), "-o", str(out), "--resume")[0] == 0  # with nothing to go on with
    kept, lost = out.read_text().splitlines(keepends=True)
    out.write_text(kept + lost[:-9])  # as where the process was killed
    given.write_text(write_lines("a", "b", "c"))
    code, _, err = batch(str(given), "-o", str(out))
    assert code == 2
    assert "already exists" in err
    assert batch(str(given), "-o", str(out), "--resume")[0] == 0
    assert out.read_text().startswith(kept)
    assert sorted(read_results(out.read_text())) == ["a", "b", "c"]
    assert len(out.read_text().splitlines()) == 3


def test_resuming_what_has_failed(batch: Batch, tmp_path: Path) -> None:
    """The code speaks of all results, and no model is loaded where nothing is left."""
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(write_lines("a"))
    line = {"custom_id": "a", "response": {"status_code": 400, "body": {}}, "error": None}
    out.write_text(json.dumps(line) + "\n")
    assert batch(str(given), "-o", str(out), "--resume", "-m", "none.gguf")[0] == 1


@pytest.mark.parametrize(
    "line", ["nonsense\n", "[]\n", '{"custom_id": "a"}\n', write_lines("a"), "[" * 100_000 + "\n"]
)
def test_resuming_with_another_file(batch: Batch, tmp_path: Path, line: str) -> None:
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(write_lines("a"))
    out.write_text(line)
    code, _, err = batch(str(given), "-o", str(out), "--resume")
    assert code == 2
    assert "line 1, is not a result" in err
    assert out.read_text() == line


def test_lines_that_are_no_requests(batch: Batch, tmp_path: Path) -> None:
    """All of them are told, and nothing is begun."""
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(write_lines("a", "a") + "{\n" + write_lines("b"))
    code, _, err = batch(str(given), "-o", str(out))
    assert code == 2
    assert "line 2: custom_id 'a' is already used in line 1" in err
    assert "line 3: the line is not JSON" in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "5"], "-n belongs to a request"),
        (["--stop", "x"], "--stop belongs to a request"),
        (["--reasoning", "on"], "--reasoning belongs to a request"),
        (["--chat-template-kwargs", "{}x"], "--chat-template-kwargs belongs to a request"),
        (["--resume"], "name it with -o"),
        (["--timeout", "0"], "timeout"),
        ([], "FILE: No such file"),
    ],
)
def test_what_is_refused(batch: Batch, arguments: list[str], message: str) -> None:
    code, _, err = batch("none.jsonl", *arguments)
    assert code == 2
    assert message in err


def test_a_terminal_shows_how_far_it_is(
    batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "in.jsonl"
    given.write_text(write_lines("a"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, _, err = batch(str(given), "-o", str(tmp_path / "out.jsonl"))
    assert code == 0
    assert err.endswith("\r1 of 1 requests, 0 failed\n")


def test_the_package_declares_its_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["constrained.commands"]
    for name, place in declared.items():
        module, _, value = place.partition(":")
        command = getattr(import_module(module), value)
        assert command.name == name
        assert import_module(command.module).add
