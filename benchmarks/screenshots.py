"""Pictures of the playground and of a trace, made in Chromium with the demo model.

    python -m benchmarks.screenshots [--to docs/images]

It needs Chromium and the extra `browser`. What the pictures show is what the model really writes.
"""

import argparse
from pathlib import Path
from typing import Any

# Of the extra `browser`, which need not be installed where types are checked.
from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

from constrained import load
from tests.browser.conftest import FLAGS, find_browser
from tests.server.running_server import running

QUESTION = "What's the weather in Paris?"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1100, 700


def draw(page: Any, address: str, folder: Path) -> None:
    """The chat, the trace of its first turn, and the workbench with a mistake in its text."""
    page.goto(f"{address}/playground")
    page.fill("#temperature", "0")
    page.fill("#message", QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Send results").click()
    page.locator(".turn").nth(2).get_by_role("button", name="Trace").wait_for()
    page.screenshot(path=folder / "playground.png")
    page.locator(".turn").nth(1).get_by_role("button", name="Trace").click()
    frame = page.frame_locator("#trace-frame")
    frame.locator("#text").press("End")
    for _ in range(4):  # from the end token to the value of the argument
        frame.locator("#text").press("ArrowLeft")
    page.screenshot(path=folder / "trace.png")
    page.click("#trace-close")
    page.locator(".turn").nth(1).get_by_role("button", name="To the workbench").click()
    page.get_by_text("accepts the text as a whole turn").wait_for()
    page.fill("#w-text", page.input_value("#w-text").replace('"Paris"', "Paris"))
    page.get_by_text("The grammar refuses the text, at byte").wait_for()
    page.evaluate("document.getElementById('workbench').scrollTop = 0")
    page.screenshot(path=folder / "workbench.png")


def main() -> None:
    """Draws, and prints the paths."""
    parser = argparse.ArgumentParser(description="Pictures of the playground.")
    parser.add_argument("--to", type=Path, default=IMAGES)
    options = parser.parse_args()
    with running(lambda: load(context_length=4096)) as client, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        draw(page, str(client.base_url), options.to)
        browser.close()
    for name in ("playground", "trace", "workbench"):
        print(options.to / f"{name}.png")


if __name__ == "__main__":
    main()
