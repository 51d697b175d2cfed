"""Runs the turns of a model: with the schedule of a local engine, or as the engine itself does."""

from constrained.decode.kv.snapshots import Cache
from constrained.decode.schedule.runner import Runner, TurnEngine, TurnRunner
from constrained.decode.schedule.scheduler import Schedule
from constrained.engine.protocol import Engine
from constrained.limits.deadline import Clock


def make_runner(
    engine: Engine | TurnEngine,
    *,
    step: int,
    deterministic: bool,
    clock: Clock,
    cache: Cache,
    max_waiting: int,
) -> TurnRunner:
    """Returns the runner of an engine.

    Args:
        engine: of single decodes, or of whole turns.
        step, deterministic, cache: see `Schedule`; for an engine of single decodes.
        clock: for deadlines and timings.
        max_waiting: requests that may wait.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """
    if isinstance(engine, TurnEngine):
        return engine.make_runner(clock=clock, max_waiting=max_waiting)
    schedule = Schedule(
        engine,
        step=step,
        deterministic=deterministic,
        clock=clock,
        cache=cache,
    )
    return Runner(schedule, "decode", max_waiting=max_waiting)
