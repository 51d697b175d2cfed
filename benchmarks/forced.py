"""The cost of the grammar and the time that forced tokens save: three loops that write the same
text.

    python -m benchmarks.forced [-m MODEL.gguf] [--shape small|0.6b] [--dtype F16 [Q8_0 ...]]
                                [--repeats 3] [--key-order any schema]

unconstrained: the sampler chain of llama.cpp alone; masks: token by token under the grammar;
forced: under the grammar, with the tokens that it forces decoded together. The text of each call is
imposed by a sampler that runs the chain and then draws the next token of the text, so the figures
do not depend on what a model with random weights would write. Times are those after the prompt,
medians of the loops run in turn. Without a model one is made: the vocabulary of Qwen, random
weights, in the small shape or that of Qwen3-0.6B.
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
from gguf import GGMLQuantizationType

from constrained.decode.request import DecodeInput, DecodeOptions, Generation, Request
from constrained.engine.llamacpp import LlamaEngine
from constrained.engine.protocol import Chunk, Sampler, Sampling
from constrained.job import Job
from constrained.mask.matcher import Matcher
from constrained.model.loading import load
from constrained.model.model import Model
from constrained.template.chat_template import ChatTemplate
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
from grammars.turn import KeyOrder
from tests.generation import generate

NOTE = (
    "Take the red umbrella and the warm coat; the ferry leaves at half past seven from the old "
    "harbour, and the tickets are in the left pocket of the blue bag, next to the map of the city."
)
WRITE = {
    "name": "send_note",
    "description": "Send a note to somebody",
    "input_schema": {
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "text": {"type": "string"},
            "urgent": {"type": "boolean"},
        },
        "required": ["to", "text", "urgent"],
    },
}
TEMPLATES = {"hermes": "Qwen-Qwen3-0.6B", "qwen3_coder": "Qwen3-Coder"}
CALLS = {
    ("hermes", "short"): '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", '
    '"day": "tomorrow", "unit": "celsius"}}\n</tool_call>',
    ("hermes", "long"): '<tool_call>\n{"name": "send_note", "arguments": {"to": "Anna", "text": '
    f'"{NOTE}", "urgent": true}}}}\n</tool_call>',
    ("qwen3_coder", "short"): "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n"
    "</parameter>\n<parameter=day>\ntomorrow\n</parameter>\n<parameter=unit>\ncelsius\n"
    "</parameter>\n</function>\n</tool_call>",
    ("qwen3_coder", "long"): "<tool_call>\n<function=send_note>\n<parameter=to>\nAnna\n"
    f"</parameter>\n<parameter=text>\n{NOTE}\n</parameter>\n<parameter=urgent>\nTrue\n"
    "</parameter>\n</function>\n</tool_call>",
}
LOOPS = ("unconstrained", "masks", "forced")


class ImposedSampler:
    """Runs llama.cpp's chain, and then draws the next token of a given text."""

    def __init__(self, chain: Sampler, tokens: Sequence[int]):
        self._chain = chain
        self._tokens = tokens
        self._at = 0

    def sample(self, slot: int) -> int:
        """Returns the next token of the text; the chain runs for the time that it takes."""
        self._chain.sample(slot)
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, token: int) -> None:
        """A forced token has to be the one that the text has there, too."""
        if token != self._tokens[self._at]:
            raise ValueError(f"forced token {token}, the text has {self._tokens[self._at]}")
        self._at += 1
        self._chain.accept(token)

    def close(self) -> None:
        """Frees the chain."""
        self._chain.close()


