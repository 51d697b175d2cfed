"""What a request of any dialect comes to."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from constrained.compile.compiled_turn import CompiledTurn
from constrained.engine.sampling import SEEDS, Sampling
from constrained.job import Job
from constrained.model.model import Model
from constrained.reply import Reply
from constrained.schedule.worker import AsyncStream
from server.ids import CallIds
from server.metrics import Counters
from server.settings import Settings
from server.turns.dates import Dates
from server.turns.reasoning import Reasoning, Thinking, plan_thinking

LEAST = 1e-3  # seconds: time that is over is told as such by whoever it is given to


@dataclass(frozen=True)
class Asked:
    """A request, whatever its dialect.

    Args:
        job: what is asked of the model; what it says of reasoning is filled in by `begin`.
        max_tokens: at most so many; None: as many as the context has room for.
        sampling: how tokens are drawn.
        stop: texts that end the content.
        logprobs: how many alternatives are told of each token; None: nothing of it.
        choices: how many replies.
        reasoning: what the request says of it.
        ignored: fields of the request that are not known.
        normalised: in how many places its text was made constant, see `server.turns.volatile`.
    """

    job: Job
    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    choices: int = 1
    reasoning: Reasoning = field(default_factory=Reasoning)
    ignored: tuple[str, ...] = ()
    normalised: int = 0


@dataclass(frozen=True)
class Service:
    """A model that is served, and how."""

    model: Model
    settings: Settings
    call_ids: CallIds = field(default_factory=CallIds)
    dates: Dates = field(default_factory=Dates)
    counters: Counters = field(default_factory=Counters)
    name: str = "demo"


async def compile_turn(
    service: Service, asked: Asked, timeout: float | None = None
) -> tuple[CompiledTurn, Thinking]:
    """The prompt and the grammar of a request, and what becomes of its reasoning.

    Raises:
        Error: as in `Model.compile`.
    """
    compiler = service.model.compiler
    has_block = compiler.format.reasoning is not None
    variables = compiler.template.variables
    thinking = plan_thinking(asked.reasoning, has_block=has_block, variables=variables)
    job = replace(
        asked.job,
        messages=service.call_ids.restore(asked.job.messages),
        think=thinking.think,
        reasoning_budget=thinking.budget,
        template_kwargs={**thinking.variables, **asked.job.template_kwargs},
        date=service.dates.find(asked.job.messages),
    )
    return await service.model.acompile(job, timeout), thinking


def count_down(seconds: float | None) -> Callable[[], float | None]:
    """What says how many of these seconds are left from now on."""
    started = time.monotonic()

    def left() -> float | None:
        return None if seconds is None else max(LEAST, seconds - (time.monotonic() - started))

    return left


def launch(
    service: Service, asked: Asked, turns: Sequence[CompiledTurn], timeout: float | None = None
) -> list[AsyncStream[Reply]]:
    """Starts the turns of a request: for each that was compiled, one for each choice.

    Raises:
        Error: as in `Model.stream_turn`; then none is under way.
    """
    streams = list[AsyncStream[Reply]]()
    try:
        for turn, number in itertools.product(turns, range(asked.choices)):
            room = max(1, service.model.engine.context_length - len(turn.tokens))
            stream = service.model.astream_turn(
                turn,
                max_tokens=room if asked.max_tokens is None else asked.max_tokens,
                sampling=_vary(asked.sampling, number),
                stop=asked.stop,
                logprobs=asked.logprobs,
                timeout=timeout,
            )
            streams.append(stream)
    except BaseException:
        for stream in streams:
            stream.cancel()
        raise
    return streams


def _vary(sampling: Sampling, number: int) -> Sampling:
    """The sampling of one of several choices."""
    if sampling.seed is None or number == 0:
        return sampling
    return replace(sampling, seed=(sampling.seed + number) % SEEDS)
