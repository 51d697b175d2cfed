"""`--trace FILE` and `constrained trace FILE`."""

import json
from pathlib import Path

import pytest

from constrained.cli.terminal.exit_codes import ExitCode
from tests.command_line import Run, write
from tests.templates import PING


def test_a_trace_of_a_call(run: Run, tmp_path: Path):
    tools = write(tmp_path / "tools.json", [PING])
    path = tmp_path / "turns.jsonl"
    words = ["call", "Ping, please.", "--tools", tools, "--tool-choice", "required"]
    for more in ([], ["--stream"]):
        code, out, _ = run(*words, "--trace", str(path), *more)
        assert (code, out) == (ExitCode.DONE, "ping()\n")
    traces = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [trace["finish_reason"] for trace in traces] == ["stop", "stop"]
    code, out, _ = run("trace", str(path))
    page = tmp_path / "turns.html"
    assert (code, out) == (ExitCode.DONE, f"{page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    code, out, _ = run("trace", str(path), "-o", "-")
    assert out == page.read_text("utf-8")
    code, out, _ = run("trace", "--text", str(path))
    assert (code, "turn 2" in out, "ping" in out) == (ExitCode.DONE, True, True)


def test_some_traces_of_a_file(run: Run, tmp_path: Path):
    tools = write(tmp_path / "tools.json", [PING])
    path = tmp_path / "turns.jsonl"
    run("call", "Ping.", "--tools", tools, "--tool-choice", "required", "--trace", str(path))
    trace = json.loads(path.read_text("utf-8"))
    lines = [{"request": {"id": f"r{n}", "time": "t", "model": "m"}, **trace} for n in range(5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    _, out, _ = run("trace", "--text", str(path), "--last", "2")
    assert ("request r3" in out, "request r2" in out) == (True, False)
    _, out, _ = run("trace", "--text", "--tokens", str(path), "--request", "r1")
    assert ("request r1" in out, "request r2" in out) == (True, False)
    assert "tool name of call 1" in out
    for words in (["--request", "r9"], ["--last", "0"]):
        code, out, err = run("trace", "--text", str(path), *words)
        assert (code, out) == (ExitCode.USAGE, "")
        assert words[1] in err


def test_what_is_no_trace(run: Run, tmp_path: Path):
    for content in ("", "{", '{"version": 0}', "[]"):
        path = write(tmp_path / "no.jsonl", content)
        code, out, err = run("trace", path)
        assert (code, out) == (ExitCode.USAGE, "")
        assert path in err
        assert "--trace" in err
    code, _, err = run("trace", str(tmp_path / "none.jsonl"))
    assert code == ExitCode.USAGE
    assert "No such file" in err


def test_a_trace_that_cannot_be_written(run: Run, tmp_path: Path):
    code, _, err = run("call", "hi", "-n", "4", "--trace", str(tmp_path))
    assert code == ExitCode.USAGE
    assert "--trace: Is a directory" in err


def test_a_trace_that_is_damaged(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    token = {"text": "a", "source": "drawn", "token": "a"}
    whole = {"version": 1, "format": "hermes", "start_state": "plain", "finish_reason": "stop"}
    for tokens, fault in ((5, "TypeError"), ([{}], "KeyError"), ([{**token, "text": 1}], "Type")):
        path = write(tmp_path / "damaged.jsonl", {**whole, "tokens": tokens})
        code, _, err = run("trace", "--text", path)
        assert code == ExitCode.USAGE
        assert "no trace can be shown" in err
        assert f"turn 1 cannot be read: {fault}" in caplog.text
    path = write(tmp_path / "damaged.jsonl", {**whole, "tokens": [token], "request": "r"})
    assert run("trace", "--text", path, "--request", "r1")[0] == ExitCode.USAGE
