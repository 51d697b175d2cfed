"""`constrained schema`: what of each schema is held, and which instances get through."""

import argparse
from typing import Any

from constrained.check import read_rows
from constrained.commands.input import read_lines
from constrained.commands.options import add_rows
from constrained.commands.output import print_json
from constrained.schemas import check_schemas


def add(commands: Any) -> None:
    """Declares the command."""
    help = "try schemas out: what of each the mask holds, which instances get through"
    parser = commands.add_parser("schema", help=help)
    parser.set_defaults(run=_run)
    add_rows(parser)
    parser.add_argument(
        "--closed",
        action="store_true",
        help="objects that declare properties and are silent about others admit no others",
    )


def _run(options: argparse.Namespace) -> int:
    rows = read_rows(read_lines(options.rows))
    for answer in check_schemas(rows, close=options.closed):
        print_json(answer)
    return 0
