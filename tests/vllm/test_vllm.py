"""The front before a real vLLM, and the stand-in of the fast tests beside it."""

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import httpx
import pytest

from constrained import load
from constrained.agent.model import Model
from constrained.engine.llama_files import read_header
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.sampling import Sampling
from constrained.errors import DeadlineError, RemoteError
from constrained.model_files import embedded
from constrained.remote.address import EngineKind
from server.settings import Settings
from tests.constrained.remote.faulty_proxy import Faults, make_proxy
from tests.constrained.remote.local_sampler import LocalSampler
from tests.constrained.remote.replies import (
    CITIES,
    FAULTS,
    GREEDY,
    WEATHER,
    ask,
    ask_through,
    write_string,
)
from tests.constrained.remote.stand_in_parts import Seen
from tests.constrained.remote.stand_ins import make_stand_in, serving
from tests.remote.sample_tools import TOOLS
from tests.server.running_server import running
from tests.vllm.vllm_server import CONTEXT, SEQUENCES

pytestmark = pytest.mark.vllm
Json: TypeAlias = dict[str, Any]
TURNS = 50
REQUESTS = 100
QUESTION = "What's the weather in Oslo?"
ADDRESSES = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/api/chat",
)
BUSY = re.compile(r"^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$", re.MULTILINE)
PROMPT = [2040, 40, 50]
ASKED: list[Json] = [
    {},
    {"model": "other"},
    {"prompt": []},
    {"prompt": None},
    {"prompt": [2048]},
    {"prompt": [40] * CONTEXT},
    {"prompt": [40] * (CONTEXT + 1)},
    {"prompt": [40] * (CONTEXT - 2), "max_tokens": 5},  # it shortens that without a word
    {"temperature": 2.1},
    {"temperature": -1},
    {"top_p": 0},
    {"min_p": 2},
    {"presence_penalty": 3},
    {"frequency_penalty": -3},
    {"repetition_penalty": 0},
    {"top_k": -2},
    {"top_k": 0},
    {"seed": -5},
    {"max_tokens": 0},
    {"logprobs": 20},
    {"logprobs": 21},
    {"stream": False, "stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True}},
    {"cache_salt": ""},
    {"cache_salt": "x" * 128},
    {"cache_salt": "x" * 129},
    {"cache_salt": "a/b"},
    {"logit_bias": {"2041": 100}},
    {"logit_bias": {"2048": 1}},
    {"structured_outputs": {"grammar": '%llguidance {}\nstart: "a"\n'}},
    {"structured_outputs": {"grammar": "%llguidance {}\nstart: (\n"}},
    {"structured_outputs": {"grammar": "%llguidance {}\nstart: b\n"}},
    {"structured_outputs": {"grammar": ""}},
    {"structured_outputs": {"grammar": "hello"}},
    {"structured_outputs": {"grammar": "%llguidance {}\nstart: A\nA: /a/ & /b/\n"}},
    {"structured_outputs": {"grammar": "%llguidance {}\nstart: <[5000]>\n"}},
]


@pytest.fixture(scope="module")
def model(demo: str) -> Iterator[Model]:
    with load(f"vllm://{demo}", tokenizer=embedded.PATH) as model:
        yield model


@pytest.fixture(scope="module")
def local() -> Iterator[Model]:
    with load(embedded.PATH, context_length=1024, draft=False) as local:
        yield local


def test_the_stand_in_answers_as_it_does(demo: str):
    engine = load_engine(embedded.PATH, context_length=CONTEXT)
    served = httpx.get(f"http://{demo}/v1/models", trust_env=False).json()["data"][0]["id"]
    app = make_stand_in(EngineKind.VLLM, LocalSampler(engine), Seen())
    different: list[tuple[Json, Json, Json]] = []
    with serving(app) as stand_in:
        for change in ASKED:
            there = describe_answer(demo, {"model": served, **change})
            here = describe_answer(stand_in, {"model": "served", **change})
            if there != here:
                different.append((change, there, here))
    assert different == []


def describe_answer(host: str, change: Json) -> Json:
    """What an answer is, but for its words."""
    base: Json = {"prompt": PROMPT, "max_tokens": 2, "stream": True, "return_token_ids": True}
    sampling: Json = {"temperature": 0, "top_k": -1, "top_p": 1, "min_p": 0, "ignore_eos": False}
    body = {**base, **sampling, **change}
    response = httpx.post(f"http://{host}/v1/completions", json=body, timeout=120, trust_env=False)
    if response.status_code != 200:
        fault = response.json()["error"]
        return {"status": response.status_code, "type": fault["type"], "param": fault["param"]}
    described: Json = {"events": 0, "ids": [], "end": None, "fields": set()}
    for line in response.text.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        described["events"] += 1
        if "error" in event:
            del event["error"]["message"]
            return {"event": event}
        for choice in event["choices"]:
            described["ids"] += choice["token_ids"]
            described["end"] = choice["finish_reason"]
            described["fields"] |= choice.keys()
    return described


def test_calls_are_those_of_the_local_engine(model: Model, local: Model):
    for city in CITIES:
        there, here = ask(model, city), ask(local, city, max_repetition=None)
        assert there.text == here.text
        assert there.calls == here.calls


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_every_tool_choice_is_kept(model: Model, local: Model, choice: str):
    options: Any = {"sampling": GREEDY, "tool_choice": choice, "max_tokens": 60}
    there, here = (one.call(QUESTION, [WEATHER], **options) for one in (model, local))
    assert there.text == here.text
    assert bool(there.calls) == (choice != "none")


@pytest.mark.parametrize("text", ["😀", "日本語 😀👍🏽", "\U0010fffd", "naïve é"])
def test_characters_of_several_tokens_are_found_again(model: Model, text: str):
    assert model.generate("Say it", choice=[text], think="forbidden") == text


def test_markers_stand_in_no_string(model: Model):
    assert "<tool_call>" not in write_string(model, "<tool_call>").content


def test_probabilities_are_those_of_the_local_engine(model: Model, local: Model):
    options: Any = {"sampling": GREEDY, "logprobs": 3, "max_tokens": 8}
    there, here = (one.call("Hello", **options).logprobs for one in (model, local))
    assert [drawn.token for drawn in there] == [drawn.token for drawn in here]
    for mine, other in zip(there, here, strict=True):
        assert mine.logprob == pytest.approx(other.logprob, abs=0.1)


def test_forced_tokens_have_no_alternatives(model: Model):
    drawn = ask(model, "Oslo", logprobs=3).logprobs
    assert {len(one.top) for one in drawn} == {1, 3}
    assert all(logprob > -1000 for one in drawn for _, logprob in one.top)


def test_what_ends_a_turn_is_kept(model: Model):
    for most in range(14, 20):
        cut = ask(model, "Paris", max_tokens=most)
        assert cut.calls[0].valid
        assert cut.usage.completion_tokens <= most
    closed = ask(model, "Oslo", reasoning_budget=5, think="required", reasoning_close=" Enough.")
    assert closed.reasoning.rstrip().endswith(" Enough.")
    assert closed.calls[0].valid
    assert model.call("Hello", sampling=GREEDY, stop=["o"], max_tokens=30).content == "Hi! H"


def test_seeds_give_the_same_again(model: Model):
    def draw(seed: int) -> str:
        sampling = Sampling(temperature=1.5, seed=seed)
        return model.call("Tell me", sampling=sampling, max_tokens=12).text

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_the_prompt_cache_keeps_salts_apart(model: Model):
    prompt = "word " * 300
    cached: list[int] = []
    for salt in ("a", "a", "b"):
        reply = model.call(prompt, max_tokens=1, cache_salt=salt)
        cached.append(reply.usage.cached_tokens)
    assert cached[0] == cached[2] == 0
    assert cached[1] > 300


def wait_until_idle(host: str) -> float:
    began = time.monotonic()
    while any(float(count) for count in BUSY.findall(read_metrics(host))):
        assert time.monotonic() - began < 30
        time.sleep(0.02)
    return time.monotonic() - began


def read_metrics(host: str) -> str:
    return httpx.get(f"http://{host}/metrics", trust_env=False).text


def test_deadlines_and_cancellations_reach_it(model: Model, demo: str):
    """Each reply would have 1,500 tokens, which it takes many seconds for."""
    never = Sampling(temperature=0, logit_bias=dict.fromkeys(model.engine.vocabulary.end, -100))
    endless: Any = {"sampling": never, "max_tokens": 1500}
    assert BUSY.search(read_metrics(demo))
    with pytest.raises(DeadlineError):
        model.call("Tell me a story", timeout=0.5, **endless)
    assert wait_until_idle(demo) < 5
    stream = model.stream("Tell me a story", **endless)
    for _ in stream:
        break
    assert wait_until_idle(demo) < 5
    assert stream.result.finish_reason == "cancelled"


def test_many_at_once_get_their_own(model: Model):
    """More than there are sequences."""
    texts: dict[int, str] = {}

    def work(number: int) -> None:
        texts[number] = ask(model, CITIES[number % len(CITIES)]).text

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3 * SEQUENCES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 3 * SEQUENCES
    assert all(texts[number] == texts[number % len(CITIES)] for number in texts)


def test_no_faulty_reply_is_delivered(demo: str):
    faults = Faults((), read_header(embedded.PATH).vocabulary, Random(7))
    proxy = make_proxy(f"http://{demo}", faults)
    with serving(proxy) as host, load(f"vllm://{host}", tokenizer=embedded.PATH) as model:
        delivered = ask_through(model, faults, FAULTS[EngineKind.VLLM], requests=REQUESTS)
    print(f"{REQUESTS} requests: {delivered.count} delivered, {delivered.refused} refused")
    assert delivered.faulty == []
    assert delivered.count > 0
    assert delivered.refused > REQUESTS / 2


def test_another_tokenizer_is_refused(demo: str, random_file: Path):
    with pytest.raises(RemoteError, match="it has another vocabulary"):
        load(f"vllm://{demo}", tokenizer=random_file)


def test_random_weights_give_valid_calls_alone(adversary: str, random_file: Path):
    with load(f"vllm://{adversary}", tokenizer=random_file) as model:
        for seed in range(TURNS):
            sampling = Sampling(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=seed)
            options: Any = {"tool_choice": "required", "sampling": sampling, "max_calls": 3}
            reply = model.call(f"Do it {seed}", TOOLS, max_tokens=200, **options)
            assert reply.calls
            assert all(call.valid for call in reply.calls), reply.text


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_server_speaks_its_dialects_before_it(model: Model, demo: str, is_stream: bool):
    def make() -> Model:
        return load(f"vllm://{demo}", tokenizer=embedded.PATH)

    schema = WEATHER["parameters"]
    about = {"name": WEATHER["name"], "description": WEATHER["description"]}
    function = {"type": "function", "function": WEATHER}
    tools: dict[str, list[Json]] = {
        "/v1/chat/completions": [function],
        "/v1/responses": [{"type": "function", **WEATHER}],
        "/v1/messages": [{**about, "input_schema": schema}],
        "/api/chat": [function],
    }
    with running(make, Settings()) as client:
        for address in ADDRESSES:
            body: Json = {"model": "demo", "tools": tools[address], "stream": is_stream}
            said: Any = [{"role": "user", "content": QUESTION}]
            body |= {"input": QUESTION} if address == "/v1/responses" else {"messages": said}
            if address == "/v1/messages":
                body["max_tokens"] = 100
            answer = client.post(address, json=body)
            assert answer.status_code == 200, answer.text
            assert "get_weather" in answer.text
            assert is_stream or "Oslo" in answer.text
