"""The same requests alone, among seven others, warm and streamed: how often the replies differ.

    python -m benchmarks.determinism [-m MODEL.gguf] [--requests 40] [--threads N]

Each request is sent alone to a fresh model, then with seven others at once, then once more to the
same model, which knows the prompt by then, as a stream. Greedy, and drawn with a seed. Where a
reply differs from that of the request alone, the difference between the logits of the first two
different tokens is printed; then the seconds of all requests, deterministic and not. Exit code 1 if
a deterministic reply differs, or if a greedy one does at a gap that rounding does not explain.
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained import Model, Sampling, embedded, load
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.protocol import Chunk
from constrained.job import Job
from constrained.reply import Reply
from examples.demo_model.exam import Question, draw_questions

CLOSE = 0.25  # a gap between logits that other batches can explain, in this small model
WAYS = ("together", "warm, streamed")


@dataclass
class Outcome:
    """How many replies differed, by way; the gaps where they parted; seconds alone."""

    differ: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    gaps: list[float] = field(default_factory=list[float])
    seconds: float = 0.0


def ask(model: Model, question: Question, sampling: Sampling) -> Reply:
    """Sends one request, as a stream."""
    stream = model.stream(question.messages, question.tools, sampling=sampling, max_tokens=96)
    for _ in stream:
        pass
    return stream.result


def compare(path: Path, questions: Sequence[Question], sampling: Sampling, **how: Any) -> Outcome:
    """Sends all requests in all ways."""
    outcome, alone = Outcome(), list[str]()
    for question in questions:
        with load(path, context_length=2048, **how) as model:
            start = time.perf_counter()
            reply = model.call(question.text, question.tools, sampling=sampling, max_tokens=96)
            outcome.seconds += time.perf_counter() - start
            alone.append(reply.text)
    with load(path, context_length=2048, sequences=8, **how) as model:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda q: ask(model, q, sampling).text, questions))
        again = [ask(model, question, sampling).text for question in questions]
    for way, texts in zip(WAYS, (together, again), strict=True):
        for question, one, other in zip(questions, alone, texts, strict=True):
            if one != other:
                outcome.differ[way] += 1
                outcome.gaps.append(measure_gap(path, question, one, other))
    return outcome


def measure_gap(path: Path, question: Question, one: str, other: str) -> float:
    """Returns the difference of the logits of the first two tokens that are not the same."""
    with load(path, context_length=2048) as model:
        turn = model.compile(Job(question.messages, question.tools))
    encode = turn.vocabulary.encode_marked
    first, second = ([*encode(text, turn.markers), turn.vocabulary.end[0]] for text in (one, other))
    place = next(n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    with load_engine(path, context_length=2048) as engine:
        (logits,) = engine.decode([Chunk(0, [*turn.tokens, *first[:place]], 0)])
        return abs(float(logits[first[place]] - logits[second[place]]))


def main() -> int:
    """Compares, and prints."""
    parser = argparse.ArgumentParser(description="How often replies differ.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("-t", "--threads", type=int)
    options = parser.parse_args()
    questions = draw_questions("handwritten", options.requests)
    wrong = 0
    for name, sampling in (("greedy", Sampling(temperature=0)), ("drawn", Sampling(seed=7))):
        seconds = list[float]()
        for deterministic in (True, False):
            how: Any = {"deterministic": deterministic, "threads": options.threads}
            outcome = compare(options.model, questions, sampling, **how)
            seconds.append(outcome.seconds)
            far = [gap for gap in outcome.gaps if gap > CLOSE]
            wrong += len(outcome.gaps) if deterministic else len(far) if name == "greedy" else 0
            kind = "deterministic" if deterministic else "fast"
            differences = ", ".join(f"{way}: {count}" for way, count in outcome.differ.items())
            gaps = f"; gaps {', '.join(f'{gap:.3f}' for gap in outcome.gaps)}" * bool(outcome.gaps)
            print(f"{name}, {kind}: of {len(questions)} replies differ {differences}{gaps}")
        print(f"{name}: deterministic takes {seconds[0] / seconds[1]:.2f} times as long, alone")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
