"""`constrained check`: replays recorded turns."""

import argparse
from typing import Any

from constrained.commands.input import read_lines
from constrained.commands.options import add_rows
from constrained.commands.output import print_answers


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser("check", help="replay recorded turns against grammar and parser")
    parser.set_defaults(run=_run)
    add_rows(parser)


def _run(options: argparse.Namespace) -> int:
    from constrained.replay.check import check_rows, read_rows

    return print_answers(read_rows(read_lines(options.rows)), check_rows)
