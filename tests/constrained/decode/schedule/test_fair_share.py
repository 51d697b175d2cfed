"""A turn whose own work takes long delays the others by its share of the time at most."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.decode.schedule.active_turn import FREE, FairShare
from constrained.decode.schedule.batch_plan import PROMPT_STEP
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from grammars.parse.parser import Parser
from grammars.wire.formats import HERMES

BYTES = byte_vocabulary(())
DECODE = 0.01  # seconds


class TimedEngine(ScriptedEngine):
    """A step of the model takes its time on a clock that nothing else moves."""

    def __init__(self, max_sequences: int):
        super().__init__(BYTES, random_logits(BYTES), max_sequences=max_sequences)
        self.now = 0.0
        self.sizes: list[int] = []  # tokens of each decode

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        self.now += DECODE
        self.sizes.append(sum(len(chunk.tokens) for chunk in chunks))
        return super().decode(chunks)


def make_request(prompt: str, max_tokens: int) -> Request:
    turn = DecodeInput(tuple(prompt.encode()), lambda: Parser(HERMES, ()))
    options = DecodeOptions(max_tokens=max_tokens, sampling=Sampling(temperature=0), draft=False)
    return Request(turn, options)


def time_plain(costs: Sequence[float], sequences: int = 8) -> float:
    """Seconds that a turn of 20 tokens takes beside turns with such own work per token."""
    engine = TimedEngine(sequences)
    schedule = Schedule(engine, clock=lambda: engine.now, cpu_clock=lambda: engine.now)

    def make_costly(cost: float) -> Request:
        def work(events: object) -> None:
            engine.now += cost

        return replace(make_request(f"costly {cost}", 1_000), sink=work)

    for cost in costs:
        schedule.add(Seat(make_costly(cost)))
    plain = Seat(make_request("plain", 20))
    schedule.add(plain)
    while not plain.result.done():
        schedule.step()
    result = engine.now
    schedule.clear(RuntimeError("the test is over"))
    return result


def test_a_costly_turn_takes_no_more_time_than_the_others_have() -> None:
    alone = time_plain([])
    assert time_plain([0.1]) < 2.5 * alone + 0.2  # 20 * (0.1 + 0.01) without shares
    assert time_plain([0.5]) < 2.5 * alone + 1.0  # one piece of work is not interrupted
    assert time_plain([0.1] * 3) < 4.5 * alone + 3 * 0.2


def test_a_stream_that_pauses_does_not_wait_for_a_long_decode() -> None:
    engine = TimedEngine(2)
    schedule = Schedule(engine, clock=lambda: engine.now, cpu_clock=lambda: engine.now)

    def work(events: object) -> None:
        engine.now += 0.1

    schedule.add(Seat(replace(make_request("costly 0.1", 1_000), sink=work)))
    for _ in range(3):
        schedule.step()
    reader = Seat(make_request("a long prompt " * 100, 1))
    schedule.add(reader)
    while not reader.result.done():
        schedule.step()
    assert PROMPT_STEP in engine.sizes  # it paused
    assert max(engine.sizes) <= 1 + PROMPT_STEP
    schedule.clear(RuntimeError("the test is over"))


def test_what_is_short_beside_the_decode_is_free() -> None:
    assert time_plain([FREE / 2] * 2) < time_plain([]) + 21 * FREE


def test_who_is_alone_does_not_wait() -> None:
    now = 0.0
    share = FairShare(lambda: now, lambda: now)
    with share:
        now += 1.0
    share.charge(decode=DECODE, turns=1)
    assert share.is_costly
    assert not share.sits_out


def test_one_that_sits_out_comes_back() -> None:
    now = 0.0
    share = FairShare(lambda: now, lambda: now)
    with share:
        now += 1.0
    share.charge(decode=0.4, turns=2)  # 0.2 of it were free
    now += 0.79
    assert share.sits_out
    now += 0.02
    assert not share.sits_out
    share.charge(decode=0.4, turns=2)
    assert not share.is_costly


def test_who_waits_for_the_interpreter_lock_does_not_pay_for_it() -> None:
    now = worked = 0.0
    share = FairShare(lambda: now, lambda: worked)
    with share:
        now += 1.0
    share.charge(decode=DECODE, turns=8)
    assert not share.is_costly
    with share:
        worked += 1.0
    share.charge(decode=DECODE, turns=8)
    assert share.is_costly
