"""The code of the README and of the pages in `docs` runs, each block alone, on the demo model."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from constrained import load
from constrained.cli.commands import COMMANDS
from constrained.cli.parser import make_parser
from constrained.model_files import embedded
from server.commands import CLUSTER, SERVE
from tests.server.running_server import running
from tests.snippets import ROOT, RUN_EACH, read_commands, read_pages, read_snippets

MAX_WORDS = 900
SERVER = "http://127.0.0.1:8080"
TOOLS = [
    {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
PAGES = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in read_pages()}
WITH_PYTHON = [name for name, text in PAGES.items() if "```python\n" in text]


def asks_a_server(name: str) -> bool:
    """Is there a Python block on this page that needs a server?"""
    snippets = read_snippets(PAGES[name])
    return any(one.language == "python" and SERVER in one.code for one in snippets)


CLIENTS = [name for name in WITH_PYTHON if asks_a_server(name)]
WITH_COMMANDS = [name for name, text in PAGES.items() if read_commands(read_snippets(text))]


def run_python(pages: Sequence[str], folder: Path, url: str = SERVER) -> None:
    """Runs all Python blocks of pages in one process, each with its own names."""
    (folder / "model.gguf").symlink_to(embedded.PATH)
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    programs: list[str] = []
    for page in pages:
        for snippet in read_snippets(PAGES[page]):
            if snippet.language == "python":
                program = folder / f"{Path(page).stem}_line_{snippet.line}.py"
                program.write_text(snippet.code.replace(SERVER, url), encoding="utf-8")
                programs.append(program.name)
    assert programs
    # One thread: several that wait for each other on a busy machine are many times slower.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_EACH, *programs],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def run_curl(name: str, url: str) -> None:
    """Runs the blocks of a page that call curl; each has to get JSON without an error."""
    for snippet in read_snippets(PAGES[name]):
        if snippet.language == "sh" and snippet.code.startswith("curl "):
            script = snippet.code.replace("curl ", "curl -sSf ", 1).replace(SERVER, url)
            done = subprocess.run(
                ["bash", "-c", script], capture_output=True, text=True, check=True
            )
            assert "error" not in json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted({*WITH_PYTHON} - {*CLIENTS}))
def test_each_python_block_runs_as_pasted(name: str, tmp_path: Path) -> None:
    run_python([name], tmp_path)


def test_each_block_that_asks_a_server_runs(tmp_path: Path) -> None:
    with running(load(threads=1, sequences=2)) as client:
        url = str(client.base_url).rstrip("/")
        run_python(CLIENTS, tmp_path, url)
        if shutil.which("curl"):
            for name in CLIENTS:
                run_curl(name, url)


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_are_ones_that_the_command_line_takes(name: str) -> None:
    parser = make_parser([*COMMANDS, SERVE, CLUSTER])
    for line in read_commands(read_snippets(PAGES[name])):
        words = shlex.split(line, comments=True)[1:]
        try:
            parser.parse_args(words)
        except SystemExit as stop:
            if stop.code:
                pytest.fail(f"{name}: {line}")


@pytest.mark.parametrize("name", PAGES)
def test_json_blocks_are_json(name: str) -> None:
    for snippet in read_snippets(PAGES[name]):
        if snippet.language == "json":
            json.loads(snippet.code)


def test_the_readme_is_read_in_a_few_minutes() -> None:
    words = re.findall(r"\S+", PAGES["README.md"])
    assert len(words) <= MAX_WORDS


def test_blocks_know_their_language_and_line() -> None:
    text = "a\n```python\nx = 1\n```\n```\nconstrained call hi \\\n  --json\n```\n"
    first, second = read_snippets(text)
    assert (first.language, first.code, first.line) == ("python", "x = 1\n", 3)
    assert (second.language, second.line) == ("", 6)
    assert read_commands([first, second]) == ["constrained call hi    --json"]
