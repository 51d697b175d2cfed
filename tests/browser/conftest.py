"""Pages in a real browser: Debian's Chromium, driven by Playwright (extra `browser`)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from constrained import load
from tests.server.running_server import running

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
HINT = "install chromium, and the extra `browser` (make test-browser)"


def find_browser() -> str | None:
    """The path of a browser; None: there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@dataclass
class Watched:
    """A page, and what it complained of.

    Attributes:
        address: of the server.
        foreign: addresses that it asked for elsewhere.
        complaints: errors of scripts, and of the console.
    """

    page: Any
    address: str
    foreign: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = find_browser()
    if path is None and not os.environ.get("CI"):
        pytest.skip(HINT)
    assert path is not None, HINT
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Of a server with the demo model."""
    with running(lambda: load(sequences=2, context_length=4096)) as client:
        yield str(client.base_url)


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    with watch(browser, address) as seen:
        yield seen


@contextmanager
def watch(browser: Any, address: str) -> Iterator[Watched]:
    """A new page of a browser that remembers nothing, held against its complaints in the end."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    seen = Watched(page, address)

    def note_request(request: Any) -> None:
        if not request.url.startswith((address, "data:", "about:", "blob:", "file:")):
            seen.foreign.append(request.url)

    def note_console(message: Any) -> None:
        if message.type == "error":
            seen.complaints.append(message.text)

    page.on("request", note_request)
    page.on("console", note_console)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    yield seen
    page.close()
    assert seen.complaints == []
    assert seen.foreign == []
