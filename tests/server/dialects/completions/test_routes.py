"""Legacy Completions over HTTP: raw prompts in, text out, streamed and not."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from server.dialects.completions.reply import fold
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running, stream

COMPLETIONS = "/v1/completions"
PROMPT = "Once upon>"
VARYING = ("id", "created", "timings")


def ask(client: httpx.Client, prompt: Any = PROMPT, **body: Any) -> Json:
    response = client.post(COMPLETIONS, json={"prompt": prompt, **body})
    assert response.status_code == 200, response.text
    return response.json()


def refuse(client: httpx.Client, **body: Any) -> Json:
    response = client.post(COMPLETIONS, json={"prompt": PROMPT, **body})
    assert response.status_code == 400, response.text
    return response.json()["error"]


def chunks_of(client: httpx.Client, prompt: Any = PROMPT, **body: Any) -> list[Json]:
    options = {"stream_options": {"include_usage": True}}
    return [data for _, data in stream(client, COMPLETIONS, {"prompt": prompt, **options, **body})]


def lasting(body: Json) -> Json:
    kept = {key: value for key, value in body.items() if key not in VARYING}
    kept["usage"] = {k: v for k, v in kept["usage"].items() if not k.endswith("_details")}
    return kept


@pytest.fixture(scope="module")
def teller() -> Iterator[httpx.Client]:
    with running(scripted(" a time, a ñu.\n", turn=b">")) as client:
        yield client


def test_a_text_goes_on(teller: httpx.Client) -> None:
    body = ask(teller, max_tokens=100)
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    choice = {"index": 0, "text": " a time, a ñu.\n", "logprobs": None, "finish_reason": "stop"}
    assert body["choices"] == [choice]
    usage = body["usage"]
    assert usage["prompt_tokens"] == len(PROMPT)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_sixteen_tokens_are_the_default(teller: httpx.Client) -> None:
    for body in ({}, {"max_tokens": None}):
        reply = ask(teller, **body)
        assert reply["choices"][0]["finish_reason"] == "length"
        assert reply["usage"]["completion_tokens"] == 16
        assert reply["choices"][0]["text"] == " a time, a ñu.\n"[:15]
    assert ask(teller, max_tokens=-1)["choices"][0]["finish_reason"] == "stop"
    assert ask(teller, n_predict=3)["choices"][0]["text"] == " a "


def test_prompts_in_all_forms(teller: httpx.Client) -> None:
    ids = [*PROMPT.encode()]
    expected = ask(teller)["choices"][0]["text"]
    for prompt in (ids, [PROMPT], [ids]):
        assert ask(teller, prompt)["choices"][0]["text"] == expected
    several = ask(teller, [PROMPT, ">", "x>"], n=2, temperature=0)
    assert [choice["index"] for choice in several["choices"]] == [*range(6)]
    assert {choice["text"] for choice in several["choices"]} == {expected}
    assert several["usage"]["prompt_tokens"] == len(PROMPT) + 1 + 2
    assert several["usage"]["completion_tokens"] == 6 * 16


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"n": 2, "prompt": [PROMPT, ">"]},
        {"echo": True},
        {"logprobs": 2},
        {"stop": [" time"]},
        {"max_tokens": 100},
    ],
)
def test_a_stream_says_the_same(teller: httpx.Client, body: Json) -> None:
    body = {"temperature": 0, **body}
    chunks = chunks_of(teller, **body)
    assert lasting(fold(chunks)) == lasting(ask(teller, **body))
    assert chunks[-1]["choices"] == []
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_usage_is_streamed_only_if_asked_for(teller: httpx.Client) -> None:
    with teller.stream("POST", COMPLETIONS, json={"prompt": PROMPT, "stream": True}) as response:
        text = response.read().decode()
    assert text.endswith("data: [DONE]\n\n")
    assert "usage" not in text


def test_echo(teller: httpx.Client) -> None:
    assert ask(teller, echo=True)["choices"][0]["text"].startswith(PROMPT + " a time")
    ids = [*PROMPT.encode()]
    assert ask(teller, [ids], echo=True)["choices"][0]["text"].startswith(PROMPT + " a time")


@needs_own_engine
def test_logprobs_in_the_legacy_form(teller: httpx.Client) -> None:
    choice = ask(teller, logprobs=2, max_tokens=14)["choices"][0]
    shown = choice["logprobs"]
    assert len(shown["tokens"]) == 14
    assert "".join(shown["tokens"][:11]) == " a time, a "
    assert shown["text_offset"][:12] == [*range(12)]
    assert shown["text_offset"][12:] == [11, 12]  # ñ is two tokens
    assert all(logprob <= 0 for logprob in shown["token_logprobs"])
    assert all(len(top) == 2 for top in shown["top_logprobs"])
    assert ask(teller, logprobs=0)["choices"][0]["logprobs"]["top_logprobs"][0] == {}


def test_stop(teller: httpx.Client) -> None:
    choice = ask(teller, stop=",")["choices"][0]
    assert choice["text"] == " a time"
    assert choice["finish_reason"] == "stop"


ANSWERS: list[tuple[str, Json]] = [
    ('{"a": 1}', {"response_format": {"type": "json_object"}}),
    ("7", {"json_schema": {"type": "integer"}}),
    ("ab", {"regex": "[ab]+"}),
    ("no", {"choice": ["yes", "no"]}),
    ("12", {"structured_outputs": {"grammar": "start: /[0-9]+/"}}),
    ("x", {"grammar": 'root ::= "x"'}),
]


@pytest.mark.parametrize(("text", "body"), ANSWERS)
def test_answers_are_held_from_the_first_token(text: str, body: Json) -> None:
    with running(scripted(text, turn=b">")) as client:
        assert ask(client, **body)["choices"][0]["text"] == text
        schema = {"type": "string", "enum": ["other"]}
        held = ask(client, json_schema=schema)
    assert held["choices"][0]["text"].strip() == '"other"'


REFUSED: list[tuple[Json, str, str]] = [
    ({"prompt": []}, "/prompt", "no prompt"),
    ({"prompt": None}, "/prompt", ""),
    ({"prompt": [99_999]}, "/prompt", "token"),
    ({"suffix": "x"}, "/suffix", "inserted"),
    ({"best_of": 2}, "/best_of", "not supported"),
    ({"n": 17}, "/n", "16"),
    ({"prompt": ["a"] * 9, "n": 2}, "/n", "18"),
    ({"max_tokens": 0}, "/max_tokens", "1"),
    ({"echo": True, "logprobs": 1}, "/echo", "log"),
    ({"logprobs": 21}, "/logprobs", "20"),
    ({"regex": "("}, "/regex", "regex"),
    ({"choice": []}, "/choice", "choice"),
    ({"grammar": "start: x"}, "/grammar", "unknown name"),
    ({"stop": [""]}, "/stop", ""),
]


@pytest.mark.parametrize(("body", "where", "word"), REFUSED)
def test_what_is_refused_says_where(
    teller: httpx.Client, body: Json, where: str, word: str
) -> None:
    error = refuse(teller, **body)
    assert error["type"] == "invalid_request_error"
    assert (error["param"] or "").startswith(where)
    assert word in error["message"]


def test_a_choice_that_no_model_can_write_is_refused(teller: httpx.Client) -> None:
    content = '{"prompt": ">", "choice": ["yes", "\\ud800"]}'
    headers = {"content-type": "application/json"}
    response = teller.post(COMPLETIONS, content=content, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "/choice/1"


@needs_own_engine
def test_what_is_no_fault(teller: httpx.Client) -> None:
    assert ask(teller, best_of=2, n=2)["choices"][1]["text"]
    response = teller.post(COMPLETIONS, json={"prompt": PROMPT, "frobnicate": 1, "user": "me"})
    assert response.headers["x-ignored-fields"] == "frobnicate"
    assert response.json()["constrained"] == {"ignored_fields": ["frobnicate"]}


def test_the_path_has_a_short_name() -> None:
    with running(scripted("Hi", turn=b">"), Settings(max_choices=1)) as client:
        response = client.post("/completions", json={"prompt": "a>"})
        assert response.json()["choices"][0]["text"] == "Hi"
        assert refuse(client, n=2)["param"] == "/n"
