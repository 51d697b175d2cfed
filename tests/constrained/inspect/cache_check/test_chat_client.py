"""What is read from replies, and how servers that cannot be asked are reported."""

import pytest

from constrained.errors import RequestError
from constrained.inspect.cache_check.chat_client import (
    CACHE_N,
    CACHED_TOKENS,
    PROMPT_N,
    ChatClient,
    RefusedError,
    read_reply,
)
from tests.constrained.inspect.cache_check.served_cache import ServedCache, serving

QUESTION = ({"role": "user", "content": "Hello!"},)


@pytest.mark.parametrize(
    ("told", "total", "cached"),
    [
        (
            {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}},
            9,
            {CACHED_TOKENS: 4},
        ),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, 9, {}),
        ({"timings": {"cache_n": 4, "prompt_n": 5}}, 9, {CACHE_N: 4}),
        ({"usage": {"prompt_tokens": 9}, "timings": {"prompt_n": 5}}, 9, {PROMPT_N: 4}),
        ({"prompt_eval_count": 9}, 9, {}),
        ({"usage": {"prompt_tokens": "9"}, "timings": []}, None, {}),
        ({"usage": {"prompt_tokens": True}}, None, {}),
        ({}, None, {}),
    ],
)
def test_what_replies_say(told: dict, total: int | None, cached: dict):
    reply = read_reply(told, 0.5)
    assert (reply.prompt_tokens, reply.cached, reply.seconds) == (total, cached, 0.5)


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_url_may_be_that_of_the_api(ending: str):
    with serving(ServedCache()) as url:
        client = ChatClient(url + ending)
        assert (client.base, client.model) == (url, "some-model")
        assert client.ask(QUESTION, ()).prompt_tokens


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8080", "http://", "http://[", ""])
def test_what_is_no_url(url: str):
    with pytest.raises(RequestError, match="is not an HTTP URL"):
        ChatClient(url)


def test_of_several_models_one_has_to_be_named():
    with serving(ServedCache(models=("one", "two"))) as url:
        with pytest.raises(RequestError, match="has 2 models: one, two"):
            ChatClient(url)
        assert ChatClient(url, model="two").ask(QUESTION, ()).prompt_tokens


def test_a_server_that_does_not_list_its_models():
    with serving(ServedCache()) as url, pytest.raises(RequestError, match="404") as caught:
        ChatClient(f"{url}/elsewhere")
    assert caught.value.hint == "Name the model with --model"


def test_what_the_server_refuses_is_told_in_its_words():
    cache = ServedCache(refuses_tools=True)
    expected = r"status 400: .*takes no tools"
    with serving(cache) as url, pytest.raises(RefusedError, match=expected):
        ChatClient(url).ask(QUESTION, ({"type": "function"},))


def test_a_wrong_key_is_no_refusal_of_a_shape():
    with serving(ServedCache()) as url, pytest.raises(RequestError, match="401") as caught:
        ChatClient(url, api_key="wrong").ask(QUESTION, ())
    assert not isinstance(caught.value, RefusedError)
    assert "--api-key" in str(caught.value.hint)


def test_no_redirect_is_followed():
    cache = ServedCache()
    with serving(cache) as url, pytest.raises(RequestError, match="status 307"):
        ChatClient(url, model="elsewhere").ask(QUESTION, ())
    assert cache.prompts == []


@pytest.mark.parametrize(
    "choices", [None, [], [None], [{}], [{"message": None}], {"message": {"content": "Hi"}}]
)
def test_an_answer_without_a_message_is_no_reply(choices: object, monkeypatch: pytest.MonkeyPatch):
    client = ChatClient("http://127.0.0.1:1", model="m")
    monkeypatch.setattr(client, "_send", lambda *_: {"choices": choices, "usage": {}})
    with pytest.raises(RequestError, match="without a message"):
        client.ask(QUESTION, ())
