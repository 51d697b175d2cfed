"""Eight calls at once, and the time that is spent outside of the model.

    python -m benchmarks.together [-m MODEL.gguf] [--shape small|0.6b] [--dtype Q8_0] [--repeats 3]

Tokens a second after the prompts are read: one sequence without a grammar, eight without, eight
under the grammar token by token, and eight with the tokens that it forces decoded together. The
text is imposed, as in `benchmarks.forced`: a short call each, with another city. Then the part of
the time that is spent outside of llama.cpp's decode (masks, samplers, parser, Python), and the
memory of a sequence. Medians of runs in turn.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.forced import ImposedSampler, ask, make_model
from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.engine.protocol import Chunk, Sampling
from constrained.model.loading import load
from constrained.model.model import Model
from grammars.turn import KeyOrder
from tests.generation import generate

CITIES = ("Paris", "London", "Berlin", "Madrid", "Rome", "Vienna", "Oslo", "Athens")
CALL = (
    '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}", "day": "tomorrow", '
    '"unit": "celsius"}}}}\n</tool_call>'
)
LOOPS = ("one, unconstrained", "eight, unconstrained", "eight, masks", "eight, forced")


class Chorus:
    """An engine whose samplers each draw a text of their own, after llama.cpp's chain has run.

    Attributes:
        reading: seconds of decodes that read prompts.
        decoding: seconds of the others.
    """

    def __init__(self, engine: Any, texts: Sequence[Sequence[int]]):
        self._engine = engine
        self._texts = [*texts]
        self.reading = self.decoding = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Decodes, and takes the time."""
        start = time.perf_counter()
        logits = self._engine.decode(chunks)
        seconds = time.perf_counter() - start
        if any(chunk.position == 0 or not chunk.wanted for chunk in chunks):
            self.reading += seconds
        else:
            self.decoding += seconds
        return logits

    def sampler(self, sampling: Sampling) -> ImposedSampler:
        """Returns a sampler that draws the next of the texts."""
        return ImposedSampler(self._engine.sampler(sampling), self._texts.pop(0))


@dataclass(frozen=True)
class Run:
    """Tokens a second after the prompts, and the part of that time outside of decodes."""

    rate: float
    outside: float


def run(model: Model, loop: str) -> Run:
    """Runs one of the loops."""
    turn, vocabulary = model.compile(ask(KeyOrder.SCHEMA)), model.engine.vocabulary
    cities = CITIES[:1] if loop.startswith("one") else CITIES
    texts = [[*vocabulary.encode_special(CALL.format(city)), vocabulary.end[0]] for city in cities]
    engine, requests = Chorus(model.engine, texts), list[Request]()
    for _ in cities:
        matcher = None
        if turn.matcher and not loop.endswith("unconstrained"):
            matcher = turn.matcher.fork()
        force = loop.endswith("forced")
        options = DecodeOptions(sampling=Sampling(seed=0), force=force, draft=False)
        requests.append(Request(DecodeInput(turn.tokens, turn.make_parser, matcher), options))
    start = time.perf_counter()
    stage: Any = engine  # what it does not have is the engine's
    made = generate(stage, requests)
    seconds = time.perf_counter() - start - engine.reading
    return Run(sum(len(m.tokens) for m in made) / seconds, 1 - engine.decoding / seconds)


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description="Eight calls at once.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", default="small")
    parser.add_argument("--dtype", default="Q8_0")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        made = Path(folder) / "model.gguf"
        path = options.model or make_model(made, options.shape, options.dtype)
        with load(path, sequences=len(CITIES), context_length=2048, draft=False) as model:
            runs = {loop: list[Run]() for loop in LOOPS}
            for _ in range(options.repeats):
                for loop, kept in runs.items():
                    kept.append(run(model, loop))
            tokens = model.compile(ask(KeyOrder.SCHEMA)).tokens
            engine: Any = model.engine
            engine.decode([Chunk(0, tokens, 0)])
            size = engine.state_size(0) / len(tokens)
            length = engine.context_length
    for loop, kept in runs.items():
        rate = statistics.median(r.rate for r in kept)
        outside = statistics.median(r.outside for r in kept)
        print(f"{loop:<22}{rate:8.1f} tokens/s   outside of decode {outside:6.1%}")
    whole = size * length / 1e6
    print(f"a token of context takes {size / 1e3:.1f} kB, a sequence of {length} {whole:.1f} MB")


if __name__ == "__main__":
    main()
