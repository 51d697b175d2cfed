"""Streamed or not, the model of the package says the same; a template's date stays."""

import random
import re
from typing import Any

import httpx
import pytest

from constrained import load
from server.dialects.chat.reply import fold
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO
from tests.server.running_server import Json, running, stream
from tests.templates import HERMES, PAINT, PING, WRITE

REQUESTS = 12
WORDS = "paint the wall red and write hello world ping me please thanks nine".split()


def draw(seed: int) -> Json:
    choose = random.Random(seed)
    text = " ".join(choose.choices(WORDS, k=choose.randint(2, 20)))
    return {
        "messages": [{"role": "user", "content": text}],
        "tools": choose.sample([PAINT, PING, WRITE], k=choose.randint(1, 3)),
        "tool_choice": choose.choice(["auto", "required", "none"]),
        "reasoning_effort": choose.choice(["none", "low"]),
        "temperature": choose.choice([0, 1]),
        "n": choose.choice([1, 2]),
        "seed": seed,
        "max_tokens": choose.randint(10, 80),
    }


def show(body: Json) -> list[Any]:
    """The choices: what was said, called, and how it ended, without ids."""
    shown = list[Any]()
    for choice in body["choices"]:
        message = choice["message"]
        calls = [call["function"] for call in message.get("tool_calls", ())]
        texts = [message.get("reasoning_content"), message["content"]]
        shown.append([*texts, calls, choice["finish_reason"]])
    return shown


def test_random_requests_say_the_same_streamed_and_whole() -> None:
    with running(load(threads=1, sequences=2, deterministic=True)) as client:
        for seed in range(REQUESTS):
            body = draw(seed)
            whole = client.post(CHAT, json=body)
            assert whole.status_code == 200, whole.text
            streamed = fold([data for _, data in stream(client, CHAT, body)])
            assert show(streamed) == show(whole.json()), body


DATED = "Today is {{ strftime_now('%d %B %Y') }}.\n" + HERMES


def test_a_date_of_ones_choice() -> None:
    from datetime import datetime

    with running(scripted("Hi", source=DATED), Settings(date=datetime(2001, 2, 3))) as client:
        reply = client.post(CHAT, json={"messages": HELLO, "trace": True}).json()
    assert reply["trace"]["prompt"].startswith("Today is 03 February 2001.")


FORCED: Json = {"messages": HELLO, "tools": [PING], "tool_choice": "required", "max_tokens": 1}
REFUSED: list[tuple[str, Json, str]] = [
    ("/v1/chat/completions", {"messages": HELLO * 4000}, "context_length_exceeded"),
    ("/v1/chat/completions", FORCED, "invalid_value"),
    ("/v1/responses", {"input": "Hello " * 4000}, "context_length_exceeded"),
    ("/v1/messages", {"messages": HELLO * 4000, "max_tokens": 9}, "context_length_exceeded"),
]


@pytest.mark.parametrize(("path", "body", "code"), REFUSED)
def test_what_is_refused_is_refused_the_same_streamed(
    plain: httpx.Client, path: str, body: Json, code: str
) -> None:
    whole = plain.post(path, json=body)
    streamed = plain.post(path, json={**body, "stream": True})
    assert whole.status_code == streamed.status_code == 400
    assert code in whole.text
    assert streamed.json() == whole.json()


@pytest.mark.parametrize("words", [4_000, 400_000])
def test_messages_say_in_anthropics_words_that_the_prompt_is_too_long(
    plain: httpx.Client, words: int
) -> None:
    body: Json = {"messages": [{"role": "user", "content": "Hello " * words}], "max_tokens": 9}
    message = plain.post("/v1/messages", json=body).json()["error"]["message"]
    assert re.match(r"prompt is too long: \d+ tokens > 20000 maximum\b", message)


def test_a_place_in_a_reply_is_no_place_in_the_request() -> None:
    never = {"type": "string", "maxLength": 5, "pattern": "^(?!()\\1)"}  # nothing fits
    answer = {"type": "object", "properties": {"messages": never}, "required": ["messages"]}
    form = {"type": "json_schema", "name": "a", "schema": answer}
    body: Json = {"input": "Hi", "text": {"format": form}}
    with running(scripted('{"messages": "a"}')) as client:
        whole = client.post("/v1/responses", json=body)
        streamed = client.post("/v1/responses", json={**body, "stream": True})
    for response in (whole, streamed):  # what the mask draws for lack of a better one may differ
        assert response.status_code == 422
        assert response.json()["error"]["param"] == "/messages"


@pytest.mark.parametrize("wanted", [None, False, True])
def test_only_streams_that_are_asked_have_usage(plain: httpx.Client, wanted: bool | None) -> None:
    body: Json = {"messages": HELLO, "max_tokens": 3}
    if wanted is not None:
        body["stream_options"] = {"include_usage": wanted}
    chunks = [data for _, data in stream(plain, CHAT, body)]
    assert [bool(chunk.get("usage")) for chunk in chunks][:-1] == [False] * (len(chunks) - 1)
    assert bool(chunks[-1].get("usage")) is (wanted is True)
