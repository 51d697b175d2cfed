"""Forced tokens against decoding one by one: forward passes and time for the same text.

    python -m benchmarks.forced [-m MODEL.gguf] [--shape small|0.6b] [--dtype F16] [--repeats 3]

Both loops write the same call: its text is imposed by a sampler that always draws the next token of
it, so the figures do not depend on what a model with random weights would say. Times are those
after the prompt, medians of both loops run in turn. Without a model one is made: the vocabulary of
Qwen, random weights, in the small shape or that of Qwen3-0.6B.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType

from constrained.compiling import Job
from constrained.engine.llamacpp import LlamaEngine
from constrained.engine.protocol import Chunk, Sampling
from constrained.generation import Generation, Request, generate
from constrained.model import Model, load
from constrained.template import ChatTemplate
from examples.first_call import QUESTION, TOOLS
from examples.random_model import (
    MARKERS,
    QWEN3_0_6B,
    SMALL,
    read_vocabulary,
    template,
    vocabulary_file,
    with_markers,
    write_model,
)

CALLS = {
    "Qwen-Qwen3-0.6B": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", '
    '"day": "tomorrow", "unit": "celsius"}}\n</tool_call>',
    "Qwen3-Coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=day>\ntomorrow\n</parameter>\n<parameter=unit>\ncelsius\n</parameter>\n"
    "</function>\n</tool_call>",
}


class Imposed:
    """The engine, with a sampler that draws a given text."""

    def __init__(self, engine: LlamaEngine, tokens: Sequence[int]):
        self._engine = engine
        self._tokens = tokens
        self._at = 0
        self.prompt_seconds = 0.0

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        """Decodes; takes the time of the first one, which is the prompt's."""
        start = time.perf_counter()
        logits = self._engine.decode(chunks)
        self.prompt_seconds = self.prompt_seconds or time.perf_counter() - start
        return logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def sampler(self, sampling: Sampling) -> "Imposed":
        """Itself: it has one text to draw."""
        return self

    def sample(self, slot: int) -> int:
        """The next token of the text."""
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, token: int) -> None:
        """A forced token has to be the one that the text has there, too."""
        if token != self._tokens[self._at]:
            raise ValueError(f"forced token {token}, the text has {self._tokens[self._at]}")
        self._at += 1

    def close(self) -> None:
        """Leaves the engine open."""


def measure(model: Model, text: str, repeats: int) -> dict[bool, tuple[Generation, float]]:
    """With forced tokens and without: the generation, and its median ms after the prompt."""
    job = Job([{"role": "user", "content": QUESTION}], TOOLS, "required", parallel=False)
    turn = model.compile(job)
    assert turn.matcher is not None
    assert isinstance(model.engine, LlamaEngine)
    tokens = [*model.engine.vocabulary.encode_special(text), model.engine.vocabulary.end[0]]
    times: dict[bool, list[float]] = {True: [], False: []}
    results: dict[bool, Generation] = {}
    for _ in range(repeats + 1):  # the first one warms up
        for force in times:
            engine: Any = Imposed(model.engine, tokens)
            request = Request(turn.tokens, turn.matcher.fork(), turn.parser(), force=force)
            start = time.perf_counter()
            results[force] = generate(engine, [request])[0]
            seconds = time.perf_counter() - start - engine.prompt_seconds
            times[force].append(1000 * seconds)
    return {force: (results[force], statistics.median(times[force][1:])) for force in times}


def main() -> None:
    """Prints one line for each format."""
    parser = argparse.ArgumentParser(description="Forced tokens against one by one.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="small")
    parser.add_argument("--dtype", default="F16")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or _make(Path(folder) / "random.gguf", options.shape, options.dtype)
        heads = f"{'passes':>16}{'per token':>14}{'ms a token':>18}{'ratio':>8}"
        print(f"{'format':<14}{'tokens':>8}{heads}")
        for name, text in CALLS.items():
            with load(path) as loaded:
                model = Model(loaded.engine, ChatTemplate(template(name)))
                _print(model.compiler.format.name, measure(model, text, options.repeats))


def _make(path: Path, shape: str, dtype: str) -> Path:
    tokens = with_markers(read_vocabulary(vocabulary_file("qwen2")), MARKERS)
    return write_model(
        path,
        tokens,
        template("Qwen-Qwen3-0.6B"),
        shape=QWEN3_0_6B if shape == "0.6b" else SMALL,
        dtype=GGMLQuantizationType[dtype],
    )


def _print(name: str, results: dict[bool, tuple[Generation, float]]) -> None:
    (forced, quick), (single, slow) = results[True], results[False]
    assert forced.text == single.text
    count = len(forced.tokens)
    passes = f"{single.forward_passes} -> {forced.forward_passes}"
    per_token = f"{single.forward_passes / count:.2f} -> {forced.forward_passes / count:.2f}"
    times = f"{slow / count:.2f} -> {quick / count:.2f}"
    print(f"{name:<14}{count:>8}{passes:>16}{per_token:>14}{times:>18}{slow / quick:>7.2f}x")


if __name__ == "__main__":
    main()
