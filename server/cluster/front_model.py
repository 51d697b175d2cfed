"""The model of a front: it renders, compiles, parses and checks turns, and sends them to replicas
for decoding. If a replica ends, another one continues its turn."""

import asyncio
from collections.abc import AsyncGenerator, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
from constrained.decode.metrics import Amount, Metrics
from constrained.decode.request import Generation, PassingOwner
from constrained.decode.schedule.streams import Sink, Wanted
from constrained.engine.llama_files import read_header
from constrained.errors import AbandonedError, BusyError, DeadlineError, ModelError
from constrained.limits.deadline import Deadline
from constrained.mask.logprobs import TokenDrawn
from constrained.model.call_options import CallOptions
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.detached_turn import TurnPacker
from constrained.model.construction import make_model, read_format
from constrained.model.loaded_model import LoadedModel
from grammars.wire.format import Format
from server.cluster.header_engine import HeaderEngine
from server.cluster.prefix_index import chain_prefixes
from server.cluster.turn_order import (
    Accepted,
    Answer,
    Failed,
    Fleet,
    ReplicaLostError,
    TurnOrder,
)
from server.http.time_left import TimeLeft

MAX_REPLICAS = 4
"""The maximum number of replicas that are tried for a turn without a further token, so that a turn
that crashes replicas does not crash all of them."""
REACH_SECONDS = 180.0
"""For this time, a front looks for a replica if none accepts a turn. A replica that has ended is
still listed for a while, and a new one needs time to start."""
LOOK_AGAIN_SECONDS = 0.5
SILENT_SECONDS = 15.0
"""A replica that sends nothing about a turn for this time is lost; a living one sends something far
more often."""
LOOK_SECONDS = 0.05  # the interval of checks whether a client still waits for a turn


@dataclass(frozen=True)
class ReplicaFacts:
    """What fronts need to know of replicas, which are all equal; `vocabulary` is its hash, see
    `Vocabulary.fingerprint`."""

    vocabulary: str
    context_length: int
    slots: int


class FrontModel(LoadedModel):
    """A model whose turns are decoded by replicas; made by `load_front`."""

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
        """Only in the event loop."""
        if options.decode.ignore_eos:
            turn.plan.check_endless()
        seconds = None if deadline is None else max(0.0, deadline.at - self.queue.clock())
        order = TurnOrder(
            turn=self._packer.detach(turn),
            options=replace(options.decode, progress=True),
            chain=chain_prefixes(turn.tokens, turn.plan.scope),
            seconds=seconds,
            owner=_name_owner(options.owner),
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
        """Returns the figures of this front's requests and caches; the KV cache is in the
        replicas."""
        return Metrics(
            sequences=self.engine.max_sequences,
            kv_cache=Amount(),
            memory=Amount(),
            disk=Amount(),
            running=len(self._tasks),
            caches=self.compiler.measure_caches(),
        )


def _name_owner(owner: Hashable | None) -> str | PassingOwner | None:
    """Returns a hash of the client, which may be an API key: replicas do not need the key."""
    if owner is None or isinstance(owner, PassingOwner):
        return owner
    return blake2b(repr(owner).encode(), digest_size=16, person=b"owner").hexdigest()


async def _resolve(result: Future[Generation], following: "FollowedTurn") -> None:
    try:
        generation = await following.run()
    except BaseException as error:
        result.set_exception(error)
    else:
        result.set_result(generation)


class ResumePoint:
    """Follows a turn. Its events come in batches, each after a `ProgressMade` with the tokens.
    `scored` are the tokens that came with their log probabilities.

    Where the tokens run out, the shortest ending is written in one step, and not by the model: its
    events wait until the turn is over, so that another replica may write it again.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.scored: list[TokenDrawn] = []
        self._held: list[StreamEvent] | None = None

    def take(self, batch: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Takes a batch; returns the events that may be sent. A replica that has left out tokens is
        lost."""
        sent: list[StreamEvent] = []
        for event in batch:
            if self._held is None and isinstance(event, Exhausted):
                self._held = []
            if self._held is not None:
                self._held.append(event)
                continue
            if isinstance(event, ProgressMade):
                if event.position > len(self.tokens):
                    missing = f"tokens {len(self.tokens)} to {event.position - 1}"
                    raise ReplicaLostError(f"{missing} did not arrive")
                self.tokens[event.position :] = event.tokens
            if isinstance(event, TokenDrawn):
                self.scored.append(event)
            sent.append(event)
        return sent

    def finish(self) -> list[StreamEvent]:
        held, self._held = self._held or [], None
        return held

    def resume(self) -> tuple[int, ...]:
        """Returns the tokens after which another replica continues; events that have not been sent
        are written again."""
        self._held = None
        return tuple(self.tokens)


@dataclass
class FollowedTurn:
    """A turn that replicas decode; if one fails, the next one continues. `sink` gets the events,
    with `ProgressMade` if `shows_progress`."""

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
    """The time at which the last replica accepted the turn, or the turn began; on the clock of the
    event loop."""

    def __post_init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._time_left = TimeLeft(self.order.seconds)

    async def run(self) -> Generation:
        """Has the turn decoded, over as many replicas as it takes.

        Raises:
            Error: as in `Model.call`; ModelError also if no replica is left, DeadlineError also if
                none is there in time.
            AbandonedError: no client waits for it.
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
        """Has one replica decode the turn; None: the replica is busy."""
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
        """Returns whether no replica has accepted the turn for too long."""
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
        self._send(self.point.finish())
        if not self.resumed:
            return generation
        # The last replica has no probabilities for the tokens of earlier replicas.
        scored = generation.logprobs
        if scored and generation.stopped is None:
            first = self.point.scored[: self.resumed[-1]]
            scored = (*first, *scored[len(first) :])
        return replace(generation, logprobs=scored, resumed=tuple(self.resumed))


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
    """Loads the model of a front: everything in a file except the weights. The file has to be that
    of the replicas, of which there are at most so many; the rest is as in `load`."""
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
