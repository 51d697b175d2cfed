"""SmolLM2 135M Instruct (extra `real`), loaded once for all tests of a process."""

import os
from collections.abc import Iterator

import httpx
import pytest

from constrained import Model, load
from constrained.errors import ModelError
from constrained.model_files.packaged import find_packaged
from tests.real.asks import CONTEXT
from tests.server.running_server import running

NAME = "smollm2"


@pytest.fixture(scope="session")
def name() -> str:
    """The name of the model, for `load`; skips the test where it is not installed.

    In continuous integration (`CI` is set) nothing is skipped: the error fails the test.
    """
    try:
        find_packaged(NAME)
    except ModelError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"needs real weights: {error}")
    return NAME


@pytest.fixture(scope="session")
def model(name: str) -> Iterator[Model]:
    """The model as users have it: with drafts, prompt reuse and a cache."""
    with load(name, context_length=CONTEXT, threads=1, sequences=2) as model:
        yield model


@pytest.fixture(scope="session")
def exact(name: str) -> Iterator[Model]:
    """The model whose replies depend on request and seed alone."""
    settings = {"context_length": CONTEXT, "threads": 1, "sequences": 2}
    with load(name, deterministic=True, **settings) as model:
        yield model


@pytest.fixture(scope="session")
def server(name: str) -> Iterator[httpx.Client]:
    """A server that has the model, and a client of it."""
    settings = {"context_length": CONTEXT, "threads": 1, "sequences": 2}
    with running(load(name, deterministic=True, **settings), name=name) as client:
        yield client


@pytest.fixture(scope="session")
def url(server: httpx.Client) -> str:
    """Where the server is."""
    return str(server.base_url).rstrip("/")
