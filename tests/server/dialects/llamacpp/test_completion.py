"""llama-server's /completion and /infill, over HTTP."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from constrained.vocabulary.vocabulary import FillInTokens, byte_vocabulary
from server.dialects.completions.fill_in import write_fill_in_prompts
from server.errors import HttpError
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.running_server import Json, needs_own_engine, running, stream

PROMPT = "Once upon>"
SAID = " a time, a ñu.\n"
MARKERS = ["<PRE>", "<SUF>", "<MID>", "<REPO>", "<FILE>"]
FILLING = byte_vocabulary(MARKERS)
PRE, SUF, MID, REPO, FILE = (FILLING.encode_special(marker)[0] for marker in MARKERS)
FILLED = replace(FILLING, fill_in=FillInTokens(PRE, SUF, MID, repository=REPO, file=FILE))


@pytest.fixture(scope="module")
def teller() -> Iterator[httpx.Client]:
    with running(scripted(SAID, turn=b">")) as client:
        yield client


def ask(client: httpx.Client, prompt: Any = PROMPT, **body: Any) -> Any:
    response = client.post("/completion", json={"prompt": prompt, **body})
    assert response.status_code == 200, response.text
    return response.json()


def test_a_text_goes_on(teller: httpx.Client) -> None:
    reply = ask(teller)
    assert reply["content"] == SAID
    assert (reply["stop"], reply["stop_type"], reply["stopping_word"]) == (True, "eos", "")
    assert reply["tokens"] == []
    assert reply["tokens_evaluated"] == len(PROMPT)
    assert reply["tokens_predicted"] == len(SAID.encode()) == reply["timings"]["predicted_n"]
    assert (reply["prompt"], reply["model"], reply["index"]) == (PROMPT, "demo", 0)
    assert reply["has_new_line"] is True
    assert reply["truncated"] is False
    assert reply["generation_settings"]["n_predict"] == -1
    assert "completion_probabilities" not in reply


def test_limits_and_stop_texts(teller: httpx.Client) -> None:
    cut = ask(teller, n_predict=3)
    assert (cut["content"], cut["stop_type"]) == (" a ", "limit")
    assert ask(teller, max_tokens=3)["content"] == " a "
    stopped = ask(teller, stop=[",", "x"])
    assert (stopped["content"], stopped["stop_type"]) == (" a time", "word")
    assert stopped["stopping_word"] == ","


def test_a_stop_text_that_no_utf_8_can_hold_is_shown_all_the_same(teller: httpx.Client) -> None:
    body = json.dumps({"prompt": PROMPT, "stop": ["\ud800"]})  # in ASCII: httpx refuses it
    response = teller.post(
        "/completion", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 200, response.text
    assert response.json()["generation_settings"]["stop"] == ["?"]


def test_the_operators_limit_holds() -> None:
    with running(scripted(SAID, turn=b">"), Settings(max_tokens=3)) as client:
        assert ask(client)["content"] == " a "
        assert ask(client, n_predict=-1)["content"] == SAID


def test_tokens_and_probabilities(teller: httpx.Client) -> None:
    reply = ask(teller, return_tokens=True, n_probs=2, n_predict=4)
    assert reply["tokens"] == [*b" a t"]
    shown = reply["completion_probabilities"]
    assert [token["id"] for token in shown] == reply["tokens"]
    assert all(len(token["top_logprobs"]) == 2 for token in shown)
    assert shown[0]["top_logprobs"][0]["id"] == shown[0]["id"]
    assert shown[0]["logprob"] <= 0


PROMPTS: list[tuple[Any, str]] = [
    ([*PROMPT.encode()], PROMPT),
    ([PROMPT], PROMPT),
    ([*b"Once", " upon>"], PROMPT),
    (["Once", *b" upon>"], PROMPT),
    ({"prompt_string": PROMPT}, PROMPT),
    ({"prompt_string": PROMPT, "multimodal_data": []}, PROMPT),
]


@pytest.mark.parametrize(("prompt", "text"), PROMPTS)
def test_prompts_in_all_forms(teller: httpx.Client, prompt: Any, text: str) -> None:
    reply = ask(teller, prompt)
    assert (reply["content"], reply["prompt"]) == (SAID, text)
    assert reply["tokens_evaluated"] == len(text)


def test_several_prompts_and_completions(teller: httpx.Client) -> None:
    several = ask(teller, ["a>", [*b"bc>"], ["d", *b">"]], n_cmpl=2, temperature=0)
    assert [reply["index"] for reply in several] == [*range(6)]
    assert {reply["content"] for reply in several} == {SAID}
    assert [reply["prompt"] for reply in several[::2]] == ["a>", "bc>", "d>"]


@pytest.mark.parametrize("more", [{}, {"n_probs": 1}, {"stop": [" time"]}, {"n_predict": 5}])
def test_a_stream_says_the_same(teller: httpx.Client, more: Json) -> None:
    body = {"prompt": PROMPT, "temperature": 0, **more}
    chunks = [data for _, data in stream(teller, "/completion", body)]
    *parts, last = chunks
    assert not any(part["stop"] for part in parts)
    whole = ask(teller, temperature=0, return_tokens=True, **more)
    assert "".join(chunk["content"] for chunk in chunks) == whole["content"]
    assert [token for chunk in chunks for token in chunk["tokens"]] == whole["tokens"]
    for name in ("stop", "stop_type", "stopping_word", "tokens_predicted", "tokens_evaluated"):
        assert last[name] == whole[name]
    if more.get("n_probs"):
        told = [one for part in parts for one in part["completion_probabilities"]]
        assert told == whole["completion_probabilities"]


def test_a_stream_has_no_end_mark(teller: httpx.Client) -> None:
    body = {"prompt": PROMPT, "stream": True}
    with teller.stream("POST", "/completion", json=body) as response:
        assert "[DONE]" not in response.read().decode()


def test_progress_and_timings(teller: httpx.Client) -> None:
    body = {"prompt": PROMPT, "return_progress": True, "timings_per_token": True}
    chunks = [data for _, data in stream(teller, "/completion", {**body, "cache_prompt": False})]
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    assert [one["processed"] for one in told] == [0, len(PROMPT)]
    assert all("timings" in chunk for chunk in chunks)


def test_fields_that_are_chosen(teller: httpx.Client) -> None:
    names = ["content", "generation_settings/n_predict", "timings/none", "no/such", "none"]
    reply = ask(teller, n_predict=2, response_fields=names)
    assert reply == {"content": " a", "n_predict": 2}


@pytest.mark.parametrize(
    ("said", "body"),
    [
        ("7", {"json_schema": {"type": "integer"}}),
        ("x", {"grammar": 'root ::= "x"'}),
        ("ab", {"regex": "[ab]+"}),
    ],
)
def test_answers_are_held(said: str, body: Json) -> None:
    with running(scripted(said, turn=b">")) as client:
        assert ask(client, **body)["content"] == said
        held = ask(client, json_schema={"type": "string", "enum": ["other"]})
    assert held["content"].strip() == '"other"'


REFUSED: list[tuple[Json, str]] = [
    ({"prompt": None}, "/prompt"),
    ({"prompt": []}, "/prompt"),
    ({"prompt": [[]]}, "/prompt/0"),
    ({"prompt": ["a", 1, True]}, "/prompt/2"),
    ({"prompt": ["a", 1.5]}, "/prompt/1"),
    ({"prompt": ["a", ["b", {}]]}, "/prompt/1/1"),
    ({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}}, "/prompt/multimodal_data"),
    ({"n_predict": 0}, "/n_predict"),
    ({"n_cmpl": 17}, "/n"),
    ({"post_sampling_probs": True}, "/post_sampling_probs"),
    ({"n_probs": 21}, "/n_probs"),
]


@pytest.mark.parametrize(("body", "where"), REFUSED)
def test_what_is_refused_says_where(teller: httpx.Client, body: Json, where: str) -> None:
    response = teller.post("/completion", json={"prompt": PROMPT, **body})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == where


@needs_own_engine
def test_what_has_no_effect_is_named(teller: httpx.Client) -> None:
    reply = ask(teller, mirostat=2, id_slot=0)
    assert reply["constrained"] == {"ignored_fields": ["mirostat"]}


def test_code_is_filled_in() -> None:
    model = scripted("return 1", vocabulary=FILLED, turn=b"<MID>")
    # The scripted model counts bytes, not tokens: it says nothing in particular here.
    body = {
        "input_prefix": "def f():\n  <PRE>",
        "input_suffix": "\n",
        "input_extra": [{"filename": "a.py", "text": "x = 1"}],
        "prompt": "y",
        "n_predict": 1,
    }
    with running(model) as client:
        reply = client.post("/infill", json=body).json()
        lacking = client.post("/infill", json={"input_prefix": "a"})
    parts = ["<REPO>myproject\n", "<FILE>a.py\nx = 1", "<FILE>filename\n"]
    parts += ["<PRE>def f():\n  <PRE>y", "<SUF>\n", "<MID>"]
    assert reply["prompt"] == "".join(parts)
    markers = (
        len("".join(MARKERS)) + len("<FILE>") - 6
    )  # each is one token; <PRE> in a text is text
    assert reply["tokens_evaluated"] == len("".join(parts)) - markers
    assert lacking.status_code == 400
    assert lacking.json()["error"]["param"] == "/input_suffix"


FILLED_IN = (  # each prompt with its three special tokens
    ({"prompt": "a<PRE>", "suffix": "b"}, 10),
    ({"prompt": ["a", "c"], "suffix": "b"}, 10),
    ({"prompt": list(b"a"), "suffix": "b"}, 5),
)


@needs_own_engine
def test_a_suffix_follows_what_is_inserted() -> None:
    model = scripted("1", vocabulary=FILLED, turn=b"<MID>")
    with running(model) as client:
        for body, count in FILLED_IN:
            reply = client.post("/v1/completions", json={**body, "max_tokens": 1}).json()
            assert reply["usage"]["prompt_tokens"] == count
        for prompt in ("a", ""):
            body = {"prompt": prompt, "suffix": "b", "stream": False}
            reply = client.post("/api/generate", json=body | {"options": {"num_predict": 1}})
            assert reply.json()["prompt_eval_count"] == len(prompt) + 4
        shown = client.post("/api/show", json={}).json()
    assert "insert" in shown["capabilities"]


def test_the_prompt_of_a_suffix_has_prefix_suffix_and_middle() -> None:
    text, ids = write_fill_in_prompts(["a<PRE>", [1, 2]], "b", FILLED)
    assert text == [PRE, *b"a<PRE>", SUF, *b"b", MID]
    assert ids == [PRE, 1, 2, SUF, *b"b", MID]
    with pytest.raises(HttpError) as refused:
        write_fill_in_prompts(["a"], "\ud800", FILLED)
    assert refused.value.where == "/suffix"


@needs_own_engine
def test_the_path_of_mistral_answers_as_chat_completions() -> None:
    model = scripted("12", vocabulary=FILLED, turn=b"<MID>")
    body = {"prompt": "a<MID>", "suffix": "b", "random_seed": 1, "max_tokens": 1, "stop": "9"}
    with running(model) as client:
        whole = client.post("/v1/fim/completions", json=body)
        streamed = stream(client, "/v1/fim/completions", body)
        plain = client.post("/v1/fim/completions", json={**body, "suffix": ""}).json()
    assert "X-Ignored-Fields" not in whole.headers
    reply = whole.json()
    assert reply["object"] == "chat.completion"
    [choice] = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": "1"}
    assert choice["finish_reason"] == "length"
    assert reply["usage"]["prompt_tokens"] == 10
    assert plain["usage"]["prompt_tokens"] == 6
    chunks = [event for _, event in streamed]
    assert all(chunk["choices"] for chunk in chunks)  # Mistral has no chunk of the usage alone
    assert chunks[-1]["usage"]["total_tokens"] == reply["usage"]["total_tokens"]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "1"


def test_the_path_of_mistral_refuses_a_suffix_without_tokens_for_it(teller: httpx.Client) -> None:
    response = teller.post("/v1/fim/completions", json={"prompt": "a", "suffix": "b"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "/suffix"


def test_models_that_fill_nothing_in_say_so(teller: httpx.Client) -> None:
    response = teller.post("/infill", json={"input_prefix": "a", "input_suffix": "b"})
    assert response.status_code == 501
    assert response.json()["error"]["type"] == "not_supported_error"
    assert "infill is not supported by this model" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/reranking"])
def test_what_this_server_has_not(teller: httpx.Client, path: str) -> None:
    response = teller.post(path, json={"input": "a"})
    assert response.status_code == 501
    assert "does not rank documents" in response.json()["error"]["message"]
