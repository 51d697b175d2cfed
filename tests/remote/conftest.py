"""A real llama-server (extra `remote`), on the demo model and on one with random weights."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from constrained import embedded
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.templates import HERMES

CONTEXT = 4096


@contextmanager
def run_llama_server(model: Path) -> Iterator[str]:
    """Serves a model; gives host and port."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.peer_processes.llama_server_peer",
        str(model),
        "1",
        str(CONTEXT),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield json.loads(process.stdout.readline())["url"].removeprefix("http://")
        process.stdin.close()
        process.wait(30)


@pytest.fixture(scope="session", autouse=True)
def llama_server() -> None:
    """Skips the tests where the package is not installed; in continuous integration they fail."""
    if find_spec("xllamacpp") is None and not os.environ.get("CI"):
        pytest.skip("needs a llama-server: make .venv/.ready-remote")


@pytest.fixture(scope="session")
def demo() -> Iterator[str]:
    """Host and port of a llama-server with the demo model."""
    with run_llama_server(embedded.PATH) as host:
        yield host


@pytest.fixture(scope="session")
def random_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights."""
    path = tmp_path_factory.mktemp("random") / "random.gguf"
    return write_model(path, with_markers(load_small(), MARKERS), HERMES)


@pytest.fixture(scope="session")
def adversary(random_file: Path) -> Iterator[str]:
    """Host and port of a llama-server with random weights."""
    with run_llama_server(random_file) as host:
        yield host
