"""`constrained serve`: starts the HTTP server."""

import argparse
import logging

from constrained.cli import options as shared
from constrained.cli.configuration import Parsed
from constrained.cli.declared import complete
from constrained.engine.options import read_options
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError
from constrained.errors.own_packages import install_command
from constrained.limits.deadline import check_timeout
from server.commands.logs import set_up_log
from server.commands.serve_options import LOCAL, SEQUENCES, add_serve_options, read_settings
from server.settings import Settings

LOG = logging.getLogger("constrained.server")


def add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run, json=False)
    add_serve_options(parser)


def complete_options(options: argparse.Namespace) -> Settings:
    """Completes and checks the options of a server."""
    check_timeout(options.timeout)
    complete(options)
    settings = read_settings(options)
    shared.read_sampling(options, Sampling())
    shared.choose_sequences(options, SEQUENCES)
    read_options(shared.read_engine_options(options))
    return settings


def start_log(options: argparse.Namespace) -> None:
    set_up_log("debug" if options.verbose else options.log_level, options.log_format)
    _log_configuration(options)
    if options.ignored:
        LOG.info("without effect here: %s", " ".join(options.ignored))


def _run(options: argparse.Namespace) -> int:
    settings = complete_options(options)
    start_log(options)
    if settings.api_keys == () and options.host not in LOCAL:
        text = "no --api-key is set: anybody who can reach %s can use this server"
        LOG.warning(text, options.host)
    try:
        from server.commands.server_process import run_server
    except ModuleNotFoundError as error:
        hint = f"Run: {install_command('server')}"
        raise RequestError(f"the server needs {error.name}", hint=hint) from error
    return run_server(options, settings)


def _log_configuration(options: argparse.Namespace) -> None:
    parsed: Parsed | None = getattr(options, "parsed", None)
    if parsed is None or not parsed.of_file:
        return
    given = ", ".join(f"{name} ({parsed.sources[name]})" for name in sorted(parsed.of_file))
    LOG.info("options of a configuration file: %s", given)
