"""The time that drafts copied from the prompt save: the same turns with and without them.

    python -m benchmarks.copying [-m MODEL.gguf] [--shape small|0.6b] [--dtype Q8_0] [--repeats 3]
                                 [--cases N] [--demo QUESTIONS]

quotes: calls with an argument of 20 tokens or more that stands in the prompt; ordinary: the calls
of the sample of BFCL; fresh: answers and arguments that repeat nothing. Tokens that the grammar
forces are taken in both. The text is imposed, as in `benchmarks.forced`, so the number of forward
passes depends on the vocabulary alone; without a model, that of Qwen. `--demo`: the demo model
writes freely, greedily, the answers to the questions of its evaluation; the number of texts that
differ is printed, too. `cpu` is the ratio of forward passes if one over several tokens costs what
`ALONE.find` says (`benchmarks.passes` measures it). Times are those after the prompt, medians,
measured in turn.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.forced import NOTE, TEMPLATES, WRITE, Imposed, make_model
from benchmarks.inputs.tool_sets import SAMPLE
from constrained import embedded
from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.drafts.decode_costs import ALONE
from constrained.decode.request import DecodeInput, DecodeOptions, Generation, Request
from constrained.engine.llamacpp import LlamaEngine
from constrained.engine.protocol import Sampling
from constrained.errors import Error, GrammarError
from constrained.job import Job
from constrained.model.loading import load
from constrained.model.model import Model
from constrained.template.chat_template import ChatTemplate
from examples.first_call import TOOLS
from examples.random_model import (
    template,
)
from grammars.render import render
from grammars.turn import ToolCall, Turn
from tests.generation import generate

GREEDY = Sampling(temperature=0)
MAIL = {
    "name": "send_mail",
    "description": "Send an e-mail",
    "parameters": {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "Address of the recipient"},
            "subject": {"type": "string"},
            "body": {"type": "string", "description": "The text of the mail"},
        },
        "required": ["to", "subject", "body"],
    },
}
RUN = {
    "name": "run_command",
    "description": "Run a command in the shell",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "folder": {"type": "string"}},
        "required": ["command"],
    },
}
SEARCH = {
    "name": "search_documents",
    "description": "Find documents by their text",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}
OFFERED = [*TOOLS, WRITE, MAIL, RUN, SEARCH]
LETTER = (
    "Dear Ms Schmidt, the delivery of the forty chairs has been moved to Thursday, 14 March, "
    "between nine and eleven. Please have somebody at the gate, and keep the ramp free. Kind "
    "regards, Tom Becker"
)
COMMAND = (
    "docker run --rm -it -v /srv/data/2024/exports:/data -p 8080:80 registry.example.com/tools/"
    "converter:1.14.2 --input /data/orders.csv --output /data/orders.parquet --compress zstd"
)
ERROR = (
    "psycopg2.errors.ForeignKeyViolation: insert or update on table order_items violates foreign "
    "key constraint order_items_product_id_fkey"
)
REPORT = (
    "The pump in hall 3 lost pressure twice last night, at 01:12 and at 03:47, and came back each "
    "time by itself."
)
QUOTES: list[tuple[str, str, dict[str, Any]]] = [
    (
        f'Send Anna this note, it is not urgent: "{NOTE}"',
        "send_note",
        {"to": "Anna", "text": NOTE, "urgent": False},
    ),
    (
        f"Please write to Anna that it is urgent: {NOTE}",
        "send_note",
        {"to": "Anna", "text": NOTE, "urgent": True},
    ),
    (
        "Mail this to e.schmidt@moebel-schmidt.example with the subject Delivery on Thursday:\n\n"
        f"{LETTER}",
        "send_mail",
        {
            "to": "e.schmidt@moebel-schmidt.example",
            "subject": "Delivery on Thursday",
            "body": LETTER,
        },
    ),
    (
        f"Run the following in /srv/reports:\n```\n{COMMAND}\n```",
        "run_command",
        {"command": COMMAND, "folder": "/srv/reports"},
    ),
    (
        f"I get this error, have we seen it before? {ERROR}\nShow me the first 5 documents.",
        "search_documents",
        {"query": ERROR, "limit": 5},
    ),
    (
        f'Maintenance says: "{REPORT} Nobody was there." Tell Jonas what they say about the pump. '
        "It is urgent.",
        "send_note",
        {"to": "Jonas", "text": REPORT, "urgent": True},
    ),
]
FRESH = [
    "Bread rises because yeast eats sugar and gives off gas, which the dough holds back. Warm "
    "kitchens speed this up; a fridge slows it down and adds flavour. Knead until a thin film can "
    "be stretched between two fingers, shape it loosely, and bake with steam.",
    "A lighthouse keeper once counted nineteen ships before breakfast. Most carried timber, some "
    "brought oranges from Valencia, and one small schooner towed an empty barge whose crew waved "
    "hats at him. He wrote their names in blue ink, then went downstairs to fry an egg.",
]


@dataclass(frozen=True)
class Case:
    """A turn and what is written in it; a text of None: what the model likes."""

    turn: CompiledTurn
    text: str | None


@dataclass
class Sums:
    """What the turns of a group took, without and with drafts."""

    turns: int = 0
    tokens: int = 0
    passes: list[int] = field(default_factory=lambda: [0, 0])
    milliseconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    costs: list[float] = field(default_factory=lambda: [0.0, 0.0])
    drafted: int = 0
    accepted: int = 0
    different: int = 0

    def add(self, plain: "Written", drafted: "Written", times: Sequence[float]) -> None:
        """Adds a turn."""
        self.turns += 1
        self.tokens += len(plain.generation.tokens)
        for n, written in enumerate((plain, drafted)):
            self.passes[n] += written.generation.usage.forward_passes
            self.milliseconds[n] += times[n]
            self.costs[n] += sum(1 + ALONE.find(size - 1) for size in written.sizes)
        self.drafted += drafted.generation.usage.drafted_tokens
        self.accepted += drafted.generation.usage.accepted_tokens
        self.different += plain.generation.tokens != drafted.generation.tokens


@dataclass(frozen=True)
class Written:
    """A turn that was written, the sizes of its decodes, and the time after the prompt."""

    generation: Generation
    sizes: Sequence[int]
    milliseconds: float


def quotes(model: Model) -> Iterator[Case]:
    """Calls that quote the prompt."""
    for request, name, arguments in QUOTES:
        yield _call(model, request, OFFERED, [ToolCall(name, arguments)])


def ordinary(model: Model) -> Iterator[Case]:
    """Calls of BFCL that this format can write."""
    for line in (SAMPLE / "tools_bfcl.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if isinstance(row["user"], str) and row.get("gold"):
            calls = [ToolCall(call["name"], call["arguments"]) for call in row["gold"]]
            try:
                yield _call(model, row["user"], row["tools"], calls)
            except Error:
                continue


def fresh(model: Model) -> Iterator[Case]:
    """Answers and an argument that repeat nothing."""
    for text in FRESH:
        job = Job([{"role": "user", "content": "Tell me something."}], OFFERED)
        yield Case(model.compile(job), text)
        note = {"to": "Anna", "text": text, "urgent": False}
        yield _call(model, "Send Anna a nice note.", OFFERED, [ToolCall("send_note", note)])


def _call(model: Model, request: str, tools: Sequence[Any], calls: Sequence[ToolCall]) -> Case:
    turn = model.compile(Job([{"role": "user", "content": request}], tools, "required"))
    return Case(turn, render(Turn(calls=tuple(calls)), turn.format, turn.tools, turn.state))


GROUPS = {"quotes": quotes, "ordinary": ordinary, "fresh": fresh}


def measure(model: Model, cases: Iterable[Case], repeats: int) -> Sums:
    """Writes each turn without and with drafts, in turn."""
    sums = Sums()
    for case in cases:
        made: list[Written] = []
        times: list[list[float]] = [[], []]
        try:
            for _ in range(repeats):
                made = [_write(model, case, draft) for draft in (False, True)]
                for kept, written in zip(times, made, strict=True):
                    kept.append(written.milliseconds)
        except (GrammarError, ValueError):  # the grammar, or its forced tokens, spell it otherwise
            continue
        sums.add(made[0], made[1], [statistics.median(kept) for kept in times])
    return sums


def _write(model: Model, case: Case, draft: bool) -> Written:
    turn, vocabulary, real = case.turn, model.engine.vocabulary, model.engine
    assert isinstance(real, LlamaEngine)
    tokens = [*vocabulary.encode_special(case.text), vocabulary.end[0]] if case.text else []
    engine: Any = Imposed(real, tokens) if case.text else Greedy(real)
    input = DecodeInput(
        turn.tokens, turn.make_parser, turn.matcher.fork() if turn.matcher else None
    )
    request = Request(input, DecodeOptions(sampling=GREEDY, draft=draft))
    start = time.perf_counter()
    (generation,) = generate(engine, [request])
    spent = time.perf_counter() - start - engine.prompt_seconds
    return Written(generation, engine.sizes, 1000 * spent)


class Greedy(Imposed):
    """The engine with its own sampler, and the time of the prompt."""

    def __init__(self, engine: Any):
        super().__init__(engine, ())

    def sampler(self, sampling: Sampling) -> Any:
        """That of the engine."""
        return self._engine.sampler(sampling)


def demo(group: str, count: int) -> Any:
    """Returns what the demo model is asked, with what it says itself."""
    from examples.demo_model.exam import draw_questions

    def cases(model: Model) -> Iterator[Case]:
        for question in draw_questions(group, count):
            yield Case(model.compile(Job(question.messages, question.tools)), None)

    return cases


def main() -> None:
    """Prints a line for each group and format."""
    parser = argparse.ArgumentParser(description="What drafts save.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="small")
    parser.add_argument("--dtype", default="F16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", type=int, help="of each group")
    parser.add_argument("--groups", nargs="+", choices=tuple(GROUPS), default=tuple(GROUPS))
    parser.add_argument("--demo", type=int, metavar="QUESTIONS", help="of each group")
    parser.add_argument("-t", "--threads", type=int)
    options = parser.parse_args()
    print(
        f"{'':<24}{'turns':>6}{'tokens':>8}{'passes':>8}{'drafts':>8}{'ratio':>7}{'cpu':>7}{'ms':>9}"
        f"{'drafts':>9}{'ratio':>7}{'drafted':>9}{'right':>7}{'differ':>8}"
    )
    if options.demo:
        with load(options.model or embedded.PATH, threads=options.threads) as model:
            for group in ("seen", "unseen", "handwritten", "results"):
                cases = demo(group, options.demo)(model)
                _print(f"demo, {group}", measure(model, cases, options.repeats))
        return
    with TemporaryDirectory() as folder:
        path = options.model or make_model(Path(folder) / "m.gguf", options.shape, options.dtype)
        for name, source in TEMPLATES.items():
            with load(path, threads=options.threads, context_length=8192) as loaded:
                model = Model(loaded.engine, ChatTemplate(template(source)))
                for group in options.groups:
                    cases = itertools.islice(GROUPS[group](model), options.cases)
                    sums = measure(model, cases, options.repeats)
                    _print(f"{name}, {group}", sums)


def _print(name: str, sums: Sums) -> None:
    passes, times = sums.passes, sums.milliseconds
    print(
        f"{name:<24}{sums.turns:>6}{sums.tokens:>8}{passes[0]:>8}{passes[1]:>8}"
        f"{passes[0] / passes[1]:>6.2f}x"
        f"{sums.costs[0] / sums.costs[1]:>6.2f}x{times[0]:>9.0f}{times[1]:>9.0f}"
        f"{times[0] / times[1]:>6.2f}x{sums.drafted:>9}{sums.accepted:>7}{sums.different:>8}",
        flush=True,
    )


if __name__ == "__main__":
    main()
