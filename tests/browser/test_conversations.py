"""Conversations that the browser keeps: after a reload, in a list, until they are deleted."""

import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from tests.browser.conftest import Watched, watch
from tests.browser.page_checks import PARIS, ask, ask_for_weather, open_chat, send_results
from tests.scripted_model import BYTES, TURN
from tests.server.running_server import running
from tests.templates import HERMES

pytestmark = pytest.mark.browser
TITLES = "#conversations .title"
LONG = "word " * 600
STEP_SECONDS = 0.01


def writing_slowly() -> Model:
    """A model that takes its time for a long reply."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        time.sleep(STEP_SECONDS)
        start = [found.end() for found in re.finditer(TURN, BYTES.text(tokens))][-1]
        return scripted_logits(BYTES, LONG, start)(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=20_000)
    return Model(engine, ChatTemplate(HERMES))


def read_log(page: Any) -> str:
    return page.locator("#log").inner_text()


def read_turns(page: Any) -> list[str]:
    """The texts of the turns, and the lines below them."""
    parts = page.locator(".turn .content, .turn .facts .quiet")
    return parts.all_inner_texts()


def reload(page: Any) -> None:
    page.reload()
    page.locator(".turn").first.wait_for()


def test_a_reload_keeps_the_conversation(watched: Watched):
    page = ask_for_weather(watched)
    reload(page)
    assert page.locator(".call .verdict").inner_text() == "\u2713 fits its schema"
    assert "Paris" in page.locator(".call").inner_text()
    send_results(page)  # the call still waits for them
    before = read_turns(page)
    reload(page)
    assert read_turns(page) == before
    assert '"light rain"' in page.locator(".call .result").inner_text()
    assert page.locator(".next").count() == 0
    ask(page, "And in Rome?")  # what was kept is sent with it
    page.locator(".turn").nth(4).locator(".facts").wait_for()
    assert "from the cache" in page.locator(".turn").nth(4).inner_text()


def test_settings_stay_after_a_reload(watched: Watched):
    page = open_chat(watched)
    page.fill("#system", "Be brief.")
    page.select_option("#choice", "order_pizza")
    page.uncheck("#trace")
    page.reload()
    page.locator(".next.empty").wait_for()
    assert page.input_value("#system") == "Be brief."
    assert page.input_value("#choice") == "order_pizza"
    assert not page.is_checked("#trace")


def test_the_list_of_conversations(watched: Watched):
    page = ask_for_weather(watched)
    page.click("#new")
    ask(page, "Order a large pizza with ham and olives")
    page.get_by_role("button", name="Send results").wait_for()
    titles = page.locator(TITLES)
    assert titles.all_inner_texts() == ["Order a large pizza with ham and olives", PARIS]
    assert titles.nth(0).get_attribute("aria-current") == "true"
    titles.nth(1).click()
    assert "Paris" in page.locator(".call").inner_text()
    assert page.locator(TITLES).nth(1).get_attribute("aria-current") == "true"
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name=f'Delete "{PARIS}"').click()
    assert page.locator(TITLES).count() == 2
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f'Delete "{PARIS}"').click()
    assert page.locator(TITLES).all_inner_texts() == ["Order a large pizza with ham and olives"]
    assert page.locator(".next.empty").is_visible()  # the open one was deleted
    page.reload()
    assert page.locator(TITLES).count() == 1
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#delete-all")
    assert page.locator(TITLES).count() == 0
    assert page.evaluate("Object.keys(localStorage)") == ["constrained.settings"]


def test_two_tabs_keep_both_conversations(watched: Watched):
    page = ask_for_weather(watched)
    with page.expect_popup() as opened:
        page.evaluate("open(location.href, '_blank', 'noopener')")
    other = opened.value
    other.locator(".next.empty").wait_for()  # a new tab begins a new conversation
    ask(other, "Order a small pizza")
    other.get_by_role("button", name="Send results").wait_for()
    other.close()
    page.locator(TITLES).nth(1).wait_for()
    assert page.locator(TITLES).all_inner_texts() == ["Order a small pizza", PARIS]
    assert "Paris" in page.locator(".call").inner_text()


def test_a_full_storage_is_told(watched: Watched):
    page = open_chat(watched)
    page.evaluate("localStorage.setItem('other', 'x'.repeat(5 * 1024 * 1024 - 2000))")
    page.fill("#max-tokens", "8")
    ask(page, "long " * 500)
    page.get_by_text("The storage of the browser is full").wait_for()
    page.locator(".turn").nth(1).locator(".facts").wait_for()


def test_a_turn_that_is_stopped_or_left(browser: Any):
    with running(writing_slowly) as client, watch(browser, str(client.base_url)) as watched:
        page = open_chat(watched)
        page.uncheck("#trace")
        ask(page, "Go on.")
        page.get_by_text("word word").wait_for()
        assert not page.locator("#send").is_visible()
        page.click("#stop")
        page.get_by_role("button", name="Ask again").wait_for()
        assert "stopped" in page.locator(".facts").inner_text()
        shown = page.locator(".turn .content").all_inner_texts()
        assert 0 < len(shown[1]) < len(LONG) - 1
        reload(page)
        assert page.locator(".turn .content").all_inner_texts() == shown
        page.get_by_role("button", name="Ask again").click()
        page.get_by_text("word word").wait_for()
        assert page.locator(".turn").count() == 2  # it takes the place of the other
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Ask again").click()
        page.get_by_text("word word").wait_for()
        reload(page)  # in the middle of the turn
        assert "word word" in read_log(page)
        page.get_by_role("button", name="Ask again").wait_for()
        page.click("#undo")
        assert page.input_value("#message") == "Go on."
        assert page.locator(TITLES).count() == 0


def test_a_question_that_failed_can_be_asked_again(watched: Watched):
    page = open_chat(watched)
    page.route("**/v1/chat/completions", lambda route: route.abort())
    ask(page, PARIS)
    again = page.get_by_role("button", name="Ask again")
    again.wait_for()
    assert "Failed to fetch" in page.locator(".next .fault").inner_text()
    watched.complaints.clear()  # Chromium logs that the request failed
    page.unroute("**/v1/chat/completions")
    again.click()
    page.get_by_role("button", name="Send results").wait_for()
