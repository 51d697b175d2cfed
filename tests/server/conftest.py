"""Servers that tests of several dialects ask."""

from collections.abc import Iterator

import httpx
import pytest

from tests.scripted_model import OPENED, scripted
from tests.server.running_server import running
from tests.templates import OPEN, hermes_call


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    with running(scripted("Hello there, friend.")) as client:
        yield client


@pytest.fixture(scope="module")
def painter() -> Iterator[httpx.Client]:
    said = "I paint." + hermes_call("paint", '{"color": "red", "glossy": true}')
    with running(scripted(said)) as client:
        yield client


@pytest.fixture(scope="module")
def thinker() -> Iterator[httpx.Client]:
    with running(scripted("I wonder.\n</think>\n\nHello.", source=OPEN, turn=OPENED)) as client:
        yield client
