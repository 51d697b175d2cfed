"""Takes the picture of the page in the documentation: `python -m tests.browser.pictures`."""

import argparse
from pathlib import Path
from typing import Any

from constrained import load
from tests.browser.conftest import FLAGS, HINT, Watched, find_browser, watch
from tests.browser.page_checks import PARIS, ask, open_chat, send_results
from tests.server.running_server import running

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1400, 800


def take_chat(watched: Watched, folder: Path) -> None:
    """A list of conversations; a question, a call with its result, the answer; the form."""
    page = open_chat(watched)
    ask(page, PARIS)
    send_results(page)
    page.click("#new")
    ask(page, "What is the weather in Tokyo in fahrenheit?")
    send_results(page)
    page.locator("h1").hover()
    page.screenshot(path=folder / "playground.png")


def main() -> None:
    """Starts a server with the demo model, and a browser."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: that of the docs")
    folder: Path = parser.parse_args().folder
    path = find_browser()
    assert path is not None, HINT
    with running(load) as client, sync_playwright() as playwright:
        browser: Any = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        with watch(browser, str(client.base_url)) as watched:
            watched.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            take_chat(watched, folder)
        browser.close()


if __name__ == "__main__":
    main()
