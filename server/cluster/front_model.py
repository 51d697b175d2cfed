"""The model of a front: it renders, compiles, parses and checks, and has its turns decoded by
replicas. Where a replica ends, another one goes on with its turn."""

import asyncio
from collections.abc import AsyncGenerator, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from constrained.compile.compiled_turn import CompiledTurn
from constrained.compile.detached_turn import TurnPacker
from constrained.deadline import Deadline
from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.request import Generation
from constrained.engine.llama_files import read_header
from constrained.errors import AbandonedError, BusyError, DeadlineError, ModelError
from constrained.metrics import Amount, Metrics
from constrained.model.call_options import CallOptions
from constrained.model.construction import make_model, read_format
from constrained.model.model import Model
from constrained.schedule.streams import Sink, Wanted
from grammars.wire.format import Format
from server.cluster.header_engine import HeaderEngine
from server.cluster.prefix_chain import chain_prefixes
from server.cluster.resume_point import ResumePoint
from server.cluster.turn_order import (
    Accepted,
    Answer,
    Failed,
    Fleet,
    ReplicaLostError,
    TurnOrder,
)
from server.time_left import TimeLeft

MAX_REPLICAS = 4
"""That take one turn and are too busy, or end without a further token: a turn that ends its
replicas ends no more."""
REACH_SECONDS = 180.0
"""So long a replica is looked for where none takes a turn: one that has ended is reported as there
for a while, and another one in its place takes so long to start."""
LOOK_AGAIN_SECONDS = 0.5
SILENT_SECONDS = 15.0
"""A replica that says nothing of a turn for so long is lost: it says that it is alive far more
often."""
LOOK_SECONDS = 0.05
"""How often it is asked whether anybody still waits for a turn."""


@dataclass(frozen=True)
class ReplicaFacts:
    """What fronts have to know of the replicas, which are all alike.

    Args:
        vocabulary: names their tokens, see `Vocabulary.fingerprint`.
        context_length: tokens of one sequence.
        slots: how many sequences each has.
    """

    vocabulary: str
    context_length: int
    slots: int


class FrontModel(Model):
    """A model whose turns are decoded by replicas; made by `load_front`.

    Args:
        engine: the header of its file.
        args, options: as of `Model`.
        fleet: the replicas.
    """

    def __init__(self, engine: HeaderEngine, *args: Any, fleet: Fleet, **options: Any):
        super().__init__(engine, *args, **options)
        self._fleet = fleet
        self._packer = TurnPacker()
        self._tasks = set[asyncio.Task[None]]()

    def decode(
        self,
        turn: CompiledTurn,
        is_wanted: Wanted,
        sink: Sink,
        *,
        options: CallOptions,
        deadline: Deadline | None,
    ) -> Future[Generation]:
        """As of `Model`; in the event loop alone."""
        if options.decode.ignore_eos:
            turn.check_endless()
        seconds = None if deadline is None else max(0.0, deadline.at - self.clock())
        order = TurnOrder(
            turn=self._packer.detach(turn),
            options=replace(options.decode, progress=True),
            chain=chain_prefixes(turn.tokens, turn.scope),
            seconds=seconds,
            owner=_name_owner(options.owner),
            background=options.background,
        )
        following = FollowedTurn(
            order,
            self._fleet,
            is_wanted=is_wanted,
            sink=sink,
            shows_progress=options.decode.progress,
        )
        result = Future[Generation]()
        result.set_running_or_notify_cancel()
        task = asyncio.ensure_future(_resolve(result, following))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return result

    def metrics(self) -> Metrics:
        """Requests under way, and what this front keeps; the KV cache is that of the replicas."""
        return Metrics(
            sequences=self.engine.max_sequences,
            kv_cache=Amount(),
            memory=Amount(),
            disk=Amount(),
            running=len(self._tasks),
            caches=self.compiler.measure_caches(),
        )


def _name_owner(owner: Hashable | None) -> str | None:
    """A name for who asks, which may be an API key: replicas need not know that."""
    if owner is None:
        return None
    return blake2b(repr(owner).encode(), digest_size=16, person=b"owner").hexdigest()


async def _resolve(result: Future[Generation], following: "FollowedTurn") -> None:
    try:
        generation = await following.run()
    except BaseException as error:
        result.set_exception(error)
    else:
        result.set_result(generation)


