"""`constrained suite`: checks any parser or server by properties that all of them must have."""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from constrained.errors import RequestError
from constrained.terminal.exit_codes import ExitCode
from constrained.terminal.input import read_lines
from constrained.terminal.output import print_json, print_text, show_progress

if TYPE_CHECKING:
    from constrained.conformance.finding import SuiteFinding
    from constrained.conformance.rows import CorpusRow

_EXAMPLES = 100
_TIMEOUT = 5


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    subject = parser.add_mutually_exclusive_group(required=True).add_argument
    help = "a parser, such as 'python my_parser.py': it reads and writes JSON Lines"
    subject("--cmd", metavar="COMMAND", help=help)
    help = "a server with Chat Completions, such as http://127.0.0.1:8080/v1"
    subject("--url", metavar="URL", help=help)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON Lines")
    add = parser.add_argument_group("parsers").add_argument
    help = "the wire format that it reads: a known one, or a file from `formats detect --save`"
    add("--format", metavar="NAME|FILE", help=help)
    help = "recorded turns, as for `constrained check`, besides those of the package (repeatable)"
    add("--rows", metavar="FILE", action="append", default=[], help=help)
    add("--seed", type=int, default=0, help="seed of the examples; default: 0")
    help = f"number of examples for each property; default: {_EXAMPLES}"
    add("--examples", type=int, metavar="N", default=_EXAMPLES, help=help)
    help = f"seconds for each answer; default: {_TIMEOUT}"
    add("--timeout", type=float, metavar="SECONDS", default=_TIMEOUT, help=help)
    add = parser.add_argument_group("servers").add_argument
    help = "the model to ask; default: the server's first model"
    add("--model", dest="served_model", metavar="NAME", default="", help=help)
    help = "the key of the server (LLAMA_API_KEY)"
    add("--api-key", "--key", dest="server_key", metavar="KEY", help=help)


def _run(options: argparse.Namespace) -> int:
    if options.cmd is not None:
        return _check_parser(options)
    return _check_server(options)


def _check_parser(options: argparse.Namespace) -> int:
    if options.format is None:
        hint = "Known ones: constrained formats"
        raise RequestError("--cmd needs the --format that the parser reads", hint=hint)
    if options.examples < 1 or options.timeout <= 0:
        raise RequestError("--examples and --timeout must be more than 0")
    try:
        from constrained.conformance.parser_check import check_parser
    except ImportError as e:  # the extra `suite` is not installed; the message says so
        raise RequestError(str(e)) from e
    from constrained.format_selection.selection import read_tool_format

    format = read_tool_format(options.format)
    with show_progress("checking", "checks") as progress:
        report = check_parser(
            options.cmd,
            format,
            rows=list(_read_rows(options.rows)),
            examples=options.examples,
            seed=options.seed,
            timeout=options.timeout,
            report=progress or (lambda done, whole: None),
        )
    claims = ", ".join(report.abilities.names) or "nothing further"
    done = f"{len(report.checks)} checks, {report.rows} recorded turns"
    summary = f"{options.cmd}: {format.name}, claims {claims}; {done}, seed {options.seed}"
    return _print(report.findings, summary, as_json=options.json)


def _read_rows(paths: Sequence[str]) -> "Iterator[CorpusRow]":
    from constrained.conformance.rows import read_corpus, read_packaged_rows
    from constrained.replay.check import read_rows

    yield from read_corpus(read_packaged_rows())
    for path in paths:
        yield from read_corpus(read_rows(read_lines(path, "--rows")))


def _check_server(options: argparse.Namespace) -> int:
    if options.format is not None or options.rows:
        raise RequestError("--format and --rows are for parsers (--cmd)")
    from constrained.conformance.server_check import check_server

    key = options.server_key
    if key is None:
        key = os.environ.get("LLAMA_API_KEY", "").partition(",")[0]
    with show_progress("checking", "checks") as progress:
        report = check_server(
            options.url,
            api_key=key,
            model=options.served_model,
            report=progress or (lambda done, whole: None),
        )
    summary = f"{report.url}, {report.model}: {len(report.checks)} checks"
    return _print(report.findings, summary, as_json=options.json)


def _print(findings: "Sequence[SuiteFinding]", summary: str, *, as_json: bool) -> int:
    for finding in findings:
        if as_json:
            print_json(finding.to_json())
        else:
            print_text("\n".join([*finding.describe(), ""]))
    if not as_json:
        print_text(f"{summary}: {len(findings)} findings")
    return ExitCode.NEGATIVE if findings else ExitCode.DONE
