"""Packages of the user's that have the names of ours: one clear line, in Python and at the start of
the command line; and the name that this project is installed by."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import constrained
import grammars
import server
from constrained.cli.parser import UnavailableCommand, main
from constrained.errors import own_packages
from constrained.errors.own_packages import PROJECT, install_command

ROOT = Path(__file__).parents[3]


def test_all_packages_know_the_name_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {PROJECT, grammars.PROJECT, server.PROJECT} == {project["name"]}
    extras = project["optional-dependencies"]
    assert {"server", "suite", "real"} <= extras.keys()
    assert install_command("server") == f"pip install '{project['name']}[server]'"


def test_no_other_name_is_recommended() -> None:
    for pattern in ("*.md", "grammars/**/*.py", "constrained/**/*.py", "server/**/*.py"):
        for path in ROOT.glob(pattern):
            found = re.search(r"pip install '?constrained(?!-calls)", path.read_text("utf-8"))
            assert found is None, path


def run_beside(folder: Path, package: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder that has a package of this name."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("", "utf-8")
    path = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; "
    code = path + command[0]
    return subprocess.run(
        [sys.executable, "-c", code, *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.parametrize(
    "statement", ["from constrained import load", "from constrained.errors import ModelError"]
)
def test_another_grammars_is_told_to_the_library(tmp_path: Path, statement: str) -> None:
    done = run_beside(tmp_path, "grammars", statement)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: `grammars` is not the package that comes with")
    assert str(tmp_path / "grammars") in last


def test_another_grammars_is_one_line_of_the_command(tmp_path: Path) -> None:
    start = "from constrained.__main__ import main; sys.exit(main())"
    done = run_beside(tmp_path, "grammars", start, "call", "hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("constrained: error: `grammars` is not the package")
    assert done.stderr.count("\n") == 1


def test_another_server_leaves_the_other_commands(tmp_path: Path) -> None:
    start = "from constrained.__main__ import main; sys.exit(main())"
    done = run_beside(tmp_path, "server", start, "formats")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "second").mkdir()
    done = run_beside(tmp_path / "second", "server", start, "serve", "--port", "1")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_that_cannot_be_imported_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    command = UnavailableCommand("serve", "`server` is not the package that comes with us")
    for words in (["serve"], ["serve", "--port", "1", "-m", "x"], ["serve", "--help"]):
        assert main(words, commands=[command]) == 2
        assert capsys.readouterr().err.startswith("constrained: error: `server` is not")


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert constrained.__version__ == own_packages.read_version()
    monkeypatch.setattr(own_packages, "PROJECT", "no-such-distribution")
    assert own_packages.read_version() == "not installed"
