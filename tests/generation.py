"""Generates turns in the calling thread, on an engine that nothing else uses meanwhile."""

import time
from collections.abc import Sequence

from constrained.decode.request import Generation, Request
from constrained.decode.schedule.admission import Seat
from constrained.decode.schedule.scheduler import Schedule
from constrained.engine.protocol import Engine
from constrained.errors import ModelError
from constrained.limits.deadline import Clock


def generate(
    engine: Engine,
    requests: Sequence[Request],
    *,
    clock: Clock = time.monotonic,
    cpu_clock: Clock = time.thread_time,
) -> list[Generation]:
    """Generates all turns, in batches of as many as the engine has sequences.

    Args:
        engine: decodes the turns.
        requests: for the turns.
        clock: in seconds; the number of drafts depends on how long decodes take.
        cpu_clock: in seconds; a turn pauses if its masks take long, see `FairShare`.

    Returns:
        The generations, in the order of the requests.

    Raises:
        ContextError: a prompt leaves no room for an answer, or for the shortest turn.
        RequestError: a token limit is below 1.
        TokenLimitError: a token limit is too small for the shortest turn.
        GrammarError: a grammar or matcher failed.
    """
    schedule = Schedule(engine, clock=clock, cpu_clock=cpu_clock)
    seats = [Seat(request) for request in requests]
    for seat in seats:
        schedule.add(seat)
    try:
        while not schedule.is_idle:
            schedule.step()
    finally:
        schedule.clear(ModelError("interrupted"))
    return [seat.result.result() for seat in seats]
