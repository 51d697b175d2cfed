"""What a draft model saves: the same turns without drafts, with copied ones, with those of a model.

    python -m benchmarks.drafting TARGET.gguf [DRAFT.gguf] [--tokens 200] [--repeats 3] [-t 2]
    python -m benchmarks.drafting TARGET.gguf [DRAFT.gguf] --clients 8

Both may be names of packaged models. Without DRAFT, it is TARGET itself in Q2_K, which llama.cpp
makes here. Greedy. Times are those after the prompt, medians, measured in turn; passes are decodes
of the target. `differ`: replies that are not the same; llama.cpp sums up decodes of several tokens
in another order, so that two tokens that are about as likely may change places.

With --clients, so many turns run at once; times are then those of all of them, their prompts
included, and `CPU` is the CPU time of the process. On a busy machine, that varies less.
"""

import argparse
import ctypes
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import llama_cpp

from benchmarks.copying import OFFERED, QUOTES
from constrained.engine.protocol import Sampling
from constrained.model.loading import load
from constrained.model.model import Model
from constrained.model_files.packaged import find_file
from constrained.reply import Reply

GREEDY = Sampling(temperature=0)
QUESTIONS = (
    "Why is the sky blue? Explain it to a child.",
    "Write a short story about a lighthouse keeper.",
    "How do I bake bread? List the steps.",
    "What is the difference between a list and a tuple in Python?",
)


@dataclass
class Sums:
    """What the turns of a group took, one way."""

    tokens: int = 0
    passes: int = 0
    milliseconds: float = 0.0
    cpu_milliseconds: float = 0.0  # with --clients
    drafted: int = 0
    accepted: int = 0
    texts: list[str] = field(default_factory=list[str])

    def add(self, reply: Reply, milliseconds: float) -> None:
        """Adds a turn."""
        self.tokens += reply.usage.completion_tokens
        self.passes += reply.usage.forward_passes
        self.milliseconds += milliseconds
        self.drafted += reply.usage.drafted_tokens
        self.accepted += reply.usage.accepted_tokens
        self.texts.append(reply.text)


def quantize(source: Path, target: Path) -> None:
    """Writes a model in Q2_K.

    Raises:
        RuntimeError: llama.cpp does not.
    """
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K
    params.allow_requantize = True
    code = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.pointer(params)
    )
    if code != 0:
        raise RuntimeError(f"{source} cannot be quantised: code {code}")


def ask(model: Model, group: str, number: int, tokens: int) -> tuple[Reply, float]:
    """A reply, and the milliseconds from its first event on."""
    if group == "answers":
        stream = model.stream(QUESTIONS[number], sampling=GREEDY, max_tokens=tokens)
    else:
        asked = QUOTES[number][0]
        options: dict[str, Any] = {"sampling": GREEDY, "max_tokens": tokens}
        stream = model.stream(asked, OFFERED, tool_choice="required", **options)
    first: float | None = None
    for _ in stream:
        if first is None:
            first = time.perf_counter()
    end = time.perf_counter()
    return stream.result, 1000 * (end - (first or end))


def ask_together(
    model: Model, group: str, clients: int, tokens: int
) -> tuple[list[Reply], float, float]:
    """The replies to several questions at once; their milliseconds, and those of CPU time."""
    count = len(QUESTIONS) if group == "answers" else len(QUOTES)
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask, model, group, n % count, tokens) for n in range(clients)]
        replies = [one.result()[0] for one in asked]
    return replies, 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)


def measure_together(
    models: Mapping[str, Model], group: str, options: argparse.Namespace
) -> dict[str, Sums]:
    """What a group takes each way, all turns at once."""
    sums = {way: Sums() for way in models}
    times: dict[str, list[float]] = {way: [] for way in models}
    cpu: dict[str, list[float]] = {way: [] for way in models}
    for repeat in range(options.repeats):
        for way, model in models.items():
            given = ask_together(model, group, options.clients, options.tokens)
            replies, milliseconds, cpu_milliseconds = given
            times[way].append(milliseconds)
            cpu[way].append(cpu_milliseconds)
            if repeat == 0:
                for reply in replies:
                    sums[way].add(reply, 0.0)
    for way in models:
        sums[way].milliseconds = statistics.median(times[way])
        sums[way].cpu_milliseconds = statistics.median(cpu[way])
    return sums


def measure(
    models: Mapping[str, Model], group: str, options: argparse.Namespace
) -> dict[str, Sums]:
    """What a group takes each way."""
    sums = {way: Sums() for way in models}
    count = len(QUESTIONS) if group == "answers" else len(QUOTES)
    for number in range(count):
        times: dict[str, list[float]] = {way: [] for way in models}
        replies: dict[str, Reply] = {}
        for _ in range(options.repeats):
            for way, model in models.items():
                replies[way], milliseconds = ask(model, group, number, options.tokens)
                times[way].append(milliseconds)
        for way, reply in replies.items():
            sums[way].add(reply, statistics.median(times[way]))
    return sums


def main() -> None:
    """Prints a line for each group and way."""
    parser = argparse.ArgumentParser(description="What a draft model saves.")
    parser.add_argument("target")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clients", type=int, default=1, help="turns at once")
    parser.add_argument("-t", "--threads", type=int)
    options = parser.parse_args()
    print(
        f"{'':<22}{'tokens':>8}{'passes':>8}{'ms':>9}{'ratio':>8}{'drafted':>9}{'right':>7}"
        f"{'differ':>8}{'CPU':>9}"
    )
    with TemporaryDirectory() as folder:
        draft = options.draft
        if draft is None:
            draft = Path(folder) / "draft.gguf"
            quantize(find_file(options.target), draft)
        given = {
            "threads": options.threads,
            "context_length": 2048,
            "sequences": options.clients,
        }
        with (
            load(options.target, draft=False, **given) as plain,
            load(options.target, **given) as copying,
            load(options.target, draft_model=draft, **given) as drafting,
        ):
            models = {"plain": plain, "copied": copying, "draft model": drafting}
            for group in ("answers", "calls"):
                measuring = measure if options.clients == 1 else measure_together
                sums = measuring(models, group, options)
                for way in models:
                    _print(f"{group}, {way}", sums[way], sums["plain"])


def _print(name: str, sums: Sums, plain: Sums) -> None:
    differ = sum(ours != theirs for ours, theirs in zip(sums.texts, plain.texts, strict=True))
    print(
        f"{name:<22}{sums.tokens:>8}{sums.passes:>8}{sums.milliseconds:>9.0f}"
        f"{plain.milliseconds / sums.milliseconds:>7.2f}x{sums.drafted:>9}{sums.accepted:>7}"
        f"{differ:>8}{sums.cpu_milliseconds:>9.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