class Imposed:
    """The engine, with a sampler that draws a given text, after llama.cpp's chain has run.

    Attributes:
        prompt_seconds: how long the prompt took.
        sizes: of the decodes after that, in tokens.
    """

    def __init__(self, engine: LlamaEngine, tokens: Sequence[int]):
        self._engine = engine
        self._tokens = tokens
        self.prompt_seconds = 0.0
        self.sizes = list[int]()
        self._is_reading = True

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Decodes; takes the time of the prompt, up to the first logits that are wanted."""
        start = time.perf_counter()
        logits = self._engine.decode(chunks)
        if self._is_reading:
            self.prompt_seconds += time.perf_counter() - start
            self._is_reading = not logits
        else:
            self.sizes.append(sum(len(chunk.tokens) for chunk in chunks))
        return logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def sampler(self, sampling: Sampling) -> ImposedSampler:
        """Returns a sampler that draws the text."""
        return ImposedSampler(self._engine.sampler(Sampling(seed=0)), self._tokens)


@dataclass(frozen=True)
class Measured:
    """A loop: what it wrote, and the median of its ms after the prompt."""

    generation: Generation
    milliseconds: float


def ask(order: KeyOrder) -> Job:
    """Returns what is asked of the model: one call."""
    question = [{"role": "user", "content": QUESTION}]
    return Job(question, [*TOOLS, WRITE], "required", parallel=False, key_order=order)


def measure(model: Model, text: str, repeats: int, order: KeyOrder) -> dict[str, Measured]:
    """Measures the three loops on one text."""
    turn = model.compile(ask(order))
    assert turn.matcher is not None
    assert isinstance(model.engine, LlamaEngine)
    tokens = [*model.engine.vocabulary.encode_special(text), model.engine.vocabulary.end[0]]
    times: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    results: dict[str, Generation] = {}
    for _ in range(repeats + 1):  # the first one warms up
        for loop in LOOPS:
            engine: Any = Imposed(model.engine, tokens)
            matcher = turn.matcher.fork() if loop != "unconstrained" else None
            force = loop == "forced"
            input = DecodeInput(turn.tokens, turn.make_parser, matcher)
            request = Request(input, DecodeOptions(force=force, draft=False))
            start = time.perf_counter()
            results[loop] = generate(engine, [request])[0]
            seconds = time.perf_counter() - start - engine.prompt_seconds
            times[loop].append(1000 * seconds)
    return {n: Measured(results[n], statistics.median(times[n][1:])) for n in LOOPS}


def time_masks(model: Model, text: str, order: KeyOrder) -> float:
    """Returns the median of ms that masks, their application and commits take for one token."""
    matcher = model.compile(ask(order)).matcher
    assert matcher is not None
    tokens = model.engine.vocabulary.encode_special(text)
    logits = np.zeros(len(model.engine.vocabulary.tokens), np.float32)
    seconds: list[float] = []
    for _ in range(5):
        seconds += _time_tokens(matcher.fork(), tokens, logits)
    return 1000 * statistics.median(seconds)


def _time_tokens(matcher: Matcher, tokens: Sequence[int], logits: np.ndarray) -> list[float]:
    times: list[float] = []
    for token in tokens:
        start = time.perf_counter()
        matcher.apply(logits)
        matcher.commit(token)
        matcher.forced()
        times.append(time.perf_counter() - start)
    return times


def main() -> None:
    """Prints a table for each format of the weights."""
    parser = argparse.ArgumentParser(description="What masks cost and forced tokens save.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"), default="small")
    parser.add_argument("--dtype", nargs="+", default=["F16"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--key-order", nargs="+", choices=tuple(KeyOrder), default=tuple(KeyOrder))
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        for dtype in options.dtype if not options.model else ["as in the file"]:
            path = options.model or make_model(Path(folder) / "random.gguf", options.shape, dtype)
            for order in options.key_order:
                _measure_all(path, dtype, options.repeats, KeyOrder(order))


def _measure_all(path: Path, dtype: str, repeats: int, order: KeyOrder) -> None:
    print(f"{dtype}, keys in {order} order: ms a token after the prompt (forward passes a token)")
    columns = "".join(f"{loop:>22}" for loop in LOOPS)
    print(f"{'call':<22}{'tokens':>7}{columns}{'masks/un':>10}{'un/forced':>10}{'mask ms':>9}")
    for (format, size), text in CALLS.items():
        with load(path) as loaded:
            model = Model(loaded.engine, ChatTemplate(template(TEMPLATES[format])))
            results = measure(model, text, repeats, order)
            _print(f"{format}, {size}", results, time_masks(model, text, order))


def make_model(path: Path, shape: str, dtype: str) -> Path:
    """Writes a model with random weights, small or in the shape of Qwen3-0.6B."""
    tokens = with_markers(read_vocabulary(vocabulary_file("qwen2")), MARKERS)
    return write_model(
        path,
        tokens,
        template("Qwen-Qwen3-0.6B"),
        shape=QWEN3_0_6B if shape == "0.6b" else SMALL,
        dtype=GGMLQuantizationType[dtype],
    )


def _print(name: str, results: dict[str, Measured], mask: float) -> None:
    texts = {m.generation.text for m in results.values()}
    assert len(texts) == 1
    cells = ""
    for measured in results.values():
        count = len(measured.generation.tokens)
        passes = measured.generation.usage.forward_passes / count
        cells += f"{measured.milliseconds / count:>14.2f} ({passes:.2f})"
    un, masks, forced = (results[loop].milliseconds for loop in LOOPS)
    count = len(results["forced"].generation.tokens)
    ratios = f"{masks / un:>10.3f}{un / forced:>9.2f}x{mask:>9.2f}"
    print(f"{name:<22}{count:>7}{cells}{ratios}")


if __name__ == "__main__":
    main()
