"""`constrained schema`: which keywords the mask enforces, and which instances it lets through."""

import argparse
from functools import partial

from constrained.cli import options as shared
from constrained.cli.options import add_rows
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.input import read_lines
from constrained.cli.terminal.output import print_answers, print_json, print_text


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    add_rows(parser)
    parser.add_argument(
        "--tools",
        metavar="FILE",
        help="JSON list of tools instead of rows: a report on each; exit code 1 if one is refused",
    )
    parser.add_argument(
        "--closed",
        action="store_true",
        help="close objects that declare properties but not additionalProperties, as for tools",
    )


def _run(options: argparse.Namespace) -> int:
    if options.tools is not None:
        return _report(options)
    from constrained.inspect.replay.check import read_rows
    from constrained.inspect.replay.schemas import check_schemas

    rows = read_rows(read_lines(options.rows))
    return print_answers(rows, partial(check_schemas, close=options.closed))


def _report(options: argparse.Namespace) -> int:
    from constrained.prompt.tools.reports import report_tools

    reports = report_tools(shared.read_tool_file(options))
    code = ExitCode.DONE
    for report in reports:
        if options.json:
            print_json(report.to_json())
        else:
            print_text("\n".join(report.describe()))
        if report.is_refused:
            code = ExitCode.NEGATIVE
    return code
