"""The Python of the README runs, one block after the other, on the model of the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

from constrained import embedded

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def python_of(text: str) -> str:
    """All Python blocks as one program, on the lines where they stand."""
    program = [""] * (text.count("\n") + 1)
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        start = text.count("\n", 0, block.start(1))
        lines = block[1].splitlines()
        program[start : start + len(lines)] = lines
    return "\n".join(program) + "\n"


def test_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").symlink_to(embedded.PATH)
    program = python_of(README.read_text(encoding="utf-8"))
    assert program.count("model.") > 8
    (tmp_path / "readme.py").write_text(program, encoding="utf-8")
    # One thread: several that wait for each other on a busy machine are many times slower.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "readme.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_blocks_keep_their_lines() -> None:
    text = "a\n```python\nx = 1\n```\n```\nno\n```\n```python\ny = 2\n```\n"
    assert python_of(text).splitlines() == ["", "", "x = 1", *[""] * 5, "y = 2", "", ""]
    assert python_of("no code\n").split() == []
