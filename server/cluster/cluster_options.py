"""The options of a cluster, from the command line or from a `serve.yaml`."""

import argparse
import shlex
from dataclasses import dataclass

from constrained.commands import options as shared
from constrained.deadline import check_timeout
from constrained.engine.options import read_options
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from server.commands.serve_options import SEQUENCES, add_serve_options, read_settings

ALONE = ("models_dir", "models_preset", "batch_dir", "mcp", "mcp_config")
"""Options of `serve` that a cluster does not have."""


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster.

    Args:
        options: those of `serve` among them.
        slots: sequences of each replica.
        replicas: how many there are, at least.
        max_replicas: how many, at most.
        fronts: processes that take requests.
        cpus, gpus: of each replica.
        front_cpus: of each front.
        index_mib: room of the router of each front.
    """

    options: argparse.Namespace
    slots: int
    replicas: int
    max_replicas: int
    fronts: int
    cpus: float
    gpus: float
    front_cpus: float
    index_mib: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options: those of `serve`, and those of a cluster."""
    add_serve_options(parser)
    add = parser.add_argument_group("cluster").add_argument
    help = "replicas with an engine each, at least; default: 2"
    add("--replicas", type=int, default=2, metavar="N", help=help)
    help = "replicas, at most: there are more while they are busy; default: as --replicas"
    add("--max-replicas", type=int, metavar="N", help=help)
    help = "processes that take requests, make prompts and grammars; default: 1"
    add("--fronts", type=int, default=1, metavar="N", help=help)
    help = "processors of each replica; default: its threads (-t), or 1"
    add("--replica-cpus", type=float, metavar="N", help=help)
    add("--replica-gpus", type=float, default=0.0, metavar="N", help="GPUs of each; default: 0")
    help = "processors of each front; default: 0.5"
    add("--front-cpus", type=float, default=0.5, metavar="N", help=help)
    help = "memory of each front for which replica has which prefix; default: 256"
    add("--index", type=int, default=256, metavar="MIB", help=help)
    help = "address of a Ray cluster; default: that of RAY_ADDRESS, else one on this machine alone"
    add("--ray-address", metavar="ADDRESS", help=help)


def read_words(command: str) -> ClusterOptions:
    """The options in the words of a command, as in a shell.

    Raises:
        RequestError: one of them is not known, or cannot be.
    """
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
    """Completes and checks options.

    Raises:
        RequestError: one of them cannot be.
    """
    check_timeout(options.timeout)
    shared.complete(options)
    read_settings(options)
    shared.read_sampling(options, Sampling())
    shared.choose_sequences(options, SEQUENCES)
    engine = read_options(shared.read_engine_options(options))
    for name in ALONE:
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise RequestError(f"{option} is not there in a cluster", hint="Use constrained serve")
    options.max_replicas = options.max_replicas or options.replicas
    for name in ("replicas", "fronts", "index"):
        if getattr(options, name) < 1:
            raise RequestError(f"--{name} is {getattr(options, name)}, must be 1 or more")
    if options.max_replicas < options.replicas:
        message = f"--max-replicas is {options.max_replicas}, --replicas is {options.replicas}"
        raise RequestError(message, hint="Raise --max-replicas, or leave it out")
    cpus = options.replica_cpus
    if cpus is None:
        cpus = float(engine.threads or 1)
    return ClusterOptions(
        options,
        slots=engine.sequences,
        replicas=options.replicas,
        max_replicas=options.max_replicas,
        fronts=options.fronts,
        cpus=cpus,
        gpus=options.replica_gpus,
        front_cpus=options.front_cpus,
        index_mib=options.index,
    )
