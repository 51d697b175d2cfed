"""The cluster as an application of Ray Serve: fronts with HTTP, and replicas with engines of each
model.

`build` makes it of the words of the command line, for `constrained cluster` and for a `serve.yaml`.
"""
# pyright: reportMissingImports=false

import argparse
import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OwnerDiedError,
    RayActorError,
    WorkerCrashedError,
)
from ray.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    RequestRouterConfig,
)
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from constrained.cli import options as shared
from constrained.errors import BusyError
from constrained.model_files import embedded
from server.app import make_app
from server.cluster import autoscaling
from server.cluster.cluster_options import ClusterModel, ClusterOptions, read_words
from server.cluster.engine_replica import EngineReplica
from server.cluster.front_model import FrontModel, ReplicaFacts, load_front
from server.cluster.turn_order import Answer, Failed, ReplicaLostError, TurnOrder
from server.commands.model_files import load_model
from server.commands.serve import start_log
from server.commands.serve_options import read_settings
from server.commands.server_process import find_store, tune_process
from server.models.served_models import ModelBounds
from server.models.source import ModelSource

LOST = (RayActorError, WorkerCrashedError, NodeDiedError, OwnerDiedError, ObjectLostError)
STATS_SECONDS = 2.0
"""The interval of the replicas' reports on their load and their computed prompts."""
HEALTH_SECONDS = 5.0
ROUTER = "server.cluster.ray_router:PrefixRequestRouter"
ENGINE, FRONT = "Engine", "Front"


class EngineDeployment:
    """A replica: an engine, and nothing of HTTP."""

    def __init__(self, options: argparse.Namespace):
        start_log(options)
        name = serve.get_replica_context().replica_id.unique_id
        self._replica = EngineReplica(name, load_model(options))

    def facts(self) -> ReplicaFacts:
        engine = self._replica.model.engine
        return ReplicaFacts(
            engine.vocabulary.fingerprint,
            context_length=engine.context_length,
            slots=engine.max_sequences,
        )

    async def decode(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        answers = self._replica.decode(order)
        try:
            async for answer in answers:
                yield answer
        finally:
            await answers.aclose()

    def record_routing_stats(self) -> dict[str, Any]:
        """For the routers of the fronts."""
        return asdict(self._replica.report())

    def record_autoscaling_stats(self) -> dict[str, float]:
        """For the autoscaler, which decides the number of replicas."""
        report = self._replica.report()
        return {
            autoscaling.REQUESTS: float(report.requests),
            autoscaling.SLOTS: float(report.slots),
            autoscaling.KV_USED: self._replica.kv_used,
        }

    def __del__(self) -> None:
        if hasattr(self, "_replica"):
            self._replica.model.close()


class RayFleet:
    """The replicas that a handle of Ray Serve reaches."""

    def __init__(self, engines: DeploymentHandle):
        self._decode = engines.options(stream=True).decode

    async def open(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        answers: Any = self._decode.remote(order)
        is_over = False
        try:
            async for answer in answers:
                yield answer
            is_over = True
        except LOST as error:
            raise ReplicaLostError(type(error).__name__) from error
        except BackPressureError as error:
            yield Failed(BusyError(str(error), hint="Try again later"))
        except DeploymentUnavailableError as error:
            raise ReplicaLostError("there is none") from error
        finally:
            if not is_over:
                answers.cancel()


@serve.ingress()
class FrontDeployment:
    """A front: HTTP, prompts and grammars; it has no weights."""

    async def __init__(self, given: ClusterOptions, engines: list[DeploymentHandle]):
        options = given.options
        start_log(options)
        tune_process(options)
        settings = read_settings(options)
        sources = [
            await _make_source(model, handle)
            for model, handle in zip(given.models, engines, strict=True)
        ]
        self._app = make_app(
            sources,
            settings,
            ModelBounds(count=len(sources)),
            store=find_store(options),
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._app


async def _make_source(model: ClusterModel, engines: DeploymentHandle) -> ModelSource:
    """Returns a model as a front has it: loaded, since Ray sends a front requests once it is
    made."""
    facts: ReplicaFacts = await engines.facts.remote()
    front = await asyncio.to_thread(_load_front, model, RayFleet(engines), facts)
    return ModelSource(
        model.offer.name,
        lambda: front,
        aliases=model.offer.aliases,
        path=_find_path(model.offer.options),
        preloaded=True,
    )


def _find_path(options: argparse.Namespace) -> Path:
    """Returns the model's file, which each machine has at the same place."""
    given = shared.find_model(options)
    return Path(embedded.PATH) if given is None else Path(given)


def _load_front(model: ClusterModel, fleet: RayFleet, facts: ReplicaFacts) -> FrontModel:
    options = model.offer.options
    front = load_front(
        _find_path(options),
        fleet,
        facts,
        replicas=model.max_replicas,
        chat_template=shared.read_template(options),
        tool_format=options.tool_format,
        max_waiting=options.max_waiting,
    )
    front.sampling = shared.read_sampling(options, front.sampling)
    return front


def build(arguments: dict[str, str]) -> serve.Application:
    """Returns the application, for `import_path` of a `serve.yaml`; its argument `command` has the
    words after `constrained cluster`, as in a shell."""
    return make_application(read_words(arguments.get("command", "")))


def make_application(given: ClusterOptions) -> serve.Application:
    """Returns the application of these options: a deployment of fronts, and one of engines for each
    model, since a model has its own number of replicas, and its own prefixes in their caches."""
    options = given.options
    index_mib = max(1, options.index // len(given.models))
    engines = [
        _deploy_engine(model, _name_engine(number, given.models), index_mib)
        for number, model in enumerate(given.models)
    ]
    all_slots = sum(model.slots * model.max_replicas for model in given.models)
    front = serve.deployment(
        name=FRONT,
        num_replicas=options.fronts,
        max_ongoing_requests=options.max_waiting + all_slots,
        graceful_shutdown_timeout_s=options.drain,
        ray_actor_options={"num_cpus": options.front_cpus},
    )(FrontDeployment)
    return front.bind(given, engines)


def _name_engine(number: int, models: Sequence[ClusterModel]) -> str:
    """Returns the name of a deployment; Ray allows fewer characters than names of models have."""
    if len(models) == 1:
        return ENGINE
    return f"{ENGINE}-{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', models[number].offer.name)}"


def _deploy_engine(model: ClusterModel, name: str, index_mib: int) -> serve.Application:
    options = model.offer.options
    scaling: dict[str, Any] = {"num_replicas": model.replicas}
    if model.max_replicas > model.replicas:
        policy = AutoscalingPolicy(policy_function=autoscaling.choose_replicas)
        scaling = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=model.replicas, max_replicas=model.max_replicas, policy=policy
            )
        }
    routing: dict[str, Any] = {
        "request_router_class": ROUTER,
        "request_router_kwargs": {"slots": model.slots, "index_mib": index_mib},
        "request_routing_stats_period_s": STATS_SECONDS,
    }
    engine = serve.deployment(
        name=name,
        max_ongoing_requests=2 * model.slots + options.max_waiting,
        graceful_shutdown_timeout_s=options.drain,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=HEALTH_SECONDS,
        ray_actor_options={"num_cpus": model.cpus, "num_gpus": model.gpus},
        request_router_config=RequestRouterConfig(**routing),
        **scaling,
    )(EngineDeployment)
    return engine.bind(options)
