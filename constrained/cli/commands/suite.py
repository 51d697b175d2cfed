"""`constrained suite`: checks any parser or server by properties that all of them must have."""

import argparse
import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.cli.options import add_server_options, read_server_key
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.input import read_json, read_lines, read_text
from constrained.cli.terminal.output import print_json, print_notes, print_text, show_progress
from constrained.errors import RequestError
from grammars.errors import Error

if TYPE_CHECKING:
    from constrained.inspect.conformance.finding import SuiteFinding
    from constrained.inspect.conformance.rows import CorpusRow
    from grammars.suite.run import Progress
    from grammars.turn import Tool
    from grammars.wire.format import Format

_EXAMPLES = 100
_TIMEOUT = 5
_SIGN_OF_LIFE = 3  # seconds


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    subject = parser.add_mutually_exclusive_group(required=True).add_argument
    help = "a parser, such as 'python my_parser.py': it reads and writes JSON Lines"
    subject("--cmd", metavar="COMMAND", help=help)
    help = "a parser in Python: a function of a text, or a class with feed and finish"
    subject("--parser", metavar="MODULE:NAME", help=help)
    help = "a parser of another project: vllm:hermes, vllm:qwen3_coder+qwen3, sglang:qwen25, ..."
    subject("--peer", metavar="PROJECT:PARSER", help=help)
    help = "a server with Chat Completions, such as http://127.0.0.1:8080/v1"
    subject("--url", metavar="URL", help=help)
    help = "print cases for parsers as JSON Lines: texts, tools and what a parser should read"
    subject("--export", action="store_true", help=help)
    help = "ids of known findings, one a line, which do not count (# begins a comment)"
    parser.add_argument("--known", metavar="FILE", help=help)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON Lines")
    help = "write the findings to a file of Markdown, to paste into issues"
    parser.add_argument("--markdown", metavar="FILE", help=help)
    add = parser.add_argument_group("parsers").add_argument
    help = "the wire format that it reads: a known one, a file from `formats detect --save`, or a "
    help += "chat template (Jinja, tokenizer_config.json, GGUF) that teaches it"
    add("--format", metavar="NAME|FILE", help=help)
    help = "JSON list of the tools to call; default: tools that the suite makes up"
    add("--tools", metavar="FILE", help=help)
    help = "the folder that the project of --peer is imported from, such as an unpacked wheel"
    add("--package", metavar="FOLDER", help=help)
    help = "recorded turns, as for `constrained check`, besides those of the package (repeatable)"
    add("--rows", metavar="FILE", action="append", default=[], help=help)
    help = "read only the turns of a file: rows, or findings from --json or --found (repeatable)"
    add("--replay", metavar="FILE", action="append", default=[], help=help)
    help = "append the smallest failing turns to a file, as rows for --rows and --replay"
    add("--keep", metavar="FILE", help=help)
    help = "append findings to a file as soon as they are found; those in it do not count again"
    add("--found", metavar="FILE", help=help)
    add(
        "--seconds",
        type=float,
        metavar="N",
        default=math.inf,
        help="end the search after N seconds",
    )
    add("--seed", type=int, default=0, help="seed of the examples; default: 0")
    help = f"number of examples for each property; default: {_EXAMPLES}"
    add("--examples", type=int, metavar="N", default=_EXAMPLES, help=help)
    help = f"seconds for each answer; default: {_TIMEOUT}"
    add("--timeout", type=float, metavar="SECONDS", default=_TIMEOUT, help=help)
    add_server_options(parser.add_argument_group("servers").add_argument)


def _run(options: argparse.Namespace) -> int:
    if options.url is not None:
        return _check_server(options)
    if options.format is None:
        given = [name for name in ("export", "cmd", "parser", "peer") if getattr(options, name)]
        hint = "Known ones: constrained formats"
        raise RequestError(f"--{given[0]} needs the --format that the parser reads", hint=hint)
    if options.package is not None and options.peer is None:
        raise RequestError("--package is for the project of --peer")
    if options.examples < 1 or options.timeout <= 0 or options.seconds <= 0:
        raise RequestError("--examples, --timeout and --seconds must be more than 0")
    if options.export:
        return _export(options)
    return _check_parser(options)


def _export(options: argparse.Namespace) -> int:
    if options.known is not None:
        raise RequestError("--known is for findings, and --export has none")
    try:
        from constrained.inspect.conformance.case_export import export_cases
    except ImportError as e:  # the extra `suite` is not installed; the message says so
        raise RequestError(str(e)) from e
    format = _read_format(options.format)
    rows = list(_read_rows(options.rows))
    for case in export_cases(format, rows=rows, examples=options.examples, seed=options.seed):
        print_json(case)
    return ExitCode.DONE


