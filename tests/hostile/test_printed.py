"""No raw control characters at a terminal, from whatever is stored or in a model."""

import re
from pathlib import Path

from tests.command_line import write
from tests.templates import HERMES
from tests.terminal import Terminal

EVIL = "\x1b]0;title\x07\x9b2J\x08\x00"
STYLES = re.compile(r"\x1b\[[0-9;]*m")  # ours, such as bold
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def write_all(folder: Path) -> list[list[str]]:
    """The commands, and what they read."""
    template = folder / f"{EVIL[:-1]}.jinja"
    template.write_text(HERMES.replace("<tool_call>", f"<tool_call{EVIL}>"))
    row = {"text": EVIL, "format": "hermes", "tools": []}
    return [
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
