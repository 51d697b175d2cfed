"""Requests that leave as much in memory as they can: how much memory is kept.

    python -m benchmarks.hoarding [--requests 100] [KIND ...]

Each request is like none before, and small to send or cheap to refuse. For each kind, in a process
of its own, are printed the memory above that of the loaded model, and the largest caches. What is
kept is bounded by the limits of the caches (docs/server.md), whatever the number of requests.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attacks.attack import Body, ask_for_call
from constrained import embedded, load
from constrained.engine.host import bound_heap, return_free_memory
from constrained.errors import Error
from constrained.job import Job
from constrained.model.model import Model
from grammars.byte_cache import measure_shared
from grammars.turn import RegexAnswer

TOKENS = 100  # of a random turn
MIB = 1 << 20


def describe(number: int) -> Body:
    """Returns a tool with a description of 1 MiB."""
    body: Any = ask_for_call({"type": "object"})
    body["tools"][0]["function"]["description"] = f"{number}" + "a" * MIB
    return body


def enumerate_texts(number: int) -> Body:
    """Returns a schema of 2,000 texts (20 kB)."""
    texts = [f"{number} {index}" for index in range(2_000)]
    return ask_for_call({"type": "object", "properties": {"a": {"enum": texts}}})


def look_back(number: int) -> Body:
    """Returns a pattern whose automaton has as many states as the text has characters."""
    pattern = f"^[ab]*a[ab]{{{1_000 + number}}}$"
    return ask_for_call({"type": "object", "properties": {"a": {"pattern": pattern}}})


def count_letters(number: int) -> Body:
    """Returns an expression of which a lexer learns with each token."""
    regex = rf"(\p{{L}}{{1,{100 + number}}}[\w-]{{0,300}}x){{1,40}}"
    return {"messages": [{"role": "user", "content": "hello"}], "regex": regex}


KINDS: dict[str, Callable[[int], Body]] = {
    "descriptions of 1 MiB": describe,
    "enums of 2,000 texts": enumerate_texts,
    "patterns that look back": look_back,
    "letters in counts": count_letters,
}


def send(model: Model, body: Body, seed: int) -> None:
    """Compiles a request, and walks a random turn through its grammar."""
    answer = RegexAnswer(body["regex"]) if "regex" in body else None
    choice = body.get("tool_choice", "auto")
    job = Job(body["messages"], body.get("tools", ()), choice, answer=answer)
    try:
        matcher = model.compile(job).make_input().matcher
    except Error:
        return
    draw = np.random.default_rng(seed)
    for _ in range(TOKENS if matcher is not None else 0):
        assert matcher is not None
        token = int(draw.choice(np.flatnonzero(matcher.mask())))
        if matcher.ends(token):
            return
        matcher.commit(token)


def measure() -> int:
    """Memory of this process, in bytes, without what malloc has free."""
    gc.collect()
    return_free_memory()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hoard(model: Model, kind: str, requests: int) -> None:
    """Sends so many, and prints what is kept."""
    before = measure()
    shown: list[str] = []
    for number in range(requests):
        send(model, KINDS[kind](number), number)
        if (number + 1) % (requests // 4) == 0:
            shown.append(f"{(measure() - before) / 1e6:.0f}")
    caches = {**model.metrics().caches, **measure_shared()}
    largest = sorted(caches, key=lambda name: -caches[name].bytes)[:3]
    kept = [f"{name} {caches[name].bytes / 1e6:.0f}" for name in largest]
    print(f"{kind:26} {', '.join(shown)} MB after each quarter; {', '.join(kept)}", flush=True)


def main() -> int:
    """Measures each kind in a child process."""
    parser = argparse.ArgumentParser(description="Requests that leave much behind.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=[*KINDS])
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown or options.requests < 4:
        parser.error(f"kinds are: {', '.join(KINDS)}; and there are 4 requests at least")
    bound_heap()
    failed = 0
    with load(embedded.PATH, threads=1) as model:
        _ = model.compiler.tokenizer
        for kind in options.kinds:
            child = os.fork()
            if child == 0:
                hoard(model, kind, options.requests)
                os._exit(0)
            failed |= os.waitpid(child, 0)[1]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
