"""`constrained mcp`: a model as an MCP server, on stdin and stdout."""

import argparse

from constrained.cli import options as shared
from constrained.cli import request
from constrained.cli.declared import complete
from constrained.cli.terminal.output import print_notes
from constrained.engine.options import read_options
from constrained.errors import RequestError

SEQUENCES = 4  # requests that are decoded at the same time


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, json=False)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)


def _run(options: argparse.Namespace) -> int:
    try:
        from constrained.agent.mcp.model_server import make_server
    except ModuleNotFoundError as e:
        raise RequestError(str(e), where="/mcp") from e
    complete(options)
    shared.choose_sequences(options, SEQUENCES)
    read_options(shared.read_engine_options(options))
    with request.load_model(options) as model:
        print_notes(model.notices)
        make_server(model).run()
    return 0
