"""The front before a real llama-server."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from constrained import load
from constrained.agent.model import Model
from constrained.engine.llama_files import read_header
from constrained.engine.sampling import Sampling
from constrained.errors import DeadlineError, RemoteError
from constrained.model_files import embedded
from constrained.remote.address import EngineKind
from server.settings import Settings
from tests.constrained.remote.faulty_proxy import Faults, make_proxy
from tests.constrained.remote.replies import (
    CITIES,
    FAULTS,
    GREEDY,
    WEATHER,
    ask,
    ask_through,
    write_string,
)
from tests.constrained.remote.stand_ins import serving
from tests.remote.sample_tools import TOOLS
from tests.server.running_server import running

pytestmark = pytest.mark.remote
REQUESTS = 1000
TURNS = 150


@pytest.fixture(scope="module")
def model(demo: str) -> Iterator[Model]:
    with load(f"llama-server://{demo}") as model:  # it is on this machine, so it names its file
        yield model


def test_calls_are_those_of_the_local_engine(model: Model):
    with load(embedded.PATH, context_length=1024, draft=False) as local:
        for city in CITIES:
            there, here = ask(model, city), ask(local, city)
            assert [call.name for call in there.calls] == ["get_weather"]
            assert there.calls[0].arguments.keys() == here.calls[0].arguments.keys()
            assert there.calls[0].arguments["unit"] in ("celsius", "fahrenheit")


@pytest.mark.parametrize("text", ["😀", "日本語 😀👍🏽", "\U0010fffd", "naïve é"])
def test_characters_of_several_tokens_are_found_again(model: Model, text: str):
    assert model.generate("Say it", choice=[text], think="forbidden") == text


def test_markers_stand_in_no_string(model: Model):
    """To the engine's own mask they are text. Here the model would like to write nothing else."""
    assert "<tool_call>" not in write_string(model, "<tool_call>").content


def test_a_turn_that_ends_early_tells_what_was_cached(model: Model):
    for _ in range(2):
        reply = ask(model, "Lima", max_calls=1)
    assert reply.usage.cached_tokens > 50


def test_a_value_that_repeats_itself_ends_the_reply(adversary: str):
    schema = {"type": "array", "items": {"enum": ["x"]}}
    with load(f"llama-server://{adversary}") as model:
        bias = {model.engine.vocabulary.encode(text)[0]: 30.0 for text in (",", '"', "x")}
        sampling = Sampling(temperature=0, logit_bias=bias)
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        given: Any = {"response_format": form, "sampling": sampling, "think": "forbidden"}
        reply = model.call("Hi", max_repetition=40, max_tokens=1000, **given)
    assert [ended.where for ended in reply.ended_values] == ["/content"]
    assert reply.finish_reason == "length"
    assert set(json.loads(reply.content)) == {"x"}
    assert reply.usage.completion_tokens < 200


def test_random_weights_give_valid_calls_alone(adversary: str):
    """No reply is one that the local matcher would refuse, and nearly all are delivered."""
    delivered = 0
    with load(f"llama-server://{adversary}") as model:
        for seed in range(TURNS):
            sampling = Sampling(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=seed)
            options: Any = {"tool_choice": "required", "sampling": sampling, "max_calls": 3}
            try:
                reply = model.call(f"Do it {seed}", TOOLS, max_tokens=200, **options)
            except RemoteError:
                continue
            delivered += 1
            assert reply.calls
            assert all(call.valid for call in reply.calls), reply.text
    print(f"random weights: {delivered} of {TURNS} turns delivered, all calls valid")
    assert delivered >= 0.98 * TURNS


def test_a_thousand_requests_through_a_faulty_proxy(demo: str):
    vocabulary = read_header(embedded.PATH).vocabulary
    faults = Faults((), vocabulary, Random(7))
    names = FAULTS[EngineKind.LLAMA_SERVER]
    proxy = make_proxy(f"http://{demo}", faults)
    with serving(proxy) as host, load(f"llama-server://{host}") as model:
        delivered = ask_through(model, faults, names, requests=REQUESTS)
    print(f"{REQUESTS} requests: {delivered.count} delivered, {delivered.refused} refused")
    print(f"faulty replies delivered: {len(delivered.faulty)}; faults: {dict(faults.counts)}")
    assert delivered.faulty == []
    assert delivered.count + delivered.refused == REQUESTS
    assert delivered.count > REQUESTS / 20
    assert delivered.refused > REQUESTS / 2
    assert set(faults.counts) >= set(names)


def test_another_tokenizer_is_refused(demo: str, random_file: Path):
    with pytest.raises(RemoteError, match="it has another vocabulary"):
        load(f"llama-server://{demo}", tokenizer=random_file)


def count_busy(host: str) -> int:
    slots = httpx.get(f"http://{host}/slots", trust_env=False).json()
    return sum(slot["is_processing"] for slot in slots)


def wait_until_idle(host: str) -> float:
    began = time.monotonic()
    while count_busy(host):
        assert time.monotonic() - began < 10
        time.sleep(0.01)
    return time.monotonic() - began


def test_deadlines_and_cancellations_free_the_slot(adversary: str):
    with load(f"llama-server://{adversary}") as model:
        with pytest.raises(DeadlineError):
            model.call("Hi", timeout=0.05, sampling=GREEDY, max_tokens=3_000)  # 0.13 s for 900
        assert wait_until_idle(adversary) < 2
        stream = model.stream("Hello", sampling=GREEDY, max_tokens=3_000)
        for _ in stream:
            break
        assert wait_until_idle(adversary) < 2
        assert stream.result.finish_reason == "cancelled"


def test_the_server_speaks_its_dialects_before_it(model: Model, demo: str):
    def make() -> Model:
        return load(f"llama-server://{demo}")

    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "What's the weather in Oslo?"}],
        "tools": [{"type": "function", "function": WEATHER}],
        "tool_choice": "required",
        "temperature": 0,
    }
    with running(make, Settings()) as client:
        reply = client.post("/v1/chat/completions", json=body).json()
        (call,) = reply["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "get_weather"
        assert reply["constrained"]["remote"]["engine"].startswith("llama-server at")
