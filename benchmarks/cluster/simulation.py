"""The simulation: conversations come, ask, are answered, pause and ask again; replicas die."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil

import numpy as np

from benchmarks.cluster.agents import RecordedAgent
from benchmarks.cluster.policies import Chain, Policy
from benchmarks.cluster.replicas import CostModel, SimulatedReplica, SimulatedRequest
from server.cluster.prefix_chain import BLOCK

_WARM = 0.2  # of the conversations come before anything is counted
_NEXT = 0  # in the queue: the conversation goes on
_APART = 1 << 24  # blocks: no two conversations have a name in common by accident
_SPREAD = 0x9E3779B97F4A7C15
_NUMBERS = (1 << 64) - 1


@dataclass(frozen=True)
class Scenario:
    """What comes to the cluster.

    Args:
        replicas: how many there are.
        conversations: how many come.
        applications: that they belong to; each has tools and a system message of its own.
        load: of the replicas, where all that was computed is found again; 1: they are busy always.
        deaths: share of the replicas that die in the middle, all at once.
        seed: of all that is drawn.
    """

    replicas: int = 100
    conversations: int = 20_000
    applications: int = 500
    load: float = 0.5
    deaths: float = 0.01
    seed: int = 1


@dataclass
class Outcome:
    """What a policy came to.

    Args:
        policy: its name.
        hit_rate: share of the tokens of prompts that were not computed.
        best_hit_rate: that, if each conversation found all that it had asked, and its head.
        first_token: seconds to the first token: median, 95 %, 99 %.
        imbalance: the time that the busiest replica has computed, over the mean.
        death_seconds: seconds to the first token of the next requests of the conversations whose
            replica has died, beside those of all others at that time.
        requests: how many were counted.
    """

    policy: str
    hit_rate: float
    best_hit_rate: float
    first_token: tuple[float, float, float]
    imbalance: float
    death_seconds: tuple[float, float]
    requests: int


@dataclass
class _Conversation:
    """A conversation under way."""

    number: int
    application: int
    agent: RecordedAgent
    head: int
    turn: int = 0
    asked: float = 0.0
    replica: int = -1
    request: int = 0
    """Counts the requests that were sent, so that the end of one that was lost is no end."""
    lost_replica: bool = False

    def make_request(self) -> SimulatedRequest:
        extra = self.head - self.agent.head
        return SimulatedRequest(
            conversation=self.number,
            application=self.application,
            head=self.head,
            prompt=self.agent.prompts[self.turn] + extra,
            output=self.agent.outputs[self.turn],
        )


@dataclass
class _Counts:
    prompt: int = 0
    cached: int = 0
    reachable: int = 0
    first: list[float] = field(default_factory=list[float])
    after_death: list[float] = field(default_factory=list[float])
    beside_death: list[float] = field(default_factory=list[float])


class Simulation:
    """One policy in one scenario.

    Args:
        scenario: what comes.
        policy: what routes.
        agents: as recorded.
        costs: of the replicas.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        agents: Sequence[RecordedAgent],
        costs: CostModel,
    ):
        self._scenario = scenario
        self._policy = policy
        self._agents = agents
        self._random = np.random.default_rng(scenario.seed)
        self._replicas = [SimulatedReplica(costs) for _ in range(scenario.replicas)]
        self._costs = costs
        self._queue: list[tuple[float, int, _Conversation, int]] = []
        self._order = 0
        self._counts = _Counts()
        self._is_counting = False
        self._death_window = (np.inf, np.inf)
        self._dead = set[int]()

    def run(self) -> Outcome:
        """Runs it to its end."""
        scenario = self._scenario
        arrivals = self._draw_arrivals()
        kinds = self._random.choice(
            len(self._agents), scenario.conversations, p=[agent.share for agent in self._agents]
        )
        ranks = 1 / np.arange(1, scenario.applications + 1)
        applications = self._random.choice(
            scenario.applications, scenario.conversations, p=ranks / ranks.sum()
        )
        scales = self._random.uniform(0.5, 2, (scenario.applications, len(self._agents)))
        warm = arrivals[int(_WARM * scenario.conversations)]
        death = arrivals[int(0.6 * scenario.conversations)]
        busy = np.zeros(scenario.replicas)
        has_died = False
        for number, arrival in enumerate(arrivals):
            self._advance(arrival)
            if not self._is_counting and arrival >= warm:
                self._is_counting = True
                busy = np.array([replica.busy for replica in self._replicas])
            if not has_died and arrival >= death:
                has_died = True
                self._kill(arrival)
            kind, application = int(kinds[number]), int(applications[number])
            agent = self._agents[kind]
            conversation = _Conversation(
                number=number,
                application=application * len(self._agents) + kind,
                agent=agent,
                head=int(agent.head * scales[application, kind]),
            )
            self._ask(conversation, arrival)
        self._is_counting = False  # the last ones find the replicas ever emptier
        return self._sum_up(busy)

    def _draw_arrivals(self) -> np.ndarray:
        """Returns the times at which conversations come, so that replicas are as busy as they are
        to be."""
        work = 0.0
        for agent in self._agents:
            new = agent.prompts[-1] - agent.head + agent.outputs[-1]
            seconds = self._costs.prefill * new + self._costs.beside * sum(agent.outputs)
            work += agent.share * seconds
        gap = work / (self._scenario.replicas * self._scenario.load)
        return np.cumsum(self._random.exponential(gap, self._scenario.conversations))

    def _advance(self, until: float) -> None:
        """All that happens before a time."""
        while self._queue and self._queue[0][0] <= until:
            now, _, conversation, request = heappop(self._queue)
            if request == conversation.request:
                self._finish(conversation, now)
            elif request == -conversation.request:
                self._policy.note_read(conversation.number)
            elif request == _NEXT:
                self._ask(conversation, now)

    def _push(self, at: float, conversation: _Conversation, request: int) -> None:
        self._order += 1
        heappush(self._queue, (at, self._order, conversation, request))

    def _ask(self, conversation: _Conversation, now: float) -> None:
        conversation.asked = now
        self._send(conversation, now)

    def _send(self, conversation: _Conversation, now: float) -> None:
        request = conversation.make_request()
        agent = conversation.agent
        chain = name_blocks(request, request.prompt)
        unseen = min(agent.tools, request.head) // BLOCK
        number = self._policy.choose(conversation.number, chain, unseen)
        replica = self._replicas[number]
        service = replica.serve(request, now)
        conversation.replica = number
        conversation.request += 1
        self._push(service.first_token, conversation, -conversation.request)
        self._push(service.end, conversation, conversation.request)
        if self._is_counting:
            self._count(conversation, request, service.cached, service.first_token)
        conversation.lost_replica = False

    def _count(
        self, conversation: _Conversation, request: SimulatedRequest, cached: int, first: float
    ) -> None:
        counts = self._counts
        seconds = first - conversation.asked
        counts.prompt += request.prompt
        counts.cached += cached
        known = request.head
        if conversation.turn:
            known += conversation.agent.prompts[conversation.turn - 1] - conversation.agent.head
            known += conversation.agent.outputs[conversation.turn - 1]
        counts.reachable += min(request.prompt, known)
        counts.first.append(seconds)
        start, end = self._death_window
        if conversation.lost_replica:
            counts.after_death.append(seconds)
        elif start <= conversation.asked <= end and conversation.turn:
            counts.beside_death.append(seconds)

    def _finish(self, conversation: _Conversation, now: float) -> None:
        request = conversation.make_request()
        replica = self._replicas[conversation.replica]
        replica.under_way.pop(conversation.number, None)
        whole = name_blocks(request, request.prompt + request.output)
        self._policy.finish(conversation.number, whole)
        conversation.turn += 1
        if conversation.turn < len(conversation.agent.prompts):
            pause = conversation.agent.pause * self._random.lognormal(0, 1)
            conversation.lost_replica = conversation.replica in self._dead
            self._push(now + pause, conversation, _NEXT)

    def _kill(self, now: float) -> None:
        """Some replicas die: what they had under way is sent again, what they kept is gone."""
        count = ceil(self._scenario.deaths * self._scenario.replicas)
        for number in range(count):
            self._dead.add(number)
            self._policy.remove(number)
        self._death_window = (now, now + 60)
        for _, _, conversation, request in list(self._queue):
            if conversation.replica in self._dead:
                conversation.lost_replica = True
                if request == conversation.request:
                    self._send(conversation, now)

    def _sum_up(self, busy: np.ndarray) -> Outcome:
        counts = self._counts
        worked = np.array([replica.busy for replica in self._replicas]) - busy
        living = np.array([n for n in range(len(self._replicas)) if n not in self._dead])
        median, high, highest = np.percentile(counts.first, (50, 95, 99))
        return Outcome(
            policy=self._policy.name,
            hit_rate=counts.cached / counts.prompt,
            best_hit_rate=counts.reachable / counts.prompt,
            first_token=(float(median), float(high), float(highest)),
            imbalance=float(worked[living].max() / worked[living].mean()),
            death_seconds=(_average(counts.after_death), _average(counts.beside_death)),
            requests=len(counts.first),
        )


def _average(seconds: list[float]) -> float:
    return float(np.mean(seconds)) if seconds else float("nan")


def name_blocks(request: SimulatedRequest, tokens: int) -> Chain:
    """Returns the names of the blocks of a prompt: those of its head are those of its
    application."""
    shared = request.head // BLOCK
    first = (request.application * _SPREAD) & _NUMBERS
    own = ((request.conversation + _APART) * _SPREAD) & _NUMBERS
    names = list(range(first, first + shared))
    names += range(own + shared, own + tokens // BLOCK)
    return names
