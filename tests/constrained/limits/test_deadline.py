"""A request whose time is over fails, wherever it is; the others go on as if it had not been."""

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from constrained.agent.model import Model
from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.decode.schedule.workers import THREADS, Order
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits, scripted_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import DeadlineError, RequestError
from constrained.limits.deadline import Deadline, set_deadline
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.parse.parser import Parser
from grammars.wire.formats import HERMES
from tests.command_line import Run
from tests.generation import generate
from tests.templates import HERMES as TEMPLATE
from tests.templates import WRITE, hermes_call

BYTES = byte_vocabulary(())
GREEDY = Sampling(temperature=0)
TURN = b"<|im_start|>assistant\n"
WRITTEN = '{"text": "Some words."}'
LONG = tuple(BYTES.encode("a long prompt " * 30))


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def request(
    prompt: Sequence[int], max_tokens: int, seconds: float | None = None, at: float = 1000
) -> Request:
    return Request(
        DecodeInput(tuple(prompt), lambda: Parser(HERMES, ())),
        DecodeOptions(max_tokens=max_tokens, sampling=GREEDY),
        deadline=None if seconds is None else Deadline(at + seconds, seconds),
    )


def make_engine(**options: Any) -> ScriptedEngine:
    return ScriptedEngine(BYTES, random_logits(BYTES), **options)


@cache
def alone(prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    return generate(make_engine(), [request(prompt, max_tokens)])[0].tokens


class Deadlines(RuleBasedStateMachine):
    """At each step whoever is late fails, nobody else does, and all others get their answer."""

    deterministic = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.engine = make_engine(max_sequences=2)
        options: Any = {"deterministic": self.deterministic, "clock": self.clock}
        self.schedule = Schedule(self.engine, step=16, **options)
        self.seats: list[Seat] = []

    @rule(
        prompt=st.sampled_from([LONG, LONG[:100], LONG[:5]]),
        max_tokens=st.integers(1, 20),
        seconds=st.none() | st.integers(1, 30),
    )
    def ask(self, prompt: tuple[int, ...], max_tokens: int, seconds: int | None) -> None:
        self.seats.append(Seat(request(prompt, max_tokens, seconds, self.clock.now)))
        self.schedule.add(self.seats[-1])

    @rule(seconds=st.integers(0, 5))
    def step(self, seconds: int) -> None:
        self.clock.now += seconds
        open_ones = [seat for seat in self.seats if not seat.result.done()]
        self.schedule.step()
        for seat in open_ones:
            deadline = seat.request.deadline
            is_late = deadline is not None and self.clock.now >= deadline.at
            failed = seat.result.done() and seat.result.exception() is not None
            assert is_late == failed

    @invariant()
    def what_it_remembers_is_so(self) -> None:
        known = self.schedule._sequences
        assert [list(known.tokens(n)) for n in range(2)] == self.engine._tokens

    def teardown(self) -> None:
        while not self.schedule.is_idle:
            self.schedule.step()
        for seat in self.seats:
            if error := seat.result.exception():
                assert isinstance(error, DeadlineError)
            else:
                asked = seat.request
                expected = alone(tuple(asked.turn.prompt), asked.options.max_tokens)
                assert seat.result.result().tokens == expected


class Deterministic(Deadlines):
    deterministic = True


TestDeadlines = Deadlines.TestCase
TestDeterministic = Deterministic.TestCase
for machine in (TestDeadlines, TestDeterministic):
    machine.settings = settings(max_examples=settings.default.max_examples // 2)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (0, "after 2.5 seconds: it was still waiting. Allow more time .timeout., or load"),
        (1, "16 of the 420 tokens of its prompt were read. Allow more time .*shorten the prompt"),
        (2, "32 of the 420 tokens"),
        (27, ": 1 token was generated. Allow more time .timeout., or lower max_tokens"),
        (30, ": 4 tokens were generated"),
    ],
)
def test_the_error_says_how_far_it_came(steps: int, message: str) -> None:
    clock = Clock()
    schedule = Schedule(make_engine(max_sequences=1), step=16, clock=clock)
    seat = Seat(request(LONG, 100, 2.5))
    schedule.add(seat)
    for _ in range(steps):
        clock.now = 1002.4
        schedule.step()
    assert not seat.result.done()
    clock.now = 1002.5
    schedule.step()
    assert schedule.is_idle
    with pytest.raises(DeadlineError, match=message):
        seat.result.result()


