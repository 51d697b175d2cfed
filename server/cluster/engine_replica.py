"""A replica: an engine that decodes the turns of fronts, and reports its load."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from functools import partial

from constrained.decode.filters.events import ProgressMade, StreamEvent
from constrained.decode.request import Generation
from constrained.decode.schedule.streams import AsyncStream, arun
from constrained.limits.deadline import set_deadline
from constrained.model.call_options import CallOptions
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.detached_turn import ConstraintReader
from constrained.model.loaded_model import LoadedModel
from grammars.errors import Error
from server.cluster.prefix_index import BLOCK, STRIDE, thin_out
from server.cluster.prefix_router import ReplicaReport
from server.cluster.turn_order import Accepted, Answer, Failed, TurnOrder

ALIVE_SECONDS = 2.0
"""A replica without events of a turn for this time sends an empty batch, to show that it is
alive."""
MAX_REPORTED = 32  # the maximum number of prompts in a report, the latest ones


class EngineReplica:
    """Decodes turns. For one event loop."""

    def __init__(self, name: str, model: LoadedModel):
        self.name = name
        self.model = model
        self._constraints = ConstraintReader()
        self._unread: dict[int, int] = {}  # by turn: prompt tokens still to be computed
        self._lengths: dict[int, int] = {}  # by turn: its tokens so far, with the prompt
        self._computed: OrderedDict[int, tuple[int, ...]] = OrderedDict()  # by the last name
        self._orders = 0

    async def decode(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        """Decodes a turn. Closing the generator ends the turn within one step."""
        yield Accepted(self.name)
        number = self._orders = self._orders + 1
        self._unread[number] = self._lengths[number] = len(order.prompt)
        stream: AsyncStream[Generation] | None = None
        try:
            attach = partial(self._attach, order)
            queue = self.model.queue
            turn = await arun(queue.prepare(attach, order.seconds, order.owner, is_known=True))
            stream = self._start(turn, order)
            async for batch in _gather(stream):
                self._note_read(number, batch)
                yield batch
            generation = await stream.result()
            self._note_computed(order.name_prefixes(generation.tokens))
            yield generation
        except Error as error:
            yield Failed(error)
        finally:
            self._unread.pop(number, None)
            self._lengths.pop(number, None)
            if stream is not None:
                stream.cancel()

    def _attach(self, order: TurnOrder) -> CompiledTurn:
        plan, grammar = self._constraints.read(order.turn)
        return self.model.compiler.attach(plan, grammar)

    def _start(self, turn: CompiledTurn, order: TurnOrder) -> AsyncStream[Generation]:
        options = CallOptions(order.options, order.seconds, owner=order.owner)
        deadline = set_deadline(order.seconds, self.model.queue.clock)
        return AsyncStream(partial(self.model.decode, turn, options=options, deadline=deadline))

    def _note_read(self, number: int, batch: list[StreamEvent]) -> None:
        for event in batch:
            if isinstance(event, ProgressMade):
                self._unread[number] = event.prompt_tokens - event.read_tokens
                self._lengths[number] = event.prompt_tokens + event.completion_tokens

    def _note_computed(self, chain: tuple[int, ...]) -> None:
        if chain:
            self._computed[chain[-1]] = chain
            self._computed.move_to_end(chain[-1])
            if len(self._computed) > MAX_REPORTED:
                self._computed.popitem(last=False)

    def report(self) -> ReplicaReport:
        """Returns its load, and the prompts that it has computed last."""
        metrics = self.model.metrics()
        return ReplicaReport(
            requests=max(metrics.running + metrics.waiting, len(self._unread)),
            slots=self.model.engine.max_sequences,
            unread=sum(self._unread.values()) // BLOCK,
            prefixes=tuple(tuple(thin_out(chain, STRIDE)) for chain in self._computed.values()),
        )

    @property
    def kv_used(self) -> float:
        """The share of the KV cache that running requests fill, 0 to 1. Tokens of earlier requests
        do not count, because they are overwritten when room is needed."""
        engine = self.model.engine
        room = engine.context_length * engine.max_sequences
        return min(1.0, sum(self._lengths.values()) / max(1, room))


async def _gather(stream: AsyncStream[Generation]) -> AsyncGenerator[list[StreamEvent], None]:
    """Yields the events of a turn in batches of all that are available; an empty batch if none
    comes for `ALIVE_SECONDS`."""
    batches = stream.batches()
    waiting = asyncio.ensure_future(anext(batches, None))
    try:
        while True:
            done, _ = await asyncio.wait([waiting], timeout=ALIVE_SECONDS)
            if not done:
                yield []
                continue
            batch = waiting.result()
            if batch is None:
                return
            yield batch
            waiting = asyncio.ensure_future(anext(batches, None))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await batches.aclose()
