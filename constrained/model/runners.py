"""Runs the turns of a model: with the schedule of a local engine, or on a remote engine."""

from constrained.deadline import Clock
from constrained.decode.drafts.draft_model import DraftModel
from constrained.engine.protocol import Engine
from constrained.kv.snapshots import Cache
from constrained.remote.remote_engine import RemoteEngine
from constrained.schedule.runner import Runner, TurnRunner
from constrained.schedule.scheduler import Schedule


def make_runner(
    engine: Engine | RemoteEngine,
    *,
    step: int,
    deterministic: bool,
    clock: Clock,
    cache: Cache,
    draft_model: DraftModel | None,
    max_waiting: int,
) -> TurnRunner:
    """Returns the runner of an engine.

    Args:
        engine: here or elsewhere.
        step, deterministic, cache, draft_model: see `Schedule`; of no effect elsewhere.
        clock: for deadlines and timings.
        max_waiting: requests that may wait.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """
    if isinstance(engine, RemoteEngine):
        return engine.make_runner(clock=clock, max_waiting=max_waiting)
    schedule = Schedule(
        engine,
        step=step,
        deterministic=deterministic,
        clock=clock,
        cache=cache,
        draft_model=draft_model,
    )
    return Runner(schedule, "decode", max_waiting=max_waiting)
