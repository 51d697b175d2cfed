"""An engine that is busy, or is started again while the front runs."""

import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from constrained import load
from constrained.agent.model import Model
from constrained.engine.llamacpp import load as load_engine
from constrained.errors import RemoteError
from constrained.model_files import embedded
from constrained.remote import identity, remote_runner
from constrained.remote.address import EngineKind
from constrained.remote.engines.http_client import _read_seconds
from constrained.remote.sampler import Sampled, SampledToken, SampleRequest
from tests.constrained.remote.faulty_proxy import Faults, make_proxy
from tests.constrained.remote.local_sampler import LocalSampler
from tests.constrained.remote.replies import ask
from tests.constrained.remote.stand_in_parts import Seen, StandInFacts
from tests.constrained.remote.stand_ins import make_stand_in, serving

DEMO = embedded.PATH
LLAMA_SERVER = EngineKind.LLAMA_SERVER


@pytest.fixture(scope="module")
def sampler() -> LocalSampler:
    return LocalSampler(load_engine(DEMO, sequences=4, context_length=1024))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pause is long enough for an engine to be started again, and nobody waits for long."""
    monkeypatch.setattr(identity, "PAUSE", 0.0)
    monkeypatch.setattr(remote_runner, "WAITS", (0.01, 0.01))


class Machine:
    """A machine on which one engine after the other is started."""

    def __init__(self, engine: FastAPI):
        self.engine = engine
        self.busy: list[Response] = []  # the next answers to requests for tokens, or for anything
        self.is_away = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_asked = scope["type"] == "http" and (self.is_away or scope["path"] == "/completion")
        answer: Any = self.busy.pop(0) if is_asked and self.busy else self.engine
        await answer(scope, receive, send)


@contextmanager
def fronting(machine: Machine, kind: EngineKind = LLAMA_SERVER) -> Iterator[Model]:
    with serving(machine) as host, load(f"{kind}://{host}", tokenizer=DEMO) as model:
        yield model


def refuse(status: int, **headers: str) -> Response:
    return Response('{"error": {"message": "not now"}}', status, headers)


def test_another_model_is_refused_until_the_first_one_is_back(sampler: LocalSampler):
    first = make_stand_in(LLAMA_SERVER, sampler, Seen())
    machine = Machine(first)
    with fronting(machine) as model:
        assert ask(model, "Paris").calls[0].valid
        machine.engine = make_stand_in(LLAMA_SERVER, sampler, Seen(), template="{{ messages }}")
        for _ in range(2):
            with pytest.raises(RemoteError, match="was restarted, and differs in: templates"):
                ask(model, "Paris")
        machine.engine = first
        assert ask(model, "Paris").calls[0].valid


def test_another_vocabulary_is_noticed(sampler: LocalSampler):
    kind = EngineKind.VLLM  # which says less of itself than a llama-server
    vocabulary = sampler.vocabulary
    upper = tuple(token.upper() for token in vocabulary.tokens)
    machine = Machine(make_stand_in(kind, sampler, Seen()))
    with fronting(machine, kind) as model:
        assert ask(model, "Paris").calls[0].valid
        other = replace(vocabulary, tokens=upper)
        machine.engine = make_stand_in(kind, sampler, Seen(), vocabulary=other)
        with pytest.raises(RemoteError, match="differs in: vocabulary"):
            ask(model, "Paris")


class OtherWeights:
    """A sampler whose probabilities are not those of the one that it asks.

    Args:
        sampler: draws its tokens.
    """

    def __init__(self, sampler: LocalSampler):
        self.vocabulary, self.limits = sampler.vocabulary, sampler.limits
        self._sampler = sampler

    async def open(self, request: SampleRequest) -> AsyncGenerator[Sampled, None]:
        async with aclosing(self._sampler.open(request)) as answer:
            async for sampled in answer:
                if isinstance(sampled, SampledToken):
                    top = {token: value - 1 for token, value in sampled.top.items()}
                    sampled = replace(sampled, top=top)
                yield sampled


@pytest.mark.parametrize("kind", [EngineKind.LLAMA_SERVER, EngineKind.VLLM])
def test_other_weights_are_refused(kind: EngineKind, sampler: LocalSampler):
    facts = StandInFacts()
    first = make_stand_in(kind, sampler, Seen(), facts=facts)
    other: Any = OtherWeights(sampler)
    machine = Machine(first)
    with fronting(machine, kind) as model:
        model.call("Hi", max_tokens=1)
        facts.started += 1  # the same weights, by another process
        model.call("Hi", max_tokens=1)
        machine.engine = make_stand_in(kind, other, Seen(), facts=StandInFacts(path="/other"))
        with pytest.raises(RemoteError, match=r"differs in: (path|model)"):
            model.call("Hi", max_tokens=1)
        machine.engine = make_stand_in(kind, other, Seen(), facts=StandInFacts(started=9))
        with pytest.raises(RemoteError, match="differs in: weights"):
            model.call("Hi", max_tokens=1)
        machine.engine = first
        model.call("Hi", max_tokens=1)


def test_weights_that_an_engine_changes_are_taken(
    sampler: LocalSampler, caplog: pytest.LogCaptureFixture
):
    """It says that it has: it computes anew what it had cached."""
    kind = EngineKind.SGLANG
    machine = Machine(make_stand_in(kind, sampler, Seen()))
    other: Any = OtherWeights(sampler)
    with fronting(machine, kind) as model:
        model.call("Hi", max_tokens=1)
        seen = Seen()
        machine.engine = make_stand_in(kind, other, seen, facts=StandInFacts(weights="2"))
        for _ in range(2):
            model.call("Hi", max_tokens=1)
    assert "names other weights than before: 2" in caplog.text
    handshakes = [body for body in seen.bodies if "7f3a" in json.dumps(body)]
    assert len(handshakes) == 1


@pytest.mark.parametrize(
    "between", [StandInFacts(tells_probabilities=False, started=2), StandInFacts(started=2)]
)
@pytest.mark.parametrize("name", [None, "default"])
def test_weights_are_compared_with_the_last_that_were_told(
    sampler: LocalSampler, between: StandInFacts, name: str | None
):
    """To name them for the first time does not say that they are others."""
    kind = EngineKind.SGLANG
    machine = Machine(make_stand_in(kind, sampler, Seen(), facts=StandInFacts(weights=name)))
    other: Any = OtherWeights(sampler)
    with fronting(machine, kind) as model:
        model.call("Hi", max_tokens=1)
        machine.engine = make_stand_in(kind, sampler, Seen(), facts=replace(between, weights=name))
        model.call("Hi", max_tokens=1)
        machine.engine = make_stand_in(kind, other, Seen(), facts=StandInFacts(started=3))
        with pytest.raises(RemoteError, match="differs in: weights"):
            model.call("Hi", max_tokens=1)


def test_several_servers_behind_one_address_are_known_again(
    sampler: LocalSampler, caplog: pytest.LogCaptureFixture
):
    facts = StandInFacts()
    machine = Machine(make_stand_in(EngineKind.VLLM, sampler, Seen(), facts=facts))
    with fronting(machine, EngineKind.VLLM) as model:
        for started in (2, 1.5, 2, 1.5):
            facts.started = started
            model.call("Hi", max_tokens=1)
    assert caplog.text.count("was restarted") == 1


def test_an_engine_may_have_another_room_once_it_is_started_again(sampler: LocalSampler):
    kind = EngineKind.SGLANG
    machine = Machine(make_stand_in(kind, sampler, Seen()))
    with fronting(machine, kind) as model:
        before = model.engine.context_length
        less = StandInFacts(started=2, reserved=StandInFacts().reserved + 100)
        machine.engine = make_stand_in(kind, sampler, Seen(), facts=less)
        model.call("Hi", max_tokens=1)
        assert model.engine.context_length == before - 100


def test_an_engine_that_comes_back_has_to_enforce_grammars(sampler: LocalSampler):
    engine = make_stand_in(LLAMA_SERVER, sampler, Seen())
    machine = Machine(engine)
    with serving(engine) as host, fronting(machine) as model:
        machine.engine = make_proxy(f"http://{host}", Faults(("drop grammar",), sampler.vocabulary))
        machine.busy = [refuse(503)]
        with pytest.raises(RemoteError, match="does not enforce grammars"):
            ask(model, "Paris")
        machine.engine = engine
        assert ask(model, "Paris").calls[0].valid


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_engine_is_asked_again(status: int, sampler: LocalSampler):
    machine = Machine(make_stand_in(LLAMA_SERVER, sampler, Seen()))
    with fronting(machine) as model:
        machine.busy = [refuse(status), refuse(status)]
        assert ask(model, "Paris").calls[0].valid
        assert not machine.busy
        machine.busy = [refuse(status) for _ in range(5)]
        with pytest.raises(RemoteError, match=f"status {status} .*not now") as caught:
            ask(model, "Paris")
        assert len(machine.busy) == 2  # it was asked three times
        assert caught.value.retry_after == 0
        machine.busy = [refuse(status, **{"Retry-After": "60"})]
        with pytest.raises(RemoteError) as caught:
            ask(model, "Paris")
        assert caught.value.retry_after == 60


def test_an_engine_that_still_loads_is_waited_for(sampler: LocalSampler):
    machine = Machine(make_stand_in(LLAMA_SERVER, sampler, Seen()))
    with fronting(machine) as model:
        machine.is_away, machine.busy = True, [refuse(503), refuse(503)]
        assert ask(model, "Paris").calls[0].valid


def test_times_of_retry_after_are_read():
    assert _read_seconds("12") == 12
    assert 50 < _read_seconds(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert _read_seconds(formatdate(0)) == 0
    assert _read_seconds("") == _read_seconds("soon") == _read_seconds("-1") == 0
