"""Time to the first token of a tool conversation, warm against cold.

    python -m benchmarks.first_token [-m MODEL.gguf] [--shape small|0.6b] [--turns 6]

Tools of 4,000 tokens, a question, and a call and a short result in each turn. Warm is the model
that has generated the turns before; cold is one that has seen nothing, for the last prompt. Without
a model: random weights in that shape, Q8_0. Exit code 1 if a warm turn computes more than 100
tokens or the ratio is below 13.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.forced import make_model
from benchmarks.histories import offer
from benchmarks.inputs.tool_sets import SAMPLE
from benchmarks.sharing import first_event
from constrained import Model, load

QUESTION = "Look through the issues, then tell me what is left to do."
RESULT = '{"status": "ok", "open": 3, "next": "page 2"}'
CALL: Any = {"tool_choice": "required", "parallel": False, "max_tokens": 48}
MAX_COMPUTED, MIN_SPEEDUP = 100, 13.0  # tokens computed in a warm turn; cold / warm


def converse(model: Model, tools: Sequence[Any], turns: int) -> tuple[list[float], list[Any], int]:
    """Returns the seconds of each turn, the messages of the last one, and the most tokens that a
    turn but the first has computed."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    seconds, asked, most = list[float](), list[Any](), 0
    for number in range(turns):
        asked = [*messages]
        waited, reply = first_event(model, messages, tools, **CALL)
        seconds.append(waited)
        usage = reply.usage
        computed = usage.prompt_tokens - usage.cached_tokens
        most = max(most, computed) if number else 0
        print(
            f"turn {number + 1:2}: {usage.prompt_tokens:5} tokens, {computed:5} computed, "
            f"first event after {1000 * waited:8.1f} ms",
            flush=True,
        )
        messages.append(reply.message())
        for call in reply.calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    return seconds, asked, most


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="Warm and cold.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="small")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--tools", type=Path, default=SAMPLE / "tools_github.jsonl")
    parser.add_argument("-t", "--threads", type=int)
    options = parser.parse_args()
    tools, how = offer(options.tools), {"context_length": 8192, "threads": options.threads}
    with TemporaryDirectory() as folder:
        path = options.model or make_model(Path(folder, "model.gguf"), options.shape, "Q8_0")
        with load(path, **how) as model:
            seconds, asked, most = converse(model, tools, options.turns)
        with load(path, **how) as model:
            cold, reply = first_event(model, asked, tools, **CALL)
    warm = statistics.median(seconds[1:])
    print(f"cold: {reply.usage.prompt_tokens} tokens, first event after {1000 * cold:.1f} ms")
    print(f"warm, median: {1000 * warm:.1f} ms; cold / warm: {cold / warm:.1f}")
    return int(most > MAX_COMPUTED or cold / warm < MIN_SPEEDUP)


if __name__ == "__main__":
    raise SystemExit(main())
