"""A real llama-server (extra `remote`), on the demo model and on one with random weights."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from constrained.model_files import embedded
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.llama_server import run_llama_server
from tests.templates import HERMES


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
