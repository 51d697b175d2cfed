"""Eight streams with tools at once, for minutes: nothing is lost, everything fits its schema.

    python -m benchmarks.load [-m MODEL.gguf] [--minutes 10] [--streams 8] [-t THREADS]

The server is a process of its own. Each stream asks about tools of the samples, one question after
the other; every reply has to end, and its calls have to fit. Meanwhile /health is requested five
times a second. At the end more requests come at once than may wait: each refusal has to say when to
try again. Exit code 1 if a reply is lost or does not fit, if memory grew by more than 2 % over the
second half, or if /health took 50 ms or more (95th percentile).
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.processes.served import Served, serve
from constrained import embedded

WORDS = "weather Paris tomorrow list open issues send mail convert nine miles please thanks".split()
WAITING = 16  # requests that may wait
CROWD = 64  # requests at once, in the end
CHAT = "/v1/chat/completions"
HEALTH_SECONDS, GROWTH, SLOWEST = 0.2, 0.02, 0.05


@dataclass
class Tally:
    """What was seen."""

    ends: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    health: list[float] = field(default_factory=list[float])
    memory: list[int] = field(default_factory=list[int])


def find_faults(calls: dict[int, dict[str, str]], tools: list[Any]) -> list[str]:
    """Returns what is wrong with the calls of a stream."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    faults = list[str]()
    for call in calls.values():
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            faults.append(f"no JSON: {call}")
            continue
        if call["name"] not in schemas:
            faults.append(f"no such tool: {call}")
        elif not jsonschema_rs.is_valid(schemas[call["name"]], arguments):
            faults.append(f"does not fit: {call}")
    return faults


async def ask(client: httpx.AsyncClient, body: Any, tally: Tally) -> None:
    """One request, read to its end."""
    calls: dict[int, dict[str, str]] = {}
    end, is_done = "lost", False
    async with client.stream("POST", CHAT, json=body) as response:
        if response.status_code != 200:
            tally.ends[f"status {response.status_code}"] += 1
            if response.status_code == 503 and "retry-after" not in response.headers:
                tally.faults.append("503 without Retry-After")
            return
        async for line in response.aiter_lines():
            is_done = is_done or line == "data: [DONE]"
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                end = f"error {chunk['error']['code']}"
            for choice in chunk.get("choices", ()):
                end = choice.get("finish_reason", end)
                _read_calls(choice["delta"], calls)
    tally.ends[end] += 1
    if not is_done and not end.startswith("error"):
        tally.faults.append("a stream without an end")
    tally.faults += find_faults(calls, body["tools"])


def _read_calls(delta: Any, calls: dict[int, dict[str, str]]) -> None:
    for part in delta.get("tool_calls", ()):
        call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
        call["name"] += part["function"].get("name", "")
        call["arguments"] += part["function"]["arguments"]


def draw_body(draw: random.Random, sets: list[Any]) -> Any:
    """Returns a request."""
    text = " ".join(draw.choices(WORDS, k=draw.randint(3, 60)))
    return {
        "messages": [{"role": "user", "content": text}],
        "tools": draw.choice(sets),
        "tool_choice": draw.choice(("auto", "required")),
        "max_tokens": draw.randint(64, 128),
        "seed": draw.randrange(999),
        "stream": True,
    }


async def stream(client: httpx.AsyncClient, sets: list[Any], seed: int, end: float, tally: Tally):
    """One question after the other."""
    draw = random.Random(seed)
    while time.monotonic() < end:
        await ask(client, draw_body(draw, sets), tally)


async def watch(client: httpx.AsyncClient, served: Served, end: float, tally: Tally) -> None:
    """Asks whether the server is well, and how much memory it has."""
    while time.monotonic() < end:
        started = time.perf_counter()
        (await client.get("/health")).raise_for_status()
        tally.health.append(time.perf_counter() - started)
        tally.memory.append(served.measure())
        await asyncio.sleep(HEALTH_SECONDS)


async def load(served: Served, sets: list[Any], minutes: float, streams: int) -> Tally:
    """Runs the whole load."""
    tally, end = Tally(), time.monotonic() + 60 * minutes
    limits = httpx.Limits(max_connections=200)
    async with (
        httpx.AsyncClient(base_url=served.url, timeout=600, limits=limits) as client,
        httpx.AsyncClient(base_url=served.url, timeout=60) as other,
    ):
        asking = [stream(client, sets, seed, end, tally) for seed in range(streams)]
        await asyncio.gather(watch(other, served, end, tally), *asking)
        crowd, draw = Tally(), random.Random(0)
        await asyncio.gather(*(ask(client, draw_body(draw, sets), crowd) for _ in range(CROWD)))
    print(f"{CROWD} at once, {WAITING} may wait:", dict(crowd.ends))
    tally.faults += crowd.faults
    if not crowd.ends["status 503"]:
        tally.faults.append("nobody was turned away")
    return tally


def judge(tally: Tally) -> int:
    """Prints what was seen; 1 if something is wrong."""
    memory = tally.memory
    half, last = memory[len(memory) // 2], statistics.median(memory[-20:])
    slowest = statistics.quantiles(tally.health, n=20)[-1]
    print(f"{sum(tally.ends.values())} replies:", dict(tally.ends))
    print(f"memory {last / 1e6:.1f} MB, over the second half {last / half - 1:+.2%}")
    middle = statistics.median(tally.health)
    print(f"/health: median {middle * 1e3:.1f} ms, 95th percentile {slowest * 1e3:.1f} ms")
    print(f"{len(tally.faults)} faults", *tally.faults[:10], sep="\n")
    return int(bool(tally.faults) or last / half - 1 > GROWTH or slowest >= SLOWEST)


def main() -> int:
    """Runs, and prints what was seen."""
    parser = argparse.ArgumentParser(description="Streams with tools, for minutes.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--tools", type=Path, nargs="*", default=sample_paths())
    options = parser.parse_args()
    sets = [row["tools"][:3] for row in read_rows(options.tools)][:40]
    arguments = ["-m", str(options.model), "-np", str(options.streams), "-c", "2048"]
    arguments += ["-t", str(options.threads), "--max-waiting", str(WAITING)]
    with serve([*arguments, "--log-level", "error", "--cache-ram", "32"]) as served:
        return judge(asyncio.run(load(served, sets, options.minutes, options.streams)))


if __name__ == "__main__":
    raise SystemExit(main())
