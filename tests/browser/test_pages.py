"""The playground and the page of a trace, used as a person would."""

from pathlib import Path

import pytest

from constrained import load
from tests.browser.conftest import Watched
from tests.browser.page_checks import (
    PARIS,
    ask_for_weather,
    check_looks,
    open_chat,
    send_results,
)

pytestmark = pytest.mark.browser


def test_a_call_and_its_result(watched: Watched):
    page = ask_for_weather(watched)
    card = page.locator(".call")
    assert card.locator("h2").inner_text() == "get_weather"
    assert "Paris" in card.inner_text()
    assert card.locator(".verdict").inner_text() == "\u2713 fits its schema"
    assert '"light rain"' in card.locator("textarea").input_value()
    check_looks(page)
    send_results(page)
    assert "light rain" in page.locator(".turn").nth(2).inner_text()
    assert "from the cache" in page.locator(".turn").nth(2).inner_text()


def test_a_call_that_is_not_allowed(watched: Watched):
    page = ask_for_weather(watched)
    page.get_by_role("button", name="Do not allow").click()
    page.locator(".turn").nth(2).get_by_role("button", name="Trace").wait_for()
    page.click("#undo")
    assert page.locator(".turn").count() == 0
    assert page.input_value("#message") == PARIS


def test_the_trace_of_a_turn(watched: Watched):
    page = ask_for_weather(watched)
    page.locator(".turn").nth(1).get_by_role("button", name="Trace").click()
    frame = page.frame_locator("#trace-frame")
    frame.locator(".token").first.wait_for()
    assert "<tool_call>" in frame.locator("#text").inner_text()
    page.click("#trace-close")
    assert not page.locator("#trace-dialog").is_visible()


def test_an_empty_chat_says_what_to_do(watched: Watched):
    page = open_chat(watched)
    for button in ("#undo", "#new"):
        assert page.locator(button).is_disabled()
    page.locator(".empty button").first.click()
    assert page.input_value("#message")
    page.keyboard.press("Enter")  # the message has the focus
    page.locator(".turn").nth(1).get_by_role("button", name="Trace").wait_for()
    assert page.locator(".empty").count() == 0
    page.click("#new")
    assert page.locator(".empty").is_visible()
    assert page.locator("#new").is_disabled()


def test_mistakes_are_told(watched: Watched):
    page = open_chat(watched)
    page.click("#tab-tool-json")
    page.fill("#tools", "[")
    page.fill("#message", "Hi")
    page.click("#send")
    page.get_by_text("This is not JSON").first.wait_for()


def test_tabs_by_keyboard(watched: Watched):
    page = open_chat(watched)
    page.focus("#tab-tool-form")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tool-json").is_visible()
    assert not page.locator("#tool-form").is_visible()


def test_a_long_stream_stays_smooth(watched: Watched):
    """A page that draws each token anew would block for longer and longer."""
    page = open_chat(watched)
    gap = page.evaluate(
        """async () => {
          const turn = new TurnView([]);
          document.getElementById("log").append(turn.element);
          let longest = 0;
          for (let at = 0; at < 2000; at += 1) {
            const began = performance.now();
            turn.take({ choices: [{ delta: { content: "word " } }] });
            longest = Math.max(longest, performance.now() - began);
            if (at % 20 === 0) await new Promise(requestAnimationFrame);
          }
          turn.draw();
          return [longest, turn.contentText.textContent.length];
        }"""
    )
    longest, length = gap
    assert length == 10_000
    assert longest < 100


def test_the_page_of_a_trace(watched: Watched, tmp_path: Path):
    path = tmp_path / "turn.html"
    with load() as model:
        reply = model.call("What's the weather in Rome?", trace=True, max_tokens=20)
    assert reply.trace is not None
    reply.trace.save_page(path)
    page = watched.page
    page.goto(path.as_uri())
    page.focus("#text")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "number 2 of" in page.locator("#details").inner_text()
    assert "place" in page.locator("#details").inner_text()
    check_looks(page)
