"""How the project is set up and deployed: which wheel of llama.cpp is taken, and that the files in
examples/deploy name what there is."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.terminal import Terminal

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples" / "deploy"
COMPILE = "-m pip install --verbose llama-cpp-python>=0.3.36,<0.4"
DEFINED = f"LLAVA_BUILD=OFF;CMAKE_PROJECT_llama.cpp_INCLUDE={ROOT}/.ci/llama_only.cmake"
FAKE = """#!/usr/bin/env bash
echo "$CMAKE_ARGS|$SKBUILD_CMAKE_DEFINE|$*" >> "{log}"
case "$*" in
  "-c import llama_cpp") test -e "{installed}" ;;
  *"cache list"*) echo "{cached}" ;;
  *--only-binary*) {prebuilt} && touch "{installed}" ;;
  *uninstall*) rm -f "{installed}" ;;
  *"pip install --verbose llama-cpp-python"*) {compile} ;;
esac
"""


def write_python(
    folder: Path, *, cached: str = "", prebuilt: str = "false", compiling: str = "true"
) -> Path:
    """Writes a Python that notes the commands that it is given."""
    python = folder / "python"
    python.write_text(
        FAKE.format(
            log=folder / "log",
            installed=folder / "installed",
            cached=cached,
            prebuilt=prebuilt,
            compile=compiling,
        )
    )
    python.chmod(0o755)
    return python


def install(python: Path, **variables: str) -> tuple[str, list[str]]:
    """What the script says, and the commands that it gives to a Python."""
    env = {name: value for name, value in os.environ.items() if name != "CMAKE_ARGS"}
    done = subprocess.run(
        [ROOT / ".ci" / "install_engine", python],
        env=env | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, python.with_name("log").read_text().splitlines()


def test_a_prebuilt_wheel_is_taken_where_one_runs(tmp_path: Path) -> None:
    said, commands = install(write_python(tmp_path, prebuilt="true"))
    assert "nothing is compiled" in said
    assert not [line for line in commands if "pip install --verbose llama" in line]
    asked = next(line for line in commands if "--only-binary" in line)
    assert "--index-url https://abetlen.github.io/llama-cpp-python/whl/cpu " in asked
    assert "--no-deps" in asked
    assert "llama-cpp-python>=0.3.36,<0.4" in asked


def test_without_one_it_is_compiled_and_said_why(tmp_path: Path) -> None:
    said, commands = install(write_python(tmp_path), LLAMA_CPP_INDEX="http://127.0.0.1:9/whl")
    assert "No prebuilt wheel that runs here: compiling" in said
    assert commands[-1] == f"|{DEFINED}|{COMPILE}"
    assert (ROOT / ".ci" / "llama_only.cmake").is_file()


def test_a_prebuilt_wheel_that_does_not_run_is_replaced(tmp_path: Path) -> None:
    broken = "true || true; exit 0; true"  # pip succeeds, the import does not
    said, commands = install(write_python(tmp_path, prebuilt=broken))
    assert any("uninstall" in line for line in commands)
    assert "compiling" in said


@pytest.mark.parametrize(
    ("cached", "variables"),
    [("- llama_cpp_python-0.3.36.whl", {}), ("", {"CMAKE_ARGS": "-DGGML_CUDA=on"})],
)
def test_who_has_a_wheel_or_wants_a_gpu_asks_no_index(
    tmp_path: Path, cached: str, variables: dict[str, str]
) -> None:
    _, commands = install(write_python(tmp_path, cached=cached), **variables)
    assert not [line for line in commands if "--only-binary" in line]
    assert commands[-1] == f"{variables.get('CMAKE_ARGS', '')}|{DEFINED}|{COMPILE}"


def test_a_compilation_that_fails_shows_why(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        install(write_python(tmp_path, compiling="echo 'no CMake here'; exit 3"))
    assert failed.value.returncode == 3
    assert failed.value.stderr == "no CMake here\n"


@pytest.mark.parametrize("line", ["  [45/90] c++ a.cpp", "  [ 50%] Building a.o"])
def test_a_terminal_shows_how_far_the_compilation_is(tmp_path: Path, line: str) -> None:
    python = write_python(tmp_path, compiling=f"echo '{line}'; sleep 3")
    script = ROOT / ".ci" / "install_engine"
    with Terminal("-c", f"import os; os.execv('{script}', ['sh', '{python}'])") as terminal:
        assert terminal.wait() == 0
    shown = r"\[##########          \] (45 of 90|50 of 100), about \d min \d+ s left"
    assert re.search(shown, terminal.shown), terminal.shown


def test_the_container_copies_what_the_wheel_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = set[str]()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        copied |= set(sources.split())
    assert {"grammars", "constrained", "server", "pyproject.toml"} <= copied
    assert DEFINED.replace(f"{ROOT}/.ci/", "/source/") in text
    assert ".ci/llama_only.cmake" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
    assert "USER constrained" in text


def test_compose_builds_that_file() -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"][
        "constrained"
    ]
    context = (DEPLOY / service["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / service["build"]["dockerfile"]).is_file()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_one() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", DEPLOY / "constrained.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "/opt/constrained" not in line]
    assert complaints == []
