"""Turns that are generated together, on an engine that is used for nothing else meanwhile."""

from collections.abc import Sequence

from constrained.decode.request import Generation, Request
from constrained.engine.protocol import Engine
from constrained.errors import ModelError
from constrained.schedule.admission import Seat
from constrained.schedule.scheduler import Schedule


def generate(engine: Engine, requests: Sequence[Request]) -> list[Generation]:
    """Generates all turns together, as many at once as the engine has sequences.

    Raises:
        ContextError: a prompt leaves no room for an answer, or for the shortest turn.
        RequestError: a limit below 1, or one that the shortest turn does not fit into.
        GrammarError: a grammar or matcher failed; nothing is returned then.
    """
    schedule, seats = Schedule(engine), [Seat(request) for request in requests]
    for seat in seats:
        schedule.add(seat)
    try:
        while not schedule.is_idle:
            schedule.step()
    finally:
        schedule.clear(ModelError("interrupted"))
    return [seat.result.result() for seat in seats]
