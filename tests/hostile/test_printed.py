"""No raw control characters at a terminal, from whatever is stored or in a model."""

import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import HERMES, PING
from tests.terminal import Terminal

EVIL = "\x1b]0;title\x07\x9b2J\x08\x00"
STYLES = re.compile(r"\x1b\[[0-9;]*m")  # ours, such as bold
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def record_runs(folder: Path) -> str:
    path = folder / "runs.db"
    scripted("Done.").run(f"Go{EVIL}.", [PING], record=path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE runs SET id = ?, state = ?, parent = ?", (EVIL, EVIL, EVIL))
        database.execute("UPDATE events SET run = ?", (EVIL,))
    database.close()
    return str(path)


def write_all(folder: Path) -> list[list[str]]:
    """The commands, and what they read."""
    runs = record_runs(folder)
    template = folder / f"{EVIL[:-1]}.jinja"
    template.write_text(HERMES.replace("<tool_call>", f"<tool_call{EVIL}>"))
    row = {"text": EVIL, "format": "hermes", "tools": []}
    return [
        ["runs", "list", runs],
        ["runs", "show", runs],
        ["runs", "show", runs, "nothing\x1b[2J"],
        ["formats", "detect", str(template), "--verbose"],
        ["doctor", str(template)],
        ["check", write(folder / "rows.jsonl", row)],
    ]


def test_nothing_stored_commands_a_terminal(tmp_path: Path) -> None:
    for words in write_all(tmp_path):
        with Terminal("-m", "constrained", *words, TERM="xterm") as terminal:
            terminal.wait()
            shown = STYLES.sub("", terminal.shown)
        assert len(shown) > 10, words
        assert not CONTROLS.search(shown), (words, shown)


@pytest.mark.parametrize("words", [["list"], ["show"]])
def test_a_report_in_a_pipe_has_none_either(tmp_path: Path, run: Run, words: Sequence[str]) -> None:
    _, out, err = run("runs", *words, record_runs(tmp_path))
    assert not CONTROLS.search(out + err)
    assert json.dumps("\\x1b]0;title")[1:-1] in json.dumps(out)
