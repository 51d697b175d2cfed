"""The shortest completion of a text before, and inside, a choice of thousands of options.

    python -m benchmarks.large_choices [--options 3000]

Prints, for an enumeration and for an object with `--options` values or properties, the CPU
milliseconds of the thread: for compiling once, and for the slowest completion of a growing text.
"""

import argparse
import random
import time
from collections.abc import Sequence
from typing import Any

from grammars.build.values import Values
from grammars.ir.completion import Completer
from grammars.ir.grammar import GrammarBuilder
from grammars.lowering.lower import lower


def measure(schema: Any, texts: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of the completer of a schema, and of its slowest completion."""
    lowered, builder = lower(schema), GrammarBuilder()
    value = Values(builder).value(lowered.node, lowered.definitions)
    grammar = builder.build(value)
    began = time.thread_time()
    completer = Completer(grammar).fork()
    made, looks = time.thread_time() - began, list[float]()
    for text in texts:
        began = time.thread_time()
        assert completer.complete(text) is not None
        looks.append(time.thread_time() - began)
    return 1e3 * made, 1e3 * max(looks)


def main() -> None:
    """Prints a row for each schema."""
    parser = argparse.ArgumentParser(description="What completions beside large choices cost.")
    parser.add_argument("--options", type=int, default=3_000)
    count = parser.parse_args().options
    rng = random.Random(0)
    words = [f"{rng.getrandbits(64):016x}" for _ in range(count)]
    values = {"type": "object", "properties": {"a": {"enum": words}}, "required": ["a"]}
    properties = {f"p{number}": {"type": "string"} for number in range(count)}
    keys = {"type": "object", "properties": properties}
    begun = [words[0][:size] for size in (0, 1, 2, 5)]
    rows = (
        ("enumeration", values, ["", *(f'{{"a": "{text}' for text in begun)]),
        ("properties", keys, ["", "{", '{"p1', '{"p1": "x", "', '{"p1": "x", "p2']),
    )
    for name, schema, texts in rows:
        made, slowest = measure(schema, texts)
        print(f"{name:12} of {count:,}: once {made:6.1f} ms, then at most {slowest:6.1f} ms a look")


if __name__ == "__main__":
    main()
