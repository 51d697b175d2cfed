"""How smooth the playground stays while a long reply streams: the long tasks of its page.

    python -m benchmarks.smooth [--tokens 2000]

A server streams `--tokens` tokens as content, and as many in a call, as fast as it can; a task of
the page is long if it takes 50 ms or more (https://www.w3.org/TR/longtasks-1/). On a busy machine,
tasks that wait for a core are long, so the time of drawing alone is printed, too. Needs Chromium
and the extra `browser`.
"""

import argparse
import json
import statistics
from typing import Any

from tests.browser.conftest import FLAGS, find_browser
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import hermes_call, tool

WATCH = """() => {
  window.longTasks = [];
  window.draws = [];
  const draw = TurnView.prototype.draw;
  TurnView.prototype.draw = function () {
    const began = performance.now();
    draw.call(this);
    window.draws.push(performance.now() - began);
  };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
  }).observe({ type: "longtask", buffered: true });
}"""
WRITE = tool("write", {"text": {"type": "string"}})


def stream(
    page: Any, address: str, *, tools: list[Any], tokens: int
) -> tuple[list[float], list[float]]:
    """Returns the milliseconds of the long tasks while a reply streams, and of each drawing."""
    page.goto(f"{address}/playground")
    page.fill("#tools", json.dumps(tools))
    page.fill("#mocks", "")
    page.fill("#most", str(2 * tokens))
    page.uncheck("#trace")
    page.fill("#message", "Write.")
    page.evaluate(WATCH)
    page.keyboard.press("Enter")
    page.locator(".turn").nth(1).get_by_text("reply").wait_for()
    page.wait_for_timeout(200)
    long, draws = page.evaluate("[window.longTasks, window.draws]")
    return long, draws


def main() -> None:
    """Streams, and prints the long tasks."""
    parser = argparse.ArgumentParser(description="Long tasks of the playground.")
    parser.add_argument("--tokens", type=int, default=2_000)
    tokens = parser.parse_args().tokens
    text = ("word " * tokens)[:tokens]  # a byte is a token of the scripted model
    call = hermes_call("write", json.dumps({"text": text}))
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        for kind, reply, tools in (("content", text, []), ("a call", call, [WRITE])):
            with running(scripted(reply)) as client:
                page = browser.new_page()
                page.set_default_timeout(300_000)
                long, draws = stream(page, str(client.base_url), tools=tools, tokens=tokens)
                print(
                    f"{kind}: {len(long)} long tasks, the longest {max(long, default=0):.0f} ms; "
                    f"{len(draws)} drawings, median {statistics.median(draws):.2f} ms, the longest "
                    f"{max(draws):.1f} ms"
                )
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