def _check_parser(options: argparse.Namespace) -> int:
    known = [*_read_known(options.known), *_read_found(options.found)]
    try:
        from constrained.inspect.conformance.parser_check import CHECKS, check_parser
    except ImportError as e:  # the extra `suite` is not installed; the message says so
        raise RequestError(str(e)) from e
    format = _read_format(options.format)
    rows = list(_read_rows(options.replay or options.rows, packaged=not options.replay))
    checks = () if options.replay else CHECKS

    def keep(finding: "SuiteFinding") -> None:
        if finding.id not in known:
            print_notes([f"found: {finding.what}"])
            _append(options.found, finding.to_json())
            _append(options.keep, finding.row)

    report = check_parser(
        _write_command(options),
        format,
        rows=rows,
        checks=checks,
        tools=_read_own_tools(options.tools),
        examples=options.examples,
        seed=options.seed,
        seconds=options.seconds,
        timeout=options.timeout,
        report=_make_progress(len(checks)),
        tell=keep,
    )
    claims = ", ".join(report.abilities.names) or "nothing further"
    done = f"{len(report.checks)} checks, {report.rows} recorded turns"
    if not report.is_whole:
        done += f", ended after {options.seconds:g} s"
    name = options.cmd or options.parser or options.peer
    summary = f"{name}: {format.name}, claims {claims}; {done}, seed {options.seed}"
    return _print(report.findings, summary, known=known, options=options)


def _make_progress(checks: int) -> "Callable[[Progress], None]":
    """Returns what says on stderr how far the search is, every few seconds."""
    told = time.monotonic()

    def tell(progress: "Progress") -> None:
        nonlocal told
        if time.monotonic() - told > _SIGN_OF_LIFE:
            told = time.monotonic()
            place = f"{progress.check}, {min(progress.number + 1, checks)} of {checks} checks"
            print_notes([f"{place}: {progress.examples} examples, {progress.found} found"])

    return tell


def _append(path: str | None, value: Any) -> None:
    if path is not None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")


def _read_found(path: str | None) -> list[str]:
    """Returns the ids of the findings in a file, which need not exist yet."""
    from constrained.inspect.replay.check import read_rows

    ids: list[str] = []
    if path is not None and os.path.exists(path):
        for row in read_rows(read_lines(path, "--found")):
            if isinstance(row, Error):
                raise RequestError(f"{path}: {row.message}", hint="Name another file with --found")
            ids.append(str(row.get("id")))
    return ids


def _read_own_tools(path: str | None) -> "tuple[Tool, ...]":
    if path is None:
        return ()
    from constrained.prompt.tools.shapes import read_tools

    return read_tools(read_json(read_text(path, "--tools"), path))


def _read_format(given: str) -> "Format":
    """Reads a format: a known one, a saved one, or the one that a chat template teaches."""
    from constrained.cli.commands.formats import read_template
    from constrained.prompt.format_selection.selection import read_tool_format, select_format

    if os.path.isfile(given):
        try:
            return read_tool_format(given)
        except Error as e:
            if given.endswith(".json") and '"chat_template"' not in read_text(given, "--format"):
                raise e
        template, special = read_template(given, None)
        return select_format(template, special_tokens=special).format
    return read_tool_format(given)


def _write_command(options: argparse.Namespace) -> str:
    """Returns the command that starts the parser."""
    if options.cmd is not None:
        return options.cmd
    pipe = [sys.executable, "-m", "constrained.inspect.peers.pipe"]
    if options.parser is not None:
        return shlex.join([*pipe, "own", options.parser])
    package = [] if options.package is None else [options.package]
    return shlex.join([*pipe, options.peer, *package])


def _read_known(path: str | None) -> list[str]:
    ids: list[str] = []
    if path is not None:
        for line in read_lines(path, "--known"):
            if id := line.decode(errors="replace").partition("#")[0].strip():
                ids.append(id)
    return ids


def _read_rows(paths: Sequence[str], *, packaged: bool = True) -> "Iterator[CorpusRow]":
    from constrained.inspect.conformance.rows import read_corpus, read_packaged_rows
    from constrained.inspect.replay.check import read_rows

    if packaged:
        yield from read_corpus(read_packaged_rows())
    for path in paths:
        yield from read_corpus(read_rows(read_lines(path, "--rows")))


def _check_server(options: argparse.Namespace) -> int:
    if options.format is not None or options.rows:
        raise RequestError("--format and --rows are for parsers, and --url is a server")
    from constrained.inspect.conformance.server_check import check_server

    known = _read_known(options.known)
    with show_progress("checking", "checks") as progress:
        report = check_server(
            options.url,
            api_key=read_server_key(options),
            model=options.served_model,
            report=progress or (lambda done, whole: None),
        )
    summary = f"{report.url}, {report.model}: {len(report.checks)} checks"
    return _print(report.findings, summary, known=known, options=options)


def _print(
    findings: "Sequence[SuiteFinding]",
    summary: str,
    *,
    known: Sequence[str],
    options: argparse.Namespace,
) -> int:
    new = [finding for finding in findings if finding.id not in known]
    texts = ["\n".join([*finding.describe(), ""]) for finding in new]
    for finding, text in zip(new, texts, strict=True):
        if options.json:
            print_json(finding.to_json())
        else:
            print_text(text)
    found = {finding.id for finding in findings}
    print_notes(f"known, but not found any more: {id}" for id in known if id not in found)
    counts = f"{len(new)} findings"
    if known:
        counts += f", {len(findings) - len(new)} known ones"
    if options.markdown is not None:
        report = "\n".join([f"{summary}: {counts}", "", *texts])
        Path(options.markdown).write_text(report, encoding="utf-8", errors="backslashreplace")
    if not options.json:
        print_text(f"{summary}: {counts}")
    return ExitCode.NEGATIVE if new else ExitCode.DONE
