"""`constrained eval`: which model file calls tools, and whether the syntax or the wits fail."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from constrained.cli import options as shared
from constrained.cli.declared import complete
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.cli.terminal.output import print_json, print_text, show_progress
from constrained.engine.options import CacheType, read_options
from constrained.errors import RequestError

if TYPE_CHECKING:
    from constrained.inspect.evaluation.judging import Judgement
    from constrained.inspect.evaluation.report import Evaluation
    from constrained.inspect.evaluation.run import EvaluationPlan

_COUNT, _MAX_TOKENS = 10, 512
_KINDS = ("simple", "multiple", "parallel", "irrelevance", "agent")
_WAYS, _CHOICES = ("free", "masked"), ("auto", "required")
_PAUSE = 60  # seconds between two lines of progress where there is no terminal


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run, hf_token=None, offline=False)
    help = "files or names, as for -m of other commands; all are compared with the first"
    parser.add_argument("models", metavar="MODEL", nargs="*", default=[], help=help)
    add = parser.add_argument
    help = "also ask this server, which needs Chat Completions (repeatable)"
    add("--against", metavar="URL", action="append", default=[], help=help)
    shared.add_server_options(add)
    help = "questions as JSON Lines: tools, user or messages, gold (repeatable); default: from BFCL"
    add("--rows", metavar="FILE", action="append", default=[], help=help)
    help = f"questions of each kind; default: {_COUNT}"
    add("--count", type=int, metavar="N", default=_COUNT, help=help)
    help = "kinds of questions; default: all"
    add("--kinds", nargs="+", choices=_KINDS, default=_KINDS, help=help)
    help = "tool_choice; default: both"
    add("--choices", nargs="+", choices=_CHOICES, default=_CHOICES, help=help)
    help = "without the mask (free), with it (masked); default: both"
    add("--ways", nargs="+", choices=_WAYS, default=_WAYS, help=help)
    help = "types of the KV cache to compare; default: that of -ctk and -ctv"
    types = get_args(CacheType)
    add("--cache-types", nargs="+", choices=types, metavar="TYPE", default=[None], help=help)
    help = "save the answers in FILE, and ask only what it lacks"
    add("--answers", metavar="FILE", help=help)
    add("--json", metavar="FILE", help="write all results as JSON; -: to stdout")
    add("--picture", metavar="FILE", help="write a picture (SVG)")
    help = "seed for the choice of questions, sampling and intervals; default: 0"
    add("--seed", type=int, default=0, metavar="N", help=help)
    help = "temperature; default: 0"
    add("--temperature", "--temp", type=float, default=0.0, metavar="N", help=help)
    help = f"maximum tokens of an answer; default: {_MAX_TOKENS}"
    add("-n", "--max-tokens", type=int, default=_MAX_TOKENS, metavar="N", help=help)
    add("--no-parallel", action="store_true", help="allow at most one call in an answer")
    help = "chat template to use instead of the one in the file"
    add("--chat-template-file", metavar="FILE", help=help)
    help = "variables for the chat template"
    add("--chat-template-kwargs", metavar="JSON", default="{}", help=help)
    help = "whether the model reasons before it answers"
    add("--reasoning", choices=tuple(shared.THINKING), default="auto", help=help)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=1)


def _run(options: argparse.Namespace) -> int:
    _check(options)
    complete(options)
    if options.parallel is None:
        options.parallel = 1
    read_options(shared.read_engine_options(options))
    plan = _make_plan(options)
    from constrained.inspect.evaluation.kept_answers import KeptAnswers
    from constrained.inspect.evaluation.run import measure

    judgements: list[Judgement] = []
    with KeptAnswers(options.answers, plan.describe_options()) as kept:
        try:
            with _show() as progress:
                for judgement in measure(plan, kept, progress):
                    judgements.append(judgement)
        finally:  # what there is, also after Ctrl-C, or if a server is lost
            if judgements:
                _print(plan.report(judgements, kept), options)
    if not judgements:
        hint = "Add --choices auto, or --ways free"
        raise RequestError("a call cannot be required where none would be right", hint=hint)
    return ExitCode.DONE


def _check(options: argparse.Namespace) -> None:
    if not options.models and not options.against:
        hint = "Name a file, demo or smollm2, or a server: --against URL"
        raise RequestError("no model is named", hint=hint)
    for name in ("count", "max_tokens"):
        if getattr(options, name) < 1:
            option = f"--{name.replace('_', '-')}"
            raise RequestError(f"{option} is {getattr(options, name)}, must be 1 or more")


def _make_plan(options: argparse.Namespace) -> "EvaluationPlan":
    from constrained.inspect.evaluation.rows import SAMPLE, QuestionKind, read_questions
    from constrained.inspect.evaluation.run import EvaluationPlan, connect, draw
    from constrained.inspect.evaluation.ways import AskOptions

    found = read_questions(options.rows or [SAMPLE])
    kinds = [QuestionKind(kind) for kind in options.kinds]
    questions = draw(found.all, kinds, options.count, options.seed)
    key = shared.read_server_key(options)
    template = shared.read_template(options)
    return EvaluationPlan(
        files=[shared.find_file(model, options) for model in options.models],
        cache_types=options.cache_types,
        servers=[connect(url, key, options.served_model) for url in dict.fromkeys(options.against)],
        questions=questions,
        notes=found.notes if options.rows else (),
        ask=AskOptions(
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            think=shared.THINKING[options.reasoning],
            template_kwargs=shared.read_kwargs(options),
            parallel=not options.no_parallel,
            choices=options.choices,
            ways=options.ways,
        ),
        load_options=shared.read_engine_options(options),
        load_further={"chat_template": template, "tool_format": options.tool_format},
    )


@contextmanager
def _show() -> "Iterator[Callable[[float, float], None]]":
    """Shows progress with the time that is left: a bar at a terminal, else a line a minute."""
    with show_progress("asking", "questions") as bar:
        if bar is not None:
            yield bar
            return
        told, known = time.monotonic(), 0.0

        def tell(done: float, whole: float) -> None:
            nonlocal told, known
            now = time.monotonic()
            if now - told < _PAUSE:
                return
            left = (now - told) / (done - known) * (whole - done) / 60
            told, known = now, done
            text = f"{done:.0f} of {whole:.0f} questions, {left:.0f} min left"
            print(f"constrained: {text}", file=sys.stderr, flush=True)

        yield tell


def _print(evaluation: "Evaluation", options: argparse.Namespace) -> None:
    if options.json == "-":
        print_json(evaluation.to_json())
    else:
        print_text(str(evaluation))
        if options.json:
            _write(options.json, json.dumps(evaluation.to_json(), ensure_ascii=False, indent=1))
    if options.picture:
        from constrained.inspect.evaluation.picture import draw_picture

        _write(options.picture, draw_picture(evaluation))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as e:
        raise RequestError(f"{path} cannot be written: {e.strerror or e}") from e