def test_what_was_read_of_a_prompt_is_not_read_again() -> None:
    clock = Clock()
    schedule = Schedule(make_engine(max_sequences=1), step=16, clock=clock)
    late, again = Seat(request(LONG, 1, 2)), Seat(request(LONG, 1))
    schedule.add(late)
    for _ in range(5):
        schedule.step()
    clock.now += 2
    schedule.add(again)
    while not schedule.is_idle:
        schedule.step()
    assert isinstance(late.result.exception(), DeadlineError)
    assert again.result.result().usage.cached_tokens == 5 * 16


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model(clock: Clock) -> Iterator[Model]:
    """A model that takes a second for each decode."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        clock.now += 1
        start = BYTES.text(tokens).rindex(TURN) + len(TURN)
        return scripted_logits(BYTES, hermes_call("write", WRITTEN), start)(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=9000, max_sequences=1)
    with Model(engine, ChatTemplate(TEMPLATE), sampling=GREEDY, clock=clock) as model:
        yield model


def test_calls_with_a_timeout(model: Model) -> None:
    assert model.call("Hi", [WRITE], timeout=1000).calls
    with pytest.raises(DeadlineError, match=r"not finished after 3 seconds: \d+ tokens"):
        model.call("Hi", [WRITE], timeout=3)
    with pytest.raises(DeadlineError, match=r"not finished after 3\.5 seconds"):
        model.generate("Hi", schema={"type": "string"}, timeout=3.5)
    assert model.call("Hi", [WRITE], timeout=None).calls


def test_a_stream_with_a_timeout_ends_where_it_is(model: Model) -> None:
    stream = model.stream("Hi", [WRITE], timeout=3)
    with pytest.raises(DeadlineError, match="not finished after 3 seconds"):
        list(stream)
    turn = model.compile(Job([{"role": "user", "content": "Hi"}], [WRITE]))
    with pytest.raises(DeadlineError, match="not finished after 4 seconds"):
        list(model.stream_turn(turn, timeout=4))
    with pytest.raises(DeadlineError, match="not finished after 5 seconds"):
        model.complete([turn, turn], timeout=5)


def hold_all(model: Model, gate: threading.Event) -> Future[bool]:
    """Keeps all threads that compile busy until the gate is open."""
    order = Order(is_known=True)
    return [model.queue.workers.submit(gate.wait, order) for _ in range(THREADS + 1)][-1]


def test_time_runs_while_a_request_waits_to_be_compiled(model: Model, clock: Clock) -> None:
    gate = threading.Event()
    held = hold_all(model, gate)
    stream = model.stream("Hi", [WRITE], timeout=5)
    clock.now += 5
    gate.set()
    with pytest.raises(DeadlineError, match="after 5 seconds: it was being compiled"):
        _ = stream.result
    assert held.result()


def test_time_runs_while_a_job_waits_to_be_compiled(model: Model, clock: Clock) -> None:
    gate = threading.Event()
    job = Job([{"role": "user", "content": "Hi"}])

    async def main() -> list[Any]:
        held = hold_all(model, gate)
        tasks = [asyncio.ensure_future(model.acompile(job, seconds)) for seconds in (5, 6)]
        await asyncio.sleep(0)  # all of them are queued
        clock.now += 5
        gate.set()
        assert await asyncio.wrap_future(held)
        return await asyncio.gather(*tasks, return_exceptions=True)

    over, turn = asyncio.run(main())
    assert isinstance(over, DeadlineError)
    assert "after 5 seconds: it was being compiled" in over.message
    assert turn.tokens == model.compile(job, timeout=1).tokens


def test_jobs_take_no_bad_timeout(model: Model) -> None:
    job = Job([{"role": "user", "content": "Hi"}])
    with pytest.raises(RequestError, match="/timeout"):
        model.compile(job, timeout=0)
    with pytest.raises(RequestError, match="/timeout"):
        model.compile_text("Hi", timeout=math.nan)
    with pytest.raises(RequestError, match="/timeout"):
        asyncio.run(model.acompile(job, timeout=-1))


BAD = [10**400, 0, -1, 0.0, math.nan, math.inf, True, False, "5", [5]]


@pytest.mark.parametrize("timeout", BAD)
def test_bad_timeouts(model: Model, timeout: Any) -> None:
    with pytest.raises(RequestError, match=r"seconds above 0 \(at /timeout\)"):
        model.call("Hi", timeout=timeout)
    with pytest.raises(RequestError, match="/timeout"):
        model.complete([], timeout=timeout)


def test_no_timeout_is_no_deadline() -> None:
    assert set_deadline(None, Clock()) is None
    assert set_deadline(2, Clock()) == Deadline(1002, 2)


@pytest.mark.parametrize("timeout", ["0", "-3", "nan"])
def test_the_command_line_refuses_a_bad_timeout(run: Run, timeout: str) -> None:
    code, _, err = run("call", "hi", "-m", "none.gguf", "--timeout", timeout)
    assert (code, "seconds above 0 (at /timeout)" in err) == (2, True)


def test_the_command_line_has_a_timeout(run: Run) -> None:
    code, _, err = run("call", "hi", "-t", "1", "--timeout", "1e-300")
    assert (code, "not finished after 1e-300 seconds" in err) == (4, True)
