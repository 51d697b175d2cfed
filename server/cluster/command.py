"""`constrained cluster`: fronts and replicas on one machine or many, by Ray Serve."""
# pyright: reportMissingImports=false

import argparse
import logging
import signal
import threading

from constrained.errors import RequestError
from constrained.errors.own_packages import install_command
from server.cluster.cluster_options import add_options, read_cluster
from server.commands.serve import start_log
from server.commands.serve_options import LOCAL, LOCAL_HOST, PORT

LOG = logging.getLogger("constrained.server")


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    given = read_cluster(options)
    start_log(options)
    try:
        import ray
        from ray import serve

        from server.cluster.ray_app import make_application
    except ModuleNotFoundError as error:
        hint = f"Run: {install_command('ray')}"
        raise RequestError(f"a cluster needs {error.name}", hint=hint) from error

    host, port = options.host or LOCAL_HOST, PORT if options.port is None else options.port
    if not options.api_key and not options.api_key_file and host not in LOCAL:
        LOG.warning("no --api-key is set: anybody who can reach %s can use this cluster", host)
    ray.init(
        address=options.ray_address,
        include_dashboard=False,
        log_to_driver=True,
        configure_logging=False,
    )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        serve.start(http_options={"host": host, "port": port})
        serve.run(make_application(given), name="constrained", route_prefix="/")
        replicas = [f"{model.replicas} replicas of {model.offer.name}" for model in given.models]
        counts = ", ".join([*replicas, f"{options.fronts} fronts"])
        LOG.info("ready at http://%s:%d: %s", host, port, counts)
        ended.wait()
        LOG.info("running requests have %.0f seconds to finish", options.drain)
    finally:
        serve.delete("constrained")  # replicas finish their running turns
        serve.shutdown()
        ray.shutdown()
    return 0
