"""The options of a cluster, from the command line or from a `serve.yaml`."""

import argparse
import copy
import shlex
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from constrained.cli import options as shared
from constrained.cli.declared import add_option
from constrained.engine.options import read_options
from constrained.errors import RequestError
from constrained.model_files.sources import HUB
from constrained.remote.address import is_address
from server.commands.model_files import OfferedModel, find_file, find_offers, name_first
from server.commands.serve import complete_options
from server.commands.serve_options import SEQUENCES, add_serve_options

CLUSTER = "cluster"  # the title of its options in the help
ALONE = "models_max models_memory sleep_idle_seconds".split()
"""Options of `serve` that a cluster does not have: its models are loaded all the time."""


@dataclass(frozen=True)
class ClusterModel:
    """A model of a cluster: its names and options, the sequences of each replica, how many replicas
    there are at least and at most, and the processors and GPUs of each."""

    offer: OfferedModel
    slots: int
    replicas: int
    max_replicas: int
    cpus: float
    gpus: float


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster, including those of `serve`; the first of its models answers
    requests that name none."""

    options: argparse.Namespace
    models: tuple[ClusterModel, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_serve_options(parser)
    _add_replica_options(parser)
    add = partial(add_option, parser, group=CLUSTER)
    help = "processes that accept requests and build prompts and grammars"
    add("--fronts N", help, kind=int, default=1)
    add("--front-cpus N", "processors of each front", kind=float, default=0.5)
    help = "memory in each front for knowing which replica has which prefix"
    add("--index MIB", help, kind=int, default=256)
    help = "address of a Ray cluster; default: that of RAY_ADDRESS, else one on this machine alone"
    add("--ray-address ADDRESS", help)


def _add_replica_options(parser: argparse.ArgumentParser) -> None:
    """Those that a preset may have for its model."""
    add = partial(add_option, parser, group=CLUSTER)
    add("--replicas N", "minimum replicas for each model, each with an engine", kind=int, default=2)
    help = "maximum replicas, started while others are busy; default: same as --replicas"
    add("--max-replicas N", help, kind=int)
    add(
        "--replica-cpus N",
        "processors of each replica; default: its threads (-t), or 1",
        kind=float,
    )
    add("--replica-gpus N", "GPUs of each replica", kind=float, default=0.0)


def read_words(command: str) -> ClusterOptions:
    """Returns the options in the words of a command, as in a shell."""
    parser = argparse.ArgumentParser(
        prog="constrained cluster", exit_on_error=False, allow_abbrev=False
    )
    add_options(parser)
    try:
        options, unknown = parser.parse_known_args(shlex.split(command))
    except argparse.ArgumentError as error:
        raise RequestError(str(error)) from error
    if unknown:
        raise RequestError(f"unknown options: {' '.join(unknown)}")
    return read_cluster(options)


def read_cluster(options: argparse.Namespace) -> ClusterOptions:
    """Completes and checks options."""
    for name in ALONE:
        if getattr(options, name) not in (None, []):
            option = f"--{name.replace('_', '-')}"
            raise RequestError(
                f"{option} is not available in a cluster", hint="Use constrained serve"
            )
    complete_options(options)
    for name in ("fronts", "index"):
        if getattr(options, name) < 1:
            raise RequestError(f"--{name} is {getattr(options, name)}, must be 1 or more")
    return ClusterOptions(options, _read_models(options))


def _find_offers(options: argparse.Namespace) -> list[OfferedModel]:
    """Returns the models that the options name; the demo model, if they name none.

    One of -hf is called as its repository, as by llama-server: fronts and replicas download it, and
    this process, which may be on a machine without room for it, does not.
    """
    others = find_offers(options, _add_replica_options)
    if others and not options.model and not options.hf_repo:
        return others
    if options.hf_repo and not options.alias:
        options.alias = options.hf_repo.removeprefix(HUB)
    first = name_first(options, find_file(options.model) or options.model)
    return [first, *(offer for offer in others if offer.name != first.name)]


def _read_models(options: argparse.Namespace) -> tuple[ClusterModel, ...]:
    """Returns the models of a cluster; an error names the one that it is about."""
    models: list[ClusterModel] = []
    names: set[str] = set()
    for offer in _find_offers(options):
        place = f"{offer.place}: " if offer.place else ""
        try:
            models.append(_read_model(offer))
        except RequestError as error:
            raise RequestError(f"{place}{error.message}", hint=error.hint) from error
        for name in (offer.name, *offer.aliases):
            if name in names:
                raise RequestError(f"{place}{name} names two models", hint="Give one another name")
            names.add(name)
    return tuple(models)


def _read_model(offer: OfferedModel) -> ClusterModel:
    """Returns a model with the options of its replicas: its own, or else those of the cluster."""
    options = offer.options
    if is_address(options.model):
        hint = "Use constrained serve for an engine elsewhere"
        raise RequestError(f"{options.model} is not a model file", hint=hint)
    shared.choose_sequences(options, SEQUENCES)
    engine = read_options(shared.read_engine_options(options))
    max_replicas = options.replicas if options.max_replicas is None else options.max_replicas
    if options.replicas < 1:
        raise RequestError(f"--replicas is {options.replicas}, must be 1 or more")
    if max_replicas < options.replicas:
        message = f"--max-replicas is {max_replicas}, --replicas is {options.replicas}"
        raise RequestError(message, hint="Raise --max-replicas, or leave it out")
    for name in ("replica_cpus", "replica_gpus"):
        given: float | None = getattr(options, name)
        if given is not None and not 0 <= given < inf:
            option = f"--{name.replace('_', '-')}"
            raise RequestError(f"{option} is {given}, must be 0 or more")
    cpus = float(engine.threads or 1) if options.replica_cpus is None else options.replica_cpus
    return ClusterModel(
        replace(offer, options=_without_process(options)),
        slots=engine.sequences,
        replicas=options.replicas,
        max_replicas=max_replicas,
        cpus=cpus,
        gpus=options.replica_gpus,
    )


def _without_process(options: argparse.Namespace) -> argparse.Namespace:
    sent = copy.copy(options)
    for name in ("run", "parsed", "declared"):
        if hasattr(sent, name):
            delattr(sent, name)
    return sent
