"""What the page shows of its server: an API key if there are any, a choice if there are models."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from constrained import load
from server.models.source import ModelSource
from server.settings import Settings
from tests.browser.conftest import Watched, watch
from tests.browser.page_checks import PARIS, ask, check_looks, open_chat
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import hermes_call

pytestmark = pytest.mark.browser
WEATHER_CALL = hermes_call("get_weather", '{"city": "Bonn", "days": 3}')


@pytest.fixture
def guarded(browser: Any) -> Iterator[Watched]:
    """A server that wants an API key."""
    settings = Settings(api_keys=("secret",))
    with running(load, settings) as client, watch(browser, str(client.base_url)) as watched:
        yield watched


@pytest.fixture
def of_two(browser: Any) -> Iterator[Watched]:
    """A server with two models, of which the page chooses one."""
    sources = [
        ModelSource("first", lambda: scripted("I am the first.")),
        ModelSource("second", lambda: scripted(WEATHER_CALL)),
    ]
    with running(sources) as client, watch(browser, str(client.base_url)) as watched:
        yield watched


def test_no_key_is_asked_for_where_there_is_none(watched: Watched):
    page = open_chat(watched)
    assert not page.locator("#key").is_visible()
    assert not page.locator("#model").is_visible()
    page.locator("#model-name", has_text="demo").wait_for()
    page.get_by_text("This is the demo model").wait_for()


def test_a_key_is_asked_for_and_sent(guarded: Watched):
    page = open_chat(guarded)
    page.get_by_text("This server needs an API key").wait_for()
    check_looks(page)
    page.fill("#key", "secret")
    page.press("#key", "Enter")
    page.locator("#model-name", has_text="demo").wait_for()
    assert page.locator("#server-fault").inner_text() == ""
    ask(page, PARIS)
    page.get_by_role("button", name="Send results").wait_for()
    page.reload()
    page.locator("#model-name", has_text="demo").wait_for()  # the key stays in this tab
    assert page.evaluate("JSON.stringify(localStorage)").count("secret") == 0
    guarded.complaints.clear()  # Chromium logs that the first request was answered with status 401


def test_one_of_several_models_is_chosen(of_two: Watched):
    page = open_chat(of_two)
    page.locator("#model").wait_for()
    page.select_option("#model", "second")
    ask(page, PARIS)
    page.get_by_role("button", name="Send results").wait_for()
    page.reload()
    page.locator("#model").wait_for()
    assert page.input_value("#model") == "second"
    check_looks(page)


def test_results_that_are_sent_without_asking(browser: Any):
    """Until a model that calls on and on has called often enough."""
    calls = partial(scripted, WEATHER_CALL)
    with running(calls) as client, watch(browser, str(client.base_url)) as watched:
        page = open_chat(watched)
        page.check("#auto")
        page.uncheck("#trace")
        ask(page, PARIS)
        page.get_by_role("button", name="Send results").wait_for()
        assert 10 < page.locator(".call .result").count() < 40
        assert page.locator(".call").count() == page.locator(".call .result").count() + 1


def test_values_of_calls_are_shown_as_they_were_written(watched: Watched):
    """Also numbers that JavaScript cannot hold, and while they are incomplete."""
    page = open_chat(watched)
    shown = page.evaluate(
        """(text) => {
          const card = new CallCard([]);
          card.add({ function: { name: "f", arguments: text } });
          card.draw();
          const values = [...card.element.querySelectorAll(".value")];
          return values.map((one) => [one.className, one.textContent]);
        }""",
        '{"id": 9007199254740993, "name": "a\\nb", "on": true, "no": null, "l": [1, "x"], "c": "h',
    )
    assert shown == [
        ["value number", "9007199254740993"],
        ["value string", '"a\\nb"'],
        ["value boolean", "true"],
        ["value null", "null"],
        ["value list", '[1, "x"]'],
        ["value string", '"h"'],
    ]


def test_the_old_address_has_the_page_too(watched: Watched):
    page = watched.page
    page.goto(f"{watched.address}/playground")
    page.get_by_text("This is the demo model").wait_for()
