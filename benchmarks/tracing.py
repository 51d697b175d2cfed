"""The cost of a trace: the CPU time of a token without one and with one.

    python -m benchmarks.tracing [-m MODEL.gguf] [--tokens 200] [--repeats 5]

One long answer under a grammar and one free text, each at temperature 0 with a prompt that is
known, without a trace and with one in turn. The figures are medians of milliseconds of the CPU a
token, and of the ratios of neighbours: llama.cpp has one thread, which does not wait for others, so
that a busy machine changes little. A row of its own has what a trace takes once it is written as
JSON, which no turn waits for. Another row counts the calls of tracing functions, in all threads,
for a reply without a trace. Without -m the demo model writes; "-m smollm2" takes that of the extra
`real`.
"""

import argparse
import json
import statistics
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

from constrained.engine.protocol import Sampling
from constrained.model.loading import load
from constrained.model.model import Model

QUESTION = "List many cities of the world, with a remark on each."
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
KINDS = ("answer", "free text")
TRACING = ("/constrained/decode/token_trace.py", "/constrained/trace/")
"""What the files of functions that trace have in their names."""


def measure(model: Model, kind: str, tokens: int, *, trace: bool) -> float:
    """Milliseconds of the CPU a token of one reply, the prompt left out as far as it is known."""
    options: dict[str, Any] = {"max_tokens": tokens, "sampling": Sampling(temperature=0)}
    if kind == "answer":
        options["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": ANSWER},
        }
    began = time.process_time()
    reply = model.call(QUESTION, trace=trace, **options)
    return 1000 * (time.process_time() - began) / reply.usage.completion_tokens


def measure_json(model: Model, tokens: int) -> float:
    """Milliseconds of the CPU a token that the JSON of a trace takes."""
    reply = model.call(QUESTION, trace=True, max_tokens=tokens)
    assert reply.trace is not None
    began = time.process_time()
    json.dumps(reply.trace.to_json())
    return 1000 * (time.process_time() - began) / reply.usage.completion_tokens


def count_calls(path: str | None, tokens: int, *, trace: bool) -> tuple[int, int]:
    """Returns the calls of functions in a reply of a model that was just loaded: those that trace,
    and all.

    Args:
        path: of the model; None: the demo model.
        tokens: of the reply.
        trace: the reply is traced.
    """
    counts = Counter[bool]()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[any(name in frame.f_code.co_filename for name in TRACING)] += 1

    threading.setprofile(count)  # for threads that begin from now on: those of the model
    try:
        with load(path, threads=1) as model:
            measure(model, KINDS[0], tokens, trace=trace)
    finally:
        threading.setprofile(None)
    return counts[True], counts.total()


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description="What a trace costs.")
    parser.add_argument("-m", "--model")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with load(options.model, threads=1) as model:
        print(f"{model!r}, {len(model.engine.vocabulary.tokens)} tokens in the vocabulary")
        for kind in KINDS:
            measure(model, kind, options.tokens, trace=True)  # warms up
            without: list[float] = []
            ratios: list[float] = []
            for _ in range(options.repeats):
                without.append(measure(model, kind, options.tokens, trace=False))
                traced = measure(model, kind, options.tokens, trace=True)
                ratios.append(traced / without[-1])
            plain, ratio = statistics.median(without), statistics.median(ratios)
            print(f"{kind}: {plain:.2f} ms a token without a trace; with one {ratio:.3f} times")
        written = statistics.median(
            measure_json(model, options.tokens) for _ in range(options.repeats)
        )
        print(f"written as JSON: {written:.2f} ms a token more")
    for trace in (False, True):
        tracing, calls = count_calls(options.model, options.tokens, trace=trace)
        print(f"{'with' if trace else 'without'} a trace: {tracing} of {calls} calls trace")


if __name__ == "__main__":
    main()
