"""What must hold of every page: access, width. And the steps that many tests begin with."""

from typing import Any

from tests.browser.conftest import Watched

SIZES = ((390, 844), (820, 1180), (1400, 900))
PARIS = "What's the weather in Paris?"


def check_access(page: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


def check_width(page: Any) -> None:
    """Nothing has to be scrolled sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0


def check_looks(page: Any) -> None:
    """Access and width, at all sizes, light and dark."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            check_width(page)
            check_access(page)


def open_chat(watched: Watched) -> Any:
    watched.page.goto(f"{watched.address}/")
    watched.page.locator(".next.empty").wait_for()
    return watched.page


def ask(page: Any, question: str) -> None:
    page.fill("#message", question)
    page.keyboard.press("Enter")


def ask_for_weather(watched: Watched) -> Any:
    """A chat whose model has called a tool, and waits for the result."""
    page = open_chat(watched)
    page.select_option("#choice", "required")
    page.fill("#temperature", "0")
    ask(page, PARIS)
    page.get_by_role("button", name="Send results").wait_for()
    return page


def send_results(page: Any) -> None:
    """Sends the results of the first call, and waits for the answer."""
    page.get_by_role("button", name="Send results").click()
    page.locator(".turn").nth(2).locator(".facts").wait_for()
