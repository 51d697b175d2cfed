"""`constrained doctor`: finds errors of a model file or a chat template."""

import argparse
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size

from constrained.cli import options as shared
from constrained.cli.declared import complete
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.output import print_json, print_text
from constrained.errors import RequestError
from constrained.inspect.doctor.verdicts import Answer, Diagnosis, Level

_TEMPLATES = (".jinja", ".jinja2", ".j2", ".json")  # never names of models
_WIDTH, _NARROWEST = 100, 30  # columns
_SIGNS = {Level.OK: "ok", Level.NOTE: "note", Level.WARNING: "warning", Level.FAILURE: "FAILURE"}


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    help = (
        "a GGUF file, a name of `constrained models`, a Jinja template, or a tokenizer_config.json"
    )
    parser.add_argument("model", metavar="TEMPLATE_OR_GGUF", nargs="?", help=help)
    shared.add_hub_options(parser)
    help = "also show what is fine, and why"
    parser.add_argument("-v", "--verbose", action="store_true", help=help)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int:
    from constrained.inspect.doctor.examine import examine
    from constrained.inspect.doctor.subject import read_subject

    complete(options)
    path: str | None = options.model
    if path is None or Path(path).suffix not in _TEMPLATES:
        path = shared.find_model(options)
    if path is None:
        hint = "Name a file, or a model of the Hub (-hf)"
        raise RequestError("no model or template is given", hint=hint)
    subject = read_subject(path)
    diagnosis = examine(subject)
    if options.json:
        print_json(diagnosis.to_json())
    else:
        print_text("\n".join(_show(diagnosis, is_verbose=options.verbose)))
        if subject.contents is not None:
            print_text("\nDoes it call tools well? Find out: constrained eval MODEL")
    return ExitCode.NEGATIVE if diagnosis.level is Level.FAILURE else ExitCode.DONE


def _show(diagnosis: Diagnosis, *, is_verbose: bool) -> Iterator[str]:
    yield f"{diagnosis.subject}: {_SIGNS[diagnosis.level]}"
    for answer in diagnosis.answers:
        yield ""
        yield f"{answer.name}: {answer.question}"
        yield from _show_answer(answer, is_verbose=is_verbose)


def _show_answer(answer: Answer, *, is_verbose: bool) -> Iterator[str]:
    for verdict in answer.verdicts:
        if verdict.is_detail and not is_verbose:
            continue
        yield from _wrap(f"  {_SIGNS[verdict.level]:8} {verdict.text}")
        if verdict.remedy and (is_verbose or verdict.level > Level.OK):
            yield from _wrap(f"  {'':8} -> {verdict.remedy}")


def _wrap(line: str) -> list[str]:
    if not sys.stdout.isatty():
        return [line]
    width = min(_WIDTH, max(_NARROWEST, get_terminal_size().columns))
    return textwrap.wrap(line, width, subsequent_indent=" " * 11, break_long_words=False)
