"""A real vLLM on the CPU, on the demo model and on one with random weights."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from constrained.model_files import embedded
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.templates import HERMES
from tests.vllm.hugging_face import write_hugging_face
from tests.vllm.vllm_server import VLLM, run_vllm


@pytest.fixture(scope="session", autouse=True)
def vllm() -> None:
    """Skips the tests where it is not installed."""
    if not VLLM.exists():
        pytest.skip(f"there is no {VLLM}: make .venv-vllm/.ready")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a vLLM with the demo model."""
    folder = write_hugging_face(embedded.PATH, tmp_path_factory.mktemp("demo"))
    with run_vllm(folder) as host:
        yield host


@pytest.fixture(scope="session")
def random_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights."""
    path = tmp_path_factory.mktemp("random") / "random.gguf"
    return write_model(path, with_markers(load_small(), MARKERS), HERMES)


@pytest.fixture(scope="session")
def adversary(random_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a vLLM with random weights."""
    folder = write_hugging_face(random_file, tmp_path_factory.mktemp("adversary"))
    with run_vllm(folder) as host:
        yield host
