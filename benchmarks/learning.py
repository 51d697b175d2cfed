"""The memory that llguidance uses for a grammar, and that its lexer adds with each mask.

    python -m benchmarks.learning [-m MODEL.gguf] [--turns 40]

llguidance does not report it, so each grammar is compiled in its own process, random turns go
through it, and the memory in use according to malloc is read before and after.
`constrained/mask.py` weighs grammars by such figures: a mask of known states has few bytes, one
that takes longer makes new states.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

from constrained import embedded, load
from constrained.engine.host import bound_heap, measure_heap
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher
from constrained.vocabulary.vocabulary import Tokenizer

TOKENS = 150  # of a turn
GRAMMARS = {
    "a string": r"start: /[^\n]*/",
    "words": r"start: /([a-z]{1,9} ){2,8}x/",
    "a long bound": r"start: /(?s:.{10,90000})/",
    "letters in counts": r"start: /(\p{L}{1,200}[\w-]{0,300}x){1,40}/",
    "alternatives that overlap": r"start: /((\w+ ){1,60}|(\d+\w* ){1,50}|.{3,300}z)/",
    "three that look back": r"start: /(.*a.{40}b|.*c.{30}d|[^e]*e.{50}f)/",
    "a bound of 10^9": r"start: /[a-z]{1,1000000000}/",
}


def read_used() -> int:
    """Returns the bytes that malloc has in use."""
    heap = measure_heap()
    if heap is None:
        sys.exit("this needs glibc 2.33 or later")
    return heap.used


def walk(matcher: Matcher, seed: int) -> tuple[int, float]:
    """Returns a random turn: its masks, and the seconds that they took."""
    draw = np.random.default_rng(seed)
    seconds = 0.0
    for number in range(TOKENS):
        began = time.thread_time()
        matcher.prepare()
        seconds += time.thread_time() - began
        token = int(draw.choice(np.flatnonzero(matcher.mask())))
        if matcher.ends(token):
            return number + 1, seconds
        matcher.commit(token)
    return TOKENS, seconds


def measure(name: str, grammar: str, tokenizer: Tokenizer, turns: int) -> None:
    """Prints what a grammar takes."""
    before = read_used()
    try:
        matcher = Matcher.compile(tokenizer, grammar)
    except GrammarError as error:
        print(f"{name:26} refused: {error}")
        return
    compiled, estimated = read_used(), matcher.measure()
    masks, seconds, failure = 0, 0.0, ""
    for seed in range(turns):
        try:
            count, took = walk(matcher.fork(), seed)
        except GrammarError as error:
            failure = f"; {error.message}"
            break
        masks, seconds = masks + count, seconds + took
    learnt, guess = read_used() - compiled, matcher.measure() - estimated
    print(
        f"{name:26} {(compiled - before) / 1e3:7.0f} kB, taken for {estimated / 1e3:5.0f}; "
        f"{masks:5} masks in {seconds * 1e3:6.0f} ms: {learnt / 1e6:6.1f} MB, "
        f"taken for {guess / 1e6:6.1f}{failure}",
        flush=True,
    )


def main() -> None:
    """Measures all of them, each in a child process."""
    parser = argparse.ArgumentParser(description="What lexers learn.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    bound_heap()
    with load(options.model, threads=1) as model:
        tokenizer = model.compiler.tokenizer
        for name, grammar in GRAMMARS.items():
            child = os.fork()
            if child == 0:
                measure(name, grammar, tokenizer, options.turns)
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
