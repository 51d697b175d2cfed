"""Simulated replicas: when each is free, what its cache holds, and what a request costs there."""

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heapreplace


@dataclass(frozen=True)
class CostModel:
    """What a replica needs for a request. The defaults are those of the Qwen3-0.6B shape, Q8_0, on
    two cores, as docs/figures.md has them.

    Args:
        prefill: seconds for a token of a prompt (`benchmarks.first_token`: 59 s for 4,499).
        decode: seconds for a token of a reply that is decoded alone (`benchmarks.forced`: 46 ms).
        beside: seconds that each other reply adds to that (`benchmarks.together`: eight at once
            take 162 ms a token).
        slots: sequences, which are decoded together.
        cache: tokens that a replica keeps: 32,768 in its context, and 1 GiB of snapshots in memory
            at 114 kB a token.
    """

    prefill: float = 0.0131
    decode: float = 0.046
    beside: float = 0.0166
    slots: int = 8
    cache: int = 42_000


@dataclass(frozen=True)
class SimulatedRequest:
    """A request.

    Args:
        conversation: its number.
        application: whose tools and system message it has.
        head: tokens of these.
        prompt: tokens of the prompt.
        output: tokens of the reply.
    """

    conversation: int
    application: int
    head: int
    prompt: int
    output: int


@dataclass(frozen=True)
class Service:
    """What became of a request: how much of its prompt was cached, and when it was served."""

    cached: int
    first_token: float
    end: float


class SimulatedReplica:
    """One replica. Prompts are computed one after the other, in the order in which they came;
    replies are decoded together. The cache forgets what was not used for the longest time; tools
    and system messages are kept once for all conversations that have them."""

    def __init__(self, costs: CostModel):
        self._costs = costs
        self._slots = [0.0] * costs.slots  # a heap: when each is free
        self._prefill_free = 0.0
        self._kept: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._held = 0
        self.busy = 0.0
        """Seconds that it has computed."""
        self.under_way: dict[int, SimulatedRequest] = {}

    def serve(self, request: SimulatedRequest, now: float) -> Service:
        """Takes a request; the clock of a replica only goes on."""
        costs = self._costs
        cached = self._look_up(request)
        start = max(now, self._slots[0], self._prefill_free)
        first = start + costs.prefill * max(1, request.prompt - cached)
        self._prefill_free = first
        a_token = costs.decode + costs.beside * min(len(self.under_way), costs.slots - 1)
        end = first + a_token * request.output
        heapreplace(self._slots, end)
        self.busy += (first - start) + costs.beside * request.output
        self.under_way[request.conversation] = request
        return Service(cached, first, end)

    def _look_up(self, request: SimulatedRequest) -> int:
        """Returns how much of the prompt is kept; from now on, all of it is, and the reply."""
        head = self._kept.get(("head", request.application), 0)
        tail = self._kept.get(("conversation", request.conversation), 0)
        # The head is used last: it outlives all conversations that begin with it.
        tail_now = request.prompt + request.output - request.head
        self._keep(("conversation", request.conversation), tail_now)
        self._keep(("head", request.application), request.head)
        while self._held > self._costs.cache and len(self._kept) > 2:
            _, size = self._kept.popitem(last=False)
            self._held -= size
        return min(request.prompt, head + tail if head else 0)

    def _keep(self, name: tuple[str, int], size: int) -> None:
        self._held += size - self._kept.pop(name, 0)
        self._kept[name] = size
