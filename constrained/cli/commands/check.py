"""`constrained check`: replays recorded turns."""

import argparse
from functools import partial

from constrained.cli.options import add_rows, add_special_tokens
from constrained.cli.terminal.input import read_lines
from constrained.cli.terminal.output import print_answers


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    add_rows(parser)
    add_special_tokens(parser)


def _run(options: argparse.Namespace) -> int:
    from constrained.inspect.replay.check import check_rows, read_rows

    check = partial(check_rows, special_tokens=options.special_tokens)
    return print_answers(read_rows(read_lines(options.rows)), check)
