"""`constrained check`: replays recorded turns."""

import argparse
from typing import Any

from constrained.commands.exit_codes import ExitCode
from constrained.commands.input import read_lines
from constrained.commands.options import add_rows
from constrained.commands.output import note_unreadable, print_json
from constrained.replay.check import check_rows, read_rows
from grammars.errors import Error


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser("check", help="replay recorded turns against grammar and parser")
    parser.set_defaults(run=_run)
    add_rows(parser)


def _run(options: argparse.Namespace) -> int:
    unreadable: list[Error] = []
    rows = note_unreadable(read_rows(read_lines(options.rows)), unreadable)
    for answer in check_rows(rows):
        print_json(answer)
    return ExitCode.USAGE if unreadable else ExitCode.DONE
