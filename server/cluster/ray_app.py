"""The cluster as an application of Ray Serve: fronts with HTTP, and replicas with engines.

`build` makes it of the words of the command line, for `constrained cluster` and for a `serve.yaml`.
"""
# pyright: reportMissingImports=false

import argparse
import copy
from collections.abc import AsyncGenerator
from dataclasses import asdict
from functools import partial
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

from constrained import embedded
from constrained.commands import options as shared
from constrained.errors import BusyError
from constrained.model_files.packaged import find_packaged
from server.app import make_app
from server.cluster import autoscaling
from server.cluster.cluster_options import ClusterOptions, read_words
from server.cluster.engine_replica import EngineReplica
from server.cluster.front_model import FrontModel, ReplicaFacts, load_front
from server.cluster.turn_order import Answer, Failed, ReplicaLostError, TurnOrder
from server.commands.serve_options import read_settings
from server.commands.server_process import find_store
from server.logs import set_up_log
from server.models.model_files import load_model
from server.models.served_models import ModelBounds
from server.models.source import ModelSource

LOST = (RayActorError, WorkerCrashedError, NodeDiedError, OwnerDiedError, ObjectLostError)
STATS_SECONDS = 2.0
"""How often replicas tell what they have computed, and how busy they are."""
HEALTH_SECONDS = 5.0
ROUTER = "server.cluster.ray_router:PrefixRequestRouter"
ENGINE, FRONT = "Engine", "Front"


class EngineDeployment:
    """A replica: an engine, and nothing of HTTP.

    Args:
        options: of the command line, completed.
    """

    def __init__(self, options: argparse.Namespace):
        set_up_log(options.log_level, options.log_format)
        name = serve.get_replica_context().replica_id.unique_id
        self._replica = EngineReplica(name, load_model(options))

    def facts(self) -> ReplicaFacts:
        """What fronts have to know."""
        engine = self._replica.model.engine
        return ReplicaFacts(
            engine.vocabulary.fingerprint,
            context_length=engine.context_length,
            slots=engine.max_sequences,
        )

    async def decode(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        """Decodes a turn; see `EngineReplica.decode`."""
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
        """For the number of replicas."""
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
    """The replicas behind a handle of Ray Serve.

    Args:
        engines: the handle.
    """

    def __init__(self, engines: DeploymentHandle):
        self._decode = engines.options(stream=True).decode

    async def open(self, order: TurnOrder) -> AsyncGenerator[Answer, None]:
        """As of `Fleet`."""
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
    """A front: HTTP, prompts and grammars; it has no weights.

    Args:
        options: of the command line, completed.
        engines: the handle of the replicas.
    """

    async def __init__(self, options: argparse.Namespace, engines: DeploymentHandle):
        set_up_log(options.log_level, options.log_format)
        facts: ReplicaFacts = await engines.facts.remote()
        load = partial(_load_front, options, RayFleet(engines), facts)
        path = _find_path(options)
        own_name = "demo" if path == Path(embedded.PATH) else path.stem
        name, *aliases = (options.alias or own_name).split(",")
        source = ModelSource(name, load, tuple(aliases), path=path, preloaded=True)
        store = find_store(options)
        self._app = make_app([source], read_settings(options), ModelBounds(), store=store)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._app


def _find_path(options: argparse.Namespace) -> Path:
    """The model's file, which each machine has at the same place."""
    given = shared.find_model(options)
    if given is None:
        return Path(embedded.PATH)
    return find_packaged(given) or Path(given)


def _load_front(options: argparse.Namespace, fleet: RayFleet, facts: ReplicaFacts) -> FrontModel:
    model = load_front(
        _find_path(options),
        fleet,
        facts,
        replicas=options.max_replicas or options.replicas,
        chat_template=shared.read_template(options),
        tool_format=options.tool_format,
        max_waiting=options.max_waiting,
    )
    model.sampling = shared.read_sampling(options, model.sampling)
    return model


def build(arguments: dict[str, str]) -> serve.Application:
    """The application, for `import_path` of a `serve.yaml`.

    Args:
        arguments: `command`: the words behind `constrained cluster`, as in a shell.
    """
    return make_application(read_words(arguments.get("command", "")))


def make_application(given: ClusterOptions) -> serve.Application:
    """The application of these options."""
    options = copy.copy(given.options)
    for name in ("run", "parsed"):  # which stay in this process
        if hasattr(options, name):
            delattr(options, name)
    slots = given.slots
    scaling: dict[str, Any] = {"num_replicas": given.replicas}
    if given.max_replicas > given.replicas:
        policy = AutoscalingPolicy(policy_function=autoscaling.choose_replicas)
        scaling = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=given.replicas, max_replicas=given.max_replicas, policy=policy
            )
        }
    routing: dict[str, Any] = {
        "request_router_class": ROUTER,
        "request_router_kwargs": {"slots": slots, "index_mib": given.index_mib},
        "request_routing_stats_period_s": STATS_SECONDS,
    }
    engine = serve.deployment(
        name=ENGINE,
        max_ongoing_requests=2 * slots + options.max_waiting,
        graceful_shutdown_timeout_s=options.drain,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=HEALTH_SECONDS,
        ray_actor_options={"num_cpus": given.cpus, "num_gpus": given.gpus},
        request_router_config=RequestRouterConfig(**routing),
        **scaling,
    )(EngineDeployment)
    front = serve.deployment(
        name=FRONT,
        num_replicas=given.fronts,
        max_ongoing_requests=options.max_waiting + slots * given.max_replicas,
        graceful_shutdown_timeout_s=options.drain,
        ray_actor_options={"num_cpus": given.front_cpus},
    )(FrontDeployment)
    return front.bind(options, engine.bind(options))
