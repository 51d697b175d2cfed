"""A front whose tokens are sampled elsewhere: against stand-ins on a local engine, over HTTP."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from constrained import load
from constrained.agent.model import Model
from constrained.engine.llama_files import read_header
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.sampling import Sampling
from constrained.errors import (
    BusyError,
    DeadlineError,
    ModelError,
    RemoteError,
    RequestError,
)
from constrained.model_files import embedded
from constrained.remote.address import EngineKind
from tests.constrained.remote.faulty_proxy import Faults, make_proxy
from tests.constrained.remote.local_sampler import LocalSampler
from tests.constrained.remote.replies import CITIES, FAULTS, GREEDY, WEATHER, ask, ask_through
from tests.constrained.remote.stand_in_parts import Seen, StandInFacts
from tests.constrained.remote.stand_ins import make_stand_in, serving

KINDS = list(EngineKind)
DEMO = embedded.PATH
SPACE = 7
"""Tokens that may stand between a spent budget and the closing marker: the end of a character, and
white space."""


@dataclass
class Place:
    """A stand-in that runs.

    Attributes:
        kind: of the engine.
        host: and port.
        seen: by it.
        facts: that it says of itself.
    """

    kind: EngineKind
    host: str
    seen: Seen
    facts: StandInFacts

    @property
    def address(self) -> str:
        return f"{self.kind}://{self.host}"


@pytest.fixture(scope="module")
def sampler() -> LocalSampler:
    return LocalSampler(load_engine(DEMO, sequences=4, context_length=1024))


@pytest.fixture(scope="module")
def places(sampler: LocalSampler) -> Iterator[dict[EngineKind, Place]]:
    template = read_header(DEMO).chat_templates[""]
    with ExitStack() as stack:
        found: dict[EngineKind, Place] = {}
        for kind in KINDS:
            seen, facts = Seen(), StandInFacts()
            app = make_stand_in(kind, sampler, seen, template=template, facts=facts)
            found[kind] = Place(kind, stack.enter_context(serving(app)), seen, facts)
        yield found


@pytest.fixture(scope="module")
def local() -> Iterator[Model]:
    with load(DEMO, context_length=1024, draft=False) as model:
        yield model


@pytest.fixture(scope="module")
def remotes(places: dict[EngineKind, Place]) -> Iterator[dict[EngineKind, Model]]:
    with ExitStack() as stack:
        models: dict[EngineKind, Model] = {}
        for kind, place in places.items():
            models[kind] = stack.enter_context(load(place.address, tokenizer=DEMO))
        yield models


@pytest.mark.parametrize("kind", KINDS)
def test_the_reply_is_that_of_the_local_engine(
    kind: EngineKind, remotes: dict[EngineKind, Model], local: Model
):
    for city in CITIES:
        there = ask(remotes[kind], city)
        here = local.call(
            f"What's the weather in {city}?",
            [WEATHER],
            sampling=GREEDY,
            tool_choice="required",
            max_repetition=None,
        )
        assert there.text == here.text
        assert there.calls == here.calls
        assert there.finish_reason == here.finish_reason


@pytest.mark.parametrize("kind", KINDS)
def test_events_come_as_they_are_sampled(kind: EngineKind, remotes: dict[EngineKind, Model]):
    stream = remotes[kind].stream("What's the weather in Oslo?", [WEATHER], sampling=GREEDY)
    events = list(stream)
    assert len(events) > 3
    assert stream.result.calls[0].arguments["city"] == "Oslo"


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_those_of_the_engine(
    kind: EngineKind, remotes: dict[EngineKind, Model], local: Model
):
    there = remotes[kind].call("Hello", sampling=GREEDY, logprobs=3, max_tokens=8).logprobs
    here = local.call("Hello", sampling=GREEDY, logprobs=3, max_tokens=8).logprobs
    assert [event.token for event in there] == [event.token for event in here]
    for mine, other in zip(there, here, strict=True):
        assert mine.logprob == pytest.approx(other.logprob, abs=0.05)
        assert [token for token, _ in mine.top] == [token for token, _ in other.top]


def test_tokens_that_could_not_be_sampled_are_no_alternatives(remotes: dict[EngineKind, Model]):
    """vLLM fills up with them, at -9999, where the grammar leaves few tokens."""
    logprobs = ask(remotes[EngineKind.VLLM], "Oslo", logprobs=3).logprobs
    assert {len(one.top) for one in logprobs} > {1}
    assert all(logprob > -1000 for one in logprobs for _, logprob in one.top)


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_that_is_cut_ends_well(kind: EngineKind, remotes: dict[EngineKind, Model]):
    """The ending is written here: the engine knows of no reserve."""
    for most in range(14, 20):
        reply = ask(remotes[kind], "Paris", max_tokens=most)
        assert reply.calls[0].valid
        assert reply.usage.completion_tokens <= most


def test_characters_of_several_tokens_are_found_again(remotes: dict[EngineKind, Model]):
    """llama-server does not tell the ids of tokens inside a character."""
    model = remotes[EngineKind.LLAMA_SERVER]
    for text in ("😀", "日本語 😀👍🏽", "\U0010fffd"):
        assert model.generate("Say it", choice=[text], think="forbidden") == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_spent_budget_closes_the_reasoning(kind: EngineKind, remotes: dict[EngineKind, Model]):
    """The tokens are counted here; the engine goes on under a grammar that closes the block."""
    for budget in (1, 5):
        reply = ask(remotes[kind], "Oslo", reasoning_budget=budget, think="required")
        assert reply.calls[0].valid
        assert budget <= reply.usage.reasoning_tokens <= budget + SPACE
    close = " Enough of that."
    reply = ask(remotes[kind], "Oslo", reasoning_budget=5, think="required", reasoning_close=close)
    assert reply.calls[0].valid
    assert reply.reasoning.rstrip().endswith(close)
    reply = ask(remotes[kind], "Oslo", max_tokens=60, think="required")
    assert reply.calls[0].valid
    assert reply.usage.reasoning_tokens <= 30 + SPACE  # half, where nothing else is said


@pytest.mark.parametrize("kind", KINDS)
def test_the_reply_tells_of_the_engine(kind: EngineKind, remotes: dict[EngineKind, Model]):
    reply = remotes[kind].call("Hello", max_tokens=2)
    assert reply.remote is not None
    assert str(kind) in reply.remote.engine
    assert "continuing after max_repetition" in reply.remote.lacks
    assert any(str(kind) in notice for notice in remotes[kind].notices)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"trace": True}, "/trace"),
        ({"ignore_eos": True, "response_format": {"type": "json_object"}}, "/ignore_eos"),
        ({"prefill": True}, "/prefill"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(
    kind: EngineKind, options: dict[str, Any], where: str, remotes: dict[EngineKind, Model]
):
    messages: Any = [{"role": "user", "content": "Hi"}]
    if "prefill" in options:
        messages.append({"role": "assistant", "content": "Hello, wor"})
    with pytest.raises(RequestError) as caught:
        remotes[kind].call(messages, **options)
    assert caught.value.where == where


def test_no_request_was_one_that_the_engine_refuses(
    remotes: dict[EngineKind, Model], places: dict[EngineKind, Place]
):
    """The stand-ins refuse what the engines do: fields, ranges, grammars."""
    extreme = {"temperature": 2, "top_p": 0, "top_k": 0, "presence_penalty": -2}
    for kind in (EngineKind.VLLM, EngineKind.SGLANG):
        sampling = Sampling(**extreme, repeat_penalty=2, logit_bias={5: -float("inf")})
        remotes[kind].call("Hello", max_tokens=2, sampling=sampling, logprobs=20)
        assert places[kind].seen.refused == []


def test_room_that_an_engine_keeps_for_itself_is_not_used(remotes: dict[EngineKind, Model]):
    """SGLang would shorten the reply without a word."""
    assert remotes[EngineKind.SGLANG].engine.context_length == 1024 - StandInFacts().reserved


def test_events_may_have_the_new_tokens_alone(
    remotes: dict[EngineKind, Model], places: dict[EngineKind, Place]
):
    model, facts = remotes[EngineKind.SGLANG], places[EngineKind.SGLANG].facts
    replies: list[Any] = []
    for facts.is_incremental in (True, False):
        replies.append(model.call("Hello", sampling=GREEDY, logprobs=2, max_tokens=8))
    assert replies[0].text == replies[1].text
    assert replies[0].logprobs == replies[1].logprobs


@pytest.mark.parametrize("kind", [EngineKind.VLLM, EngineKind.SGLANG])
@pytest.mark.parametrize(
    ("sampling", "where"),
    [
        (Sampling(repeat_penalty=1.2, penalty_last_n=5), "/penalty_last_n"),
        (Sampling(logit_bias={5: 101}), "/logit_bias/5"),
    ],
)
def test_sampling_that_means_something_else_there_is_refused(
    kind: EngineKind, sampling: Sampling, where: str, remotes: dict[EngineKind, Model]
):
    with pytest.raises(RequestError) as caught:
        remotes[kind].call("Hi", sampling=sampling)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("kind", "sampling", "where"),
    [
        (EngineKind.VLLM, Sampling(temperature=2.5), "/temperature"),
        (EngineKind.SGLANG, Sampling(repeat_penalty=2.5), "/repeat_penalty"),
        (EngineKind.SGLANG, Sampling(seed=1), "/seed"),
    ],
)
def test_what_one_engine_does_not_take_is_refused(
    kind: EngineKind, sampling: Sampling, where: str, remotes: dict[EngineKind, Model]
):
    with pytest.raises(RequestError) as caught:
        remotes[kind].call("Hi", sampling=sampling)
    assert caught.value.where == where


@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_for_no_token_is_refused(kind: EngineKind, remotes: dict[EngineKind, Model]):
    with pytest.raises(RequestError, match="there is no token 99999") as caught:
        remotes[kind].call("Hi", sampling=Sampling(logit_bias={99999: 1}))
    assert caught.value.where == "/logit_bias/99999"


def test_salts_go_to_the_engine_or_keep_it_from_sharing(
    remotes: dict[EngineKind, Model], places: dict[EngineKind, Place]
):
    for kind in (EngineKind.VLLM, EngineKind.SGLANG):
        model, seen = remotes[kind], places[kind].seen
        model.call("Hi", max_tokens=1)
        assert "cache_salt" not in seen.bodies[-1]
        for salt in ("a", "b"):
            model.call("Hi", max_tokens=1, cache_salt=salt)
        salts = [body["cache_salt"] for body in seen.bodies[-2:]]
        assert len(set(salts)) == 2
        model.call("Hi", max_tokens=1, cache_prompt=False)
        assert seen.bodies[-1]["cache_salt"] not in salts
    place = places[EngineKind.LLAMA_SERVER]
    with load(place.address, tokenizer=DEMO) as model:
        shared: list[bool] = []
        for salt in ("a", "a", "b", "a"):
            model.call("Hi", max_tokens=1, cache_salt=salt)
            shared.append(place.seen.bodies[-1]["cache_prompt"])
    assert shared == [True, True, False, False]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"threads": 2}, "/threads"),
        ({"context_length": 512}, "/context_length"),
        ({"deterministic": True}, "/deterministic"),
        ({"cache_dir": "x"}, "/cache_dir"),
        ({"lora": ["a.gguf"]}, "/lora"),
        ({"sequences": 0}, "/sequences"),
    ],
)
def test_options_of_the_engine_are_refused(options: dict[str, Any], where: str):
    with pytest.raises(RequestError) as caught:
        load("vllm://127.0.0.1:9", tokenizer=DEMO, **options)
    assert caught.value.where == where


def test_a_tokenizer_is_needed(places: dict[EngineKind, Place]):
    for place in places.values():
        with pytest.raises(RequestError, match="does not publish its vocabulary"):
            load(place.address)
    with pytest.raises(RequestError, match="are for an engine"):
        load(DEMO, tokenizer=DEMO)


def test_the_template_is_that_of_the_llama_server(sampler: LocalSampler):
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    app = make_stand_in(EngineKind.LLAMA_SERVER, sampler, Seen(), template=template)
    with serving(app) as host, load(f"llama-server://{host}", tokenizer=DEMO) as model:
        assert model.compiler.template.source == template


@pytest.mark.parametrize("kind", KINDS)
def test_another_vocabulary_is_refused(kind: EngineKind, sampler: LocalSampler, tmp_path: Path):
    vocabulary = sampler.vocabulary
    swapped = list(vocabulary.tokens)
    letters = [swapped.index(b"a"), swapped.index(b"e")]
    swapped[letters[0]], swapped[letters[1]] = swapped[letters[1]], swapped[letters[0]]
    other = replace(vocabulary, tokens=tuple(swapped))
    stand_in = make_stand_in(kind, sampler, Seen(), vocabulary=other)
    refusal = pytest.raises(RemoteError, match="it has another vocabulary")
    with serving(stand_in) as host, refusal:
        load(f"{kind}://{host}", tokenizer=DEMO)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_ignores_grammars_is_refused(
    kind: EngineKind, places: dict[EngineKind, Place], sampler: LocalSampler
):
    faults = Faults(("drop grammar",), sampler.vocabulary)
    proxy = make_proxy(f"http://{places[kind].host}", faults)
    refusal = pytest.raises(RemoteError, match="does not enforce grammars")
    with serving(proxy) as host, refusal:
        load(f"{kind}://{host}", tokenizer=DEMO)


@pytest.mark.parametrize("kind", KINDS)
def test_no_faulty_reply_is_delivered(
    kind: EngineKind, places: dict[EngineKind, Place], sampler: LocalSampler
):
    faults = Faults((), sampler.vocabulary, Random(kind))
    proxy = make_proxy(f"http://{places[kind].host}", faults)
    with serving(proxy) as host, load(f"{kind}://{host}", tokenizer=DEMO) as model:
        delivered = ask_through(model, faults, FAULTS[kind], requests=24)
    assert delivered.faulty == []
    assert delivered.count > 0
    assert len(faults.counts) > 6


def test_an_error_names_its_place(places: dict[EngineKind, Place], sampler: LocalSampler):
    faults = Faults((), sampler.vocabulary)
    proxy = make_proxy(f"http://{places[EngineKind.LLAMA_SERVER].host}", faults)
    with serving(proxy) as host, load(f"llama-server://{host}", tokenizer=DEMO) as model:
        faults.names = ("end early",)
        faults.chance = Random(2)
        with pytest.raises(RemoteError, match="the end comes too early, at token") as caught:
            ask(model, "Paris")
    error = caught.value
    assert error.token is not None
    assert error.offset == len(error.before.encode())
    assert "<tool_call>\n".startswith(error.before[:12])


@pytest.fixture
def slow(sampler: LocalSampler) -> Iterator[Place]:
    seen = Seen()
    app = make_stand_in(EngineKind.SGLANG, sampler, seen, sleep=0.1)
    with serving(app) as host:
        yield Place(EngineKind.SGLANG, host, seen, StandInFacts())


def wait_until(is_so: Any) -> None:
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be so")


def test_deadlines_and_cancellations_reach_the_engine(slow: Place):
    with load(slow.address, tokenizer=DEMO, sequences=1) as model:
        with pytest.raises(DeadlineError, match="generated"):
            model.call("Tell me a story", timeout=0.6, sampling=GREEDY, max_tokens=200)
        wait_until(lambda: slow.seen.aborted == 1)
        stream = model.stream("Tell me a story", sampling=GREEDY, max_tokens=200)
        for _ in stream:
            break  # which ends the turn
        wait_until(lambda: slow.seen.aborted == 2)
        assert stream.result.finish_reason == "cancelled"
        names = {body["rid"] for body in slow.seen.bodies}
        wait_until(lambda: len(slow.seen.told) == 2)
        assert set(slow.seen.told) <= names
        # One at a time: the second waits here, until its own time is over.
        first = model.stream("Tell me a story", sampling=GREEDY, max_tokens=200)
        wait_until(lambda: model.metrics().running == 1)
        with pytest.raises(DeadlineError, match="still waiting"):
            model.call("Hi", timeout=0.3)
        first.cancel()


def test_a_model_that_drains_ends_what_is_under_way(slow: Place):
    with load(slow.address, tokenizer=DEMO) as model:
        stream = model.stream("Tell me a story", sampling=GREEDY, max_tokens=200)
        events = iter(stream)  # which ends the turn when it is dropped
        next(events)
        model.drain(0.1)
        with pytest.raises(ModelError, match="shuts down"):
            _ = stream.result


def test_too_many_are_turned_away(slow: Place):
    with load(slow.address, tokenizer=DEMO, sequences=1, max_waiting=1) as model:
        first = model.stream("A story", max_tokens=200)
        wait_until(lambda: model.metrics().running == 1)
        second = model.stream("A story", max_tokens=200)
        wait_until(lambda: model.metrics().waiting == 1)
        with pytest.raises(BusyError):
            model.call("Hi")
        for stream in (first, second):
            stream.cancel()


def test_an_engine_that_is_gone_is_left_alone_for_a_time(sampler: LocalSampler):
    app = make_stand_in(EngineKind.VLLM, sampler, Seen())
    with ExitStack() as stack:
        with serving(app) as host:
            model = stack.enter_context(load(f"vllm://{host}", tokenizer=DEMO))
            assert model.call("Hi", max_tokens=1).text is not None
        for _ in range(5):
            with pytest.raises(RemoteError, match="connection"):
                model.call("Hi", max_tokens=1)
        with pytest.raises(RemoteError, match="failed 5 times in a row") as caught:
            model.call("Hi", max_tokens=1)
        assert "tried again in" in (caught.value.hint or "")


def test_many_at_once(remotes: dict[EngineKind, Model]):
    """More than there are sequences, of several threads."""
    replies: dict[int, Sequence[Any]] = {}

    def work(number: int) -> None:
        kind = KINDS[number % len(KINDS)]
        city = CITIES[number % len(CITIES)]
        replies[number] = ask(remotes[kind], city).calls

    threads = [threading.Thread(target=work, args=(number,)) for number in range(18)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 18
    for number, calls in replies.items():
        assert [call.valid for call in calls] == [True]
        assert replies[number % len(CITIES)] == calls or number < len(CITIES)