@dataclass
class FollowedTurn:
    """A turn that replicas decode, one after the other if need be.

    Args:
        order: the turn.
        fleet: the replicas.
        is_wanted: True while somebody waits for it.
        sink: takes the events as they come.
        shows_progress: the `ProgressMade` among them, too.
    """

    order: TurnOrder
    fleet: Fleet
    is_wanted: Wanted
    sink: Sink
    shows_progress: bool
    point: ResumePoint = field(default_factory=ResumePoint, init=False)
    resumed: list[int] = field(default_factory=list[int], init=False)
    busy: BusyError | None = field(default=None, init=False)
    replica: str | None = field(default=None, init=False)
    searching_since: float = field(default=0.0, init=False)
    """When the last replica took the turn, or the turn began, on the clock of the event loop."""

    def __post_init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._time_left = TimeLeft(self.order.seconds)

    async def run(self) -> Generation:
        """Follows it to its end.

        Raises:
            Error: as in `Model.call`; ModelError also if no replica is left, DeadlineError also if
                none is there in time.
            AbandonedError: nobody waits for it.
        """
        order, reason = self.order, "there is none"
        taken, self.searching_since = 0, self._clock()
        while taken < MAX_REPLICAS:
            self.replica = None
            try:
                generation = await self._follow(order)
            except ReplicaLostError as lost:
                reason = lost.reason
            else:
                if generation is not None:
                    return self._complete(generation)
                reason = "it has too many requests"
            is_further = len(self.point.tokens) > len(order.options.written)
            if is_further:
                taken = 0
            if self.replica is not None or self.busy is not None:
                taken, self.searching_since = taken + 1, self._clock()
            elif self._is_out_of_reach():
                break
            else:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                self._check_wanted()
            avoid = order.avoid | {self.replica} if self.replica else order.avoid
            written = self.point.resume()
            if written and self.replica is not None:
                self.resumed.append(len(written))
            order = order.resume(written, frozenset(avoid), self._time_left.measure())
        if self.busy is not None:
            raise self.busy
        message = f"no replica could finish the turn; the last one: {reason}"
        raise ModelError(message, hint="Try again later")

    async def _follow(self, order: TurnOrder) -> Generation | None:
        """Follows one replica; None: it is busy.

        Raises:
            ReplicaLostError: it has ended.
        """
        answers = self.fleet.open(order)
        try:
            while True:
                match await self._next_answer(answers):
                    case Accepted(replica):
                        self.replica = replica
                    case Failed(BusyError() as error):
                        self.busy = error
                        return None
                    case Failed(error):
                        raise error
                    case Generation() as generation:
                        return generation
                    case batch:
                        self._take(order, batch)
        finally:
            order.ticket.finish(order.name_prefixes(self.point.tokens))
            await answers.aclose()

    async def _next_answer(self, answers: AsyncGenerator[Answer, None]) -> Answer:
        waiting = asyncio.ensure_future(anext(answers))
        silent = 0.0
        try:
            while True:
                done, _ = await asyncio.wait([waiting], timeout=LOOK_SECONDS)
                self._check_wanted()
                if done:
                    break
                silent += LOOK_SECONDS
                if self.replica is None and self._is_out_of_reach():
                    raise ReplicaLostError("no replica accepted it")
                if self.replica is not None and silent > SILENT_SECONDS:
                    raise ReplicaLostError(f"it was silent for {SILENT_SECONDS:.0f} seconds")
            return waiting.result()
        except StopAsyncIteration:
            raise ReplicaLostError("its stream ended early") from None
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    def _is_out_of_reach(self) -> bool:
        """True if no replica has taken the turn for too long.

        Raises:
            DeadlineError: the time of the turn is over.
        """
        seconds = self._time_left.measure()
        if seconds is not None and seconds <= LOOK_SECONDS:
            hint = "Allow more time (timeout), or try again when a replica is available"
            raise DeadlineError("no replica was available within the time limit", hint=hint)
        return self._clock() - self.searching_since > REACH_SECONDS

    def _check_wanted(self) -> None:
        if not self.is_wanted():
            raise AbandonedError("nobody waits for it")

    def _take(self, order: TurnOrder, batch: Sequence[StreamEvent]) -> None:
        for event in batch:
            if isinstance(event, ProgressMade) and event.read_tokens >= event.prompt_tokens:
                order.ticket.note_read()
        self._send(self.point.take(batch))

    def _send(self, events: Sequence[StreamEvent]) -> None:
        if not self.shows_progress:
            events = [event for event in events if not isinstance(event, ProgressMade)]
        if events:
            self.sink(events)

    def _complete(self, generation: Generation) -> Generation:
        """The generation of the whole turn."""
        self._send(self.point.finish())
        if not self.resumed:
            return generation
        # The last replica knows no probabilities of the tokens that it was given.
        drawn = generation.logprobs
        if drawn and generation.stopped is None:
            first = self.point.drawn[: self.resumed[-1]]
            drawn = (*first, *drawn[len(first) :])
        return replace(generation, logprobs=drawn, resumed=tuple(self.resumed))


def load_front(
    path: Path,
    fleet: Fleet,
    facts: ReplicaFacts,
    *,
    replicas: int,
    chat_template: str | None = None,
    tool_format: str | Format | None = None,
    max_waiting: int,
) -> FrontModel:
    """The model of a front: all of a file but the weights.

    Args:
        path: of the GGUF file that the replicas have.
        fleet: the replicas.
        facts: of them.
        replicas: how many there are at most.
        chat_template, tool_format, max_waiting: as of `load`.

    Raises:
        ModelError: the file is missing or damaged, or is not that of the replicas.
    """
    header = read_header(path)
    if header.vocabulary.fingerprint != facts.vocabulary:
        message = f"{path} has a different vocabulary from the replicas"
        raise ModelError(message, hint="Give all of them the same model file")
    engine = HeaderEngine(
        header,
        path,
        context_length=facts.context_length,
        max_sequences=facts.slots * replicas,
    )
    build = partial(FrontModel, fleet=fleet, max_waiting=max_waiting)
    format = None if tool_format is None else read_format(tool_format)
    model = make_model(
        engine,
        header,
        path.name,
        notices=engine.notices,
        chat_template=chat_template,
        format=format,
        build=build,
    )
    assert isinstance(model, FrontModel)
    return model
