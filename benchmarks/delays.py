"""How long one request delays the tokens of another, whatever it asks for.

    python -m benchmarks.delays [MODEL] [--tokens 200]

A plain request streams on the decode thread that it shares with a second one: first with another
plain one, then with requests whose masks or endings are as costly as possible. Prints, for each:
its outcome, and the gaps between the tokens of the plain request, in ms: median, 99 of 100,
longest.
"""

import argparse
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from constrained import load
from constrained.engine.protocol import Sampling
from constrained.logits import TokenDrawn
from constrained.model.model import Model
from grammars.errors import Error

LETTERS = " | ".join(f'"{letter}"' for letter in "abcdefghijklmnopqrstuvwxyz ")


@dataclass(frozen=True)
class Form:
    """What a request asks its text to be: an expression, or a grammar."""

    regex: str | None = None
    grammar: str | None = None


ATTACKS: Mapping[str, Form] = {
    "plain text": Form(regex="(?s:.*)"),
    "(a|b)*a(a|b){1000}": Form(regex="(a|b)*a(a|b){1000}"),
    "[ab]*a[ab]{200}": Form(regex="[ab]*a[ab]{200}"),
    "(a?){40}a{40}": Form(regex="(a?){40}a{40}"),
    "(.*[aeiou].{3000}){2}": Form(regex="(.*[aeiou].{3000}){2}"),
    "a list of as, ambiguous": Form(grammar='start: x\nx: "a" | x x | x x x'),
    "letters, ambiguous": Form(grammar="start: x\nx: /[a-z ]/ | x x | x x x"),
    "literals, ambiguous": Form(grammar=f"start: x\nx: {LETTERS} | x x"),
    "a right-recursive list": Form(grammar='start: s\ns: /[a-z ]/ s | "a"'),
    "nested parts": Form(grammar="start: (x | y | z)*\nx: /[a-z]+/\ny: /[a-m ]+/\nz: x y | y x"),
}


def attack(model: Model, form: Form, tokens: int) -> str:
    """Sends a request for a text of this form."""
    try:
        model.generate(
            "Write a long text",
            regex=form.regex,
            grammar=form.grammar,
            max_tokens=tokens,
            sampling=Sampling(seed=1),
        )
    except Error as error:
        return type(error).__name__ + (f" at {error.where}" if error.where else "")
    return "done"


def time_gaps(model: Model, tokens: int) -> np.ndarray:
    """Returns the seconds between the tokens of a plain request."""
    times: list[float] = []
    sampling = Sampling(temperature=1.5, seed=2)
    for event in model.stream("Tell me all", max_tokens=tokens, sampling=sampling, logprobs=0):
        if isinstance(event, TokenDrawn):
            times.append(time.perf_counter())
    return np.diff(times) if len(times) > 1 else np.zeros(1)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="How long one request delays another.")
    parser.add_argument("model", nargs="?", default="demo")
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    print(f"{'beside':<28}{'median':>8}{'p99':>8}{'longest':>9}  outcome")
    with load(options.model, sequences=2) as model:
        for name, form in ATTACKS.items():
            outcomes: list[str] = []

            def run(form: Form = form, outcomes: list[str] = outcomes) -> None:
                outcomes.append(attack(model, form, options.tokens))

            thread = threading.Thread(target=run)
            thread.start()
            gaps = 1000 * time_gaps(model, options.tokens)
            while thread.is_alive():
                gaps = np.concatenate([gaps, 1000 * time_gaps(model, options.tokens)])
            thread.join()
            cells = (*np.percentile(gaps, [50, 99]), gaps.max())
            print(f"{name:<28}" + "{:>8.1f}{:>8.1f}{:>9.1f}".format(*cells) + f"  {outcomes[0]}")


if __name__ == "__main__":
    main()
