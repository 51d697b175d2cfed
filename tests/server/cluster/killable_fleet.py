"""Replicas in this process, which die when a test says so."""

import asyncio
import pickle
from collections.abc import AsyncGenerator, Callable

from constrained import Model
from constrained.decode.filters.events import ProgressMade, StreamEvent
from server.cluster.engine_replica import EngineReplica
from server.cluster.prefix_router import PrefixRouter
from server.cluster.turn_order import Answer, ReplicaLostError, TurnOrder


class KillableFleet:
    """Replicas behind the router. All that passes between front and replica is pickled.

    Args:
        make: makes the model of a replica.
        count: of replicas.
    """

    def __init__(self, make: Callable[[], Model], count: int):
        self.replicas = {
            f"replica-{n}": EngineReplica(f"replica-{n}", make()) for n in range(count)
        }
        self.router = PrefixRouter()
        self.orders: list[tuple[str, TurnOrder]] = []
        self.kill_after: int | None = None
        """So many answers of a replica come through, each of one step, and then it is dead."""
        self.kills = 1
        """So many replicas die, one after the other."""
        self.hangs = False
        """It says nothing any more, in place of being dead."""
        self.waits = False
        """Where there is no replica, opening waits for one, as in Ray Serve."""
        for name, replica in self.replicas.items():
            self.router.report(name, replica.report())

    async def open(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        among = set(self.router.names) - order.avoid or set(self.router.names)
        choice = next(self.router.rank(order.chain, among=among), None)
        if choice is None and self.waits:
            await asyncio.sleep(3600)
        if choice is None:
            raise ReplicaLostError("there is none")
        self.orders.append((choice.name, order))
        routed = self.router.start(choice, order.chain)
        sent: TurnOrder = pickle.loads(pickle.dumps(order))
        answers = self.replicas[choice.name].decode(sent)
        count = 0
        try:
            async for answer in answers:
                for part in _split(answer):
                    if self.kill_after is not None and count >= self.kill_after:
                        await self._die(choice.name)
                    count += 1
                    yield pickle.loads(pickle.dumps(part))
        finally:
            self.router.finish(routed)
            await answers.aclose()

    async def _die(self, name: str) -> None:
        self.kills -= 1
        if not self.kills:
            self.kill_after = None
        if self.hangs:
            await asyncio.sleep(3600)
        if not self.kills:
            self.router.remove(name)
        raise ReplicaLostError(f"{name} was killed")

    def close(self) -> None:
        """Closes the models."""
        for replica in self.replicas.values():
            replica.model.close()


def _split(answer: Answer) -> list[Answer]:
    """The steps of a batch, each after its `ProgressMade`, as answers of their own: how many of
    them a replica sends at once depends on the clock."""
    if not isinstance(answer, list):
        return [answer]
    steps: list[list[StreamEvent]] = [[]]
    for event in answer:
        if isinstance(event, ProgressMade) and steps[-1]:
            steps.append([])
        steps[-1].append(event)
    return [*steps]
