"""`constrained check`: replays recorded turns."""

import argparse
from typing import Any

from constrained.commands.input import read_lines
from constrained.commands.options import add_rows
from constrained.commands.output import print_json
from constrained.replay.check import check_rows, read_rows


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser("check", help="replay recorded turns: grammar and parser")
    parser.set_defaults(run=_run)
    add_rows(parser)


def _run(options: argparse.Namespace) -> int:
    for answer in check_rows(read_rows(read_lines(options.rows))):
        print_json(answer)
    return 0
