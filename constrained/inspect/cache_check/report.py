"""Sends all experiments to a server, and reports their costs and remedies."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from constrained.inspect.cache_check.blame import BlamedTemplate, read_template
from constrained.inspect.cache_check.chat_client import ChatClient, ChatReply, RefusedError
from constrained.inspect.cache_check.experiments import (
    Experiment,
    Kind,
    SentConversation,
    list_experiments,
    make_sample,
)
from constrained.inspect.cache_check.meters import Measure, Meter, find_meter, guess_tokens
from constrained.inspect.template_trace.clauses import Clause

NO_CACHE = (
    "vLLM: --enable-prefix-caching, and --enable-prompt-tokens-details to see it; llama-server: "
    "leave out --no-cache-prompt; a proxy: send the requests of a conversation to one server"
)

_FORGOTTEN = "the prompt begins as before, so the server has not kept it: make its cache larger"


@dataclass(frozen=True)
class CacheCost:
    """The cost of an experiment. The counts are of all its requests except the first.

    Args:
        name: of the shape or the habit.
        kind: shape or habit.
        prompt_tokens: the number of prompt tokens.
        cached: how many of them were read from the cache.
        expected: how many could have been cached: the tokens of the prompts before.
        lost: how many of these were computed again, beyond what any server computes again.
        advice: what to do; "" if nothing is lost.
        clause: the clause of the template that causes the loss; None: not known.
        cure: variables of the template that avoid the loss; None: there are none.
        is_unseen: the template does not write what the habit changes.
        refused: why the server refuses the requests; "" if it accepts them.
    """

    name: str
    kind: Kind
    prompt_tokens: int = 0
    cached: int = 0
    expected: int = 0
    lost: int = 0
    advice: str = ""
    clause: Clause | None = None
    cure: Mapping[str, Any] | None = None
    is_unseen: bool = False
    refused: str = ""

    def explain(self) -> str:
        """Returns the remedy in a line; "" if there is nothing to do."""
        if self.refused:
            return f"{self.name}: the server refuses it: {self.refused}"
        if not self.lost:
            return ""
        sentences = [f"{self.name}: {self.advice}"]
        if self.clause is not None:
            sentences.append(f"The prompt changes at {self.clause.describe()}")
            if self.kind is Kind.SHAPE:
                sentences.append(f"It depends on {self.clause.cause.value}")
        if self.cure is not None:
            sentences.append(f"chat_template_kwargs {json.dumps(dict(self.cure))} avoids it")
        return ". ".join(sentences)

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON."""
        clause = None
        if self.clause is not None:
            cause = self.clause.cause.name
            clause = {"line": self.clause.line, "tag": self.clause.tag, "cause": cause}
        shown = {**vars(self), "clause": clause, "chat_template_kwargs": self.cure}
        del shown["cure"]
        return shown


@dataclass(frozen=True)
class CacheReport:
    """What a server makes of its cache.

    Args:
        url: of the server.
        model: that was asked.
        requests: how many it answered or refused.
        meter: measures the use of the cache; None: no use of a cache can be measured.
        has_template: the server reports its chat template.
        costs: of all experiments; none without a meter.
    """

    url: str
    model: str
    requests: int
    meter: Meter | None
    has_template: bool
    costs: tuple[CacheCost, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON."""
        meter = self.meter
        return {
            "url": self.url,
            "model": self.model,
            "requests": self.requests,
            "reads_cache": meter is not None,
            "source": None if meter is None else meter.source,
            "is_estimate": meter is not None and meter.is_estimate,
            "has_template": self.has_template,
            "rows": [cost.to_json() for cost in self.costs],
        }


def check_server(client: ChatClient) -> CacheReport:
    """Asks a server some 40 times. Each run has different texts, so nothing of it is cached.

    Raises:
        RequestError, DeadlineError: the server cannot be asked, or does not take a plain chat.
    """
    run = secrets.token_hex(4)
    sample = make_sample()

    def send(salt: str) -> ChatReply:
        salted = sample.salted(f"{run} {salt}")
        return client.ask(salted.messages, salted.tools)

    meter = find_meter(send, sample)
    properties = client.find_template()
    template = None if properties is None else read_template(properties)
    costs: list[CacheCost] = []
    if meter is not None:
        costs += _measure_all(client, meter, template, run)
    return CacheReport(
        client.base,
        client.model,
        requests=client.asked,
        meter=meter,
        has_template=template is not None,
        costs=tuple(costs),
    )


def _measure_all(
    client: ChatClient, meter: Meter, template: BlamedTemplate | None, run: str
) -> Iterator[CacheCost]:
    for number, experiment in enumerate(list_experiments()):
        salt = f"{run} {number}"
        requests = [request.salted(salt) for request in experiment.requests]
        try:
            steps = list(_send_all(client, meter, requests))
        except RefusedError as e:
            yield CacheCost(experiment.name, experiment.kind, refused=e.message)
            continue
        yield _sum_up(experiment, steps, template)


@dataclass(frozen=True)
class _MeasuredRequest:
    """A request after the first, and the one before it.

    Args:
        earlier, later: the requests.
        measure: of the later one.
        expected: tokens that it could have read from the cache.
        lost: the number of these that it computed again.
    """

    earlier: SentConversation
    later: SentConversation
    measure: Measure
    expected: int
    lost: int


def _send_all(
    client: ChatClient, meter: Meter, requests: Sequence[SentConversation]
) -> Iterator[_MeasuredRequest]:
    first = client.ask(requests[0].messages, requests[0].tools)
    total = first.prompt_tokens or guess_tokens(requests[0])
    per_guess = total / guess_tokens(requests[0])
    for earlier, later in pairwise(requests):
        guess = round(per_guess * guess_tokens(later))
        measure = meter.measure(client.ask(later.messages, later.tools), guess)
        expected = min(total, measure.prompt_tokens)
        lost = max(0, expected - measure.cached)
        if lost <= meter.tolerate(expected):
            lost = 0
        yield _MeasuredRequest(earlier, later, measure, expected, lost)
        total = measure.prompt_tokens


def _sum_up(
    experiment: Experiment, steps: Sequence[_MeasuredRequest], template: BlamedTemplate | None
) -> CacheCost:
    cost = CacheCost(
        experiment.name,
        experiment.kind,
        prompt_tokens=sum(step.measure.prompt_tokens for step in steps),
        cached=sum(step.measure.cached for step in steps),
        expected=sum(step.expected for step in steps),
        lost=sum(step.lost for step in steps),
    )
    if cost.lost:
        cost = replace(cost, advice=experiment.advice)
    if template is None:
        return cost
    if not cost.lost:
        is_unseen = experiment.kind is Kind.HABIT and all(
            template.goes_on(step.earlier, step.later) for step in steps
        )
        return replace(cost, is_unseen=is_unseen)
    worst = max(steps, key=lambda step: step.lost)
    if template.goes_on(worst.earlier, worst.later):
        return replace(cost, advice=_FORGOTTEN)
    clause = template.find_clause(worst.earlier, worst.later)
    cure = template.find_cure(experiment.name) if experiment.kind is Kind.SHAPE else None
    return replace(cost, clause=clause, cure=cure)
