"""Colours, tables and progress, at a terminal and in a pipe."""

import io
import os
import sys
from pathlib import Path

import pytest

from constrained.cli.terminal.output import (
    has_colour,
    print_json,
    print_table,
    set_colour,
    show_progress,
)
from tests.command_line import Run
from tests.terminal import Terminal

RED = "\x1b[1;31m"


def start(*words: str, **environment: str) -> Terminal:
    return Terminal("-m", "constrained", *words, **environment)


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]):
    print_table([{"name": "a", "size": 5}, {"name": "日本", "size": None}], right=("size",))
    assert capsys.readouterr().out == "name  size\na        5\n日本     -\n"
    print_table([{"name": "x" * 300, "odd": "\x1b[2J"}, {"name": "[red]", "odd": [1, True]}])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [["x" * 300, "\\x1b[2J"], ["[red]", "1,", "yes"]]
    print_table([])
    assert capsys.readouterr().out == ""


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_at_a_terminal_has_no_control_characters(monkeypatch: pytest.MonkeyPatch):
    terminal, pipe = FakeTerminal(), io.StringIO()
    for out in (terminal, pipe):
        monkeypatch.setattr(sys, "stdout", out)
        print_json("\x1b\x9b日")
    assert terminal.getvalue() == '"\\u001b\\u009b日"\n'
    assert pipe.getvalue() == '"\\u001b\x9b日"\n'


@pytest.mark.parametrize(
    ("choice", "variables", "is_coloured"),
    [
        ("auto", "", True),
        ("auto", "NO_COLOR", False),
        ("auto", "NO_COLOR FORCE_COLOR", False),
        ("never", "", False),
        ("never", "FORCE_COLOR", False),
        ("always", "NO_COLOR", True),
    ],
)
def test_what_decides_about_colours(
    monkeypatch: pytest.MonkeyPatch, choice: str, variables: str, is_coloured: bool
):
    monkeypatch.setattr(os, "environ", {"TERM": "xterm", **dict.fromkeys(variables.split(), "1")})
    set_colour(choice)
    assert has_colour(FakeTerminal()) == is_coloured
    assert has_colour(io.StringIO()) == (choice == "always")


def test_errors_have_a_colour_at_a_terminal():
    with start("formats", "detect", "none.jinja") as shown:
        assert RED in shown.wait_for("none.jinja")
        assert shown.wait() == 2


def test_a_pipe_gets_no_colour(run: Run, monkeypatch: pytest.MonkeyPatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in run("formats", "detect", "none.jinja")[2]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert RED in run("formats", "detect", "none.jinja")[2]


def test_there_is_no_progress_in_a_pipe(capsys: pytest.CaptureFixture[str]):
    with show_progress("downloading") as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


PROGRESS = """
import sys
from constrained.cli.terminal.output import show_progress
with show_progress("downloading") as report:
    for done in range(0, 3_000_001, 1_000_000):
        report(done, 3_000_000)
print("done")
"""


def test_progress_at_a_terminal(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(f"sys_path = {sys.path!r}\nimport sys\nsys.path[:] = sys_path\n{PROGRESS}")
    with Terminal(str(script), COLUMNS="100") as shown:
        text = shown.wait_for("done")
        assert "downloading" in text
        assert "3.0/3.0 MB" in text
        assert "100%" in text
        assert shown.wait() == 0
