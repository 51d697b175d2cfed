"""Kills the replicas of a cluster under load, one after the other: do all streams survive?

    python -m benchmarks.cluster_kills [--kills 50] [--replicas 2] [--streams 6] [--seed 1]

Needs the extra `ray`. The cluster runs on this machine, with the demo model. `--streams` streams
run all the time: two of three count up to 150, so that each gap and each repetition shows, the
others are calls that have to fit their schema. SIGKILL ends a random replica; the next one is
killed when a new replica has replaced it. Prints what was lost, repeated or invalid, and how many
streams another replica has continued. Exit code 1 if a stream was lost, repeated or invalid.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from jsonschema import Draft202012Validator

from tests.cluster.counted_streams import COUNTED, CountedStream, count_request, follow
from tests.cluster.running_cluster import RunningCluster, run_cluster

BACK_SECONDS = 300.0
"""So long may a replica take to be back."""
SETTLING_SECONDS = 3.0
"""From the weights in memory until the replica has requests; it has them at the latest then."""
WAIT = (0.5, 4.0)  # seconds of load in front of each kill, drawn between these
BOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 40},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "guests": {
            "type": "array",
            "minItems": 6,
            "maxItems": 12,
            "items": {"enum": ["Ada", "Grace", "Edsger", "Barbara", "Donald"]},
        },
    },
    "required": ["city", "nights", "guests"],
    "additionalProperties": False,
}


@dataclass
class Tally:
    """What became of the streams.

    Attributes:
        whole: streams that were right, to their end.
        lost: the error of each that had none, or no end.
        doubled: the text of each that has a gap or a double.
        invalid: the arguments of each call that does not fit.
        resumed: streams that another replica has gone on with.
        places: how often one did.
        pauses: seconds without a chunk, of each stream that was resumed.
        others: the same, of the others.
        back: seconds until another replica was there.
    """

    whole: int = 0
    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    invalid: list[str] = field(default_factory=list[str])
    resumed: int = 0
    places: int = 0
    pauses: list[float] = field(default_factory=list[float])
    others: list[float] = field(default_factory=list[float])
    back: list[float] = field(default_factory=list[float])

    @property
    def is_clean(self) -> bool:
        """True if no client has noticed anything but a pause."""
        return not (self.lost or self.doubled or self.invalid)

    def add(self, stream: CountedStream, problem: str | None) -> None:
        """Counts a stream in.

        Args:
            stream: that is over.
            problem: its arguments, if they do not fit; None: it counts, or they do.
        """
        if stream.error is not None or not stream.is_ended:
            self.lost.append(stream.error or "it has no end")
            print(f"lost: {self.lost[-1][:300]}; resumed: {stream.resumed}", flush=True)
        elif problem is not None:
            self.invalid.append(problem)
        elif stream.text and not re.fullmatch(COUNTED, stream.text):
            self.doubled.append(stream.text)
        else:
            self.whole += 1
        if stream.resumed:
            self.resumed += 1
            self.places += len(stream.resumed)
            self.pauses.append(stream.longest_pause)
        else:
            self.others.append(stream.longest_pause)


def book_request(number: int) -> dict[str, Any]:
    """Returns the body of a request for a call."""
    function = {"name": "book", "description": "Books a hotel", "parameters": BOOKING}
    return {
        "model": "demo",
        "messages": [{"role": "user", "content": f"Book a hotel in Paris for guest {number}."}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "max_tokens": 300,
        "seed": number,
        "stream": True,
    }


def find_problem(arguments: list[str]) -> str | None:
    """Returns the arguments of the calls of a reply, if there are none or they do not fit."""
    try:
        read = [json.loads(text) for text in arguments]
    except ValueError:
        return repr(arguments)
    fits = [Draft202012Validator(BOOKING).is_valid(one) for one in read]
    return None if fits and all(fits) else repr(arguments)


async def ask_all_the_time(
    client: httpx.AsyncClient, worker: int, tally: Tally, is_over: asyncio.Event
) -> None:
    """One stream after the other, until it is over."""
    number = worker
    while not is_over.is_set():
        number += 1_000
        is_counted = (number // 1_000 + worker) % 3 > 0
        body = count_request(number) if is_counted else book_request(number)
        try:
            stream = await follow(client, body, lambda chunks: None)
        except httpx.HTTPError as error:
            stream = CountedStream(error=f"{type(error).__name__}: {error}")
        problem = None if is_counted else find_problem(stream.arguments)
        if is_counted and not stream.text and stream.is_ended:
            stream.error = "it has no text"
        tally.add(stream, problem)


async def kill_all_the_time(
    cluster: RunningCluster, tally: Tally, kills: int, replicas: int, chance: random.Random
) -> None:
    """SIGKILL, and again once the replica is back."""
    for number in range(kills):
        await asyncio.sleep(chance.uniform(*WAIT))
        victim = chance.choice(await _find_loaded(cluster, replicas))
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        await asyncio.sleep(0.5)
        await _find_loaded(cluster, replicas)
        tally.back.append(time.monotonic() - began)
        await asyncio.sleep(SETTLING_SECONDS)
        print(
            f"{number + 1} killed; {tally.whole} streams whole, {tally.resumed} resumed, "
            f"{len(tally.lost)} lost, {len(tally.doubled)} doubled, {len(tally.invalid)} invalid",
            flush=True,
        )


async def _find_loaded(cluster: RunningCluster, replicas: int) -> list[int]:
    end = time.monotonic() + BACK_SECONDS
    while time.monotonic() < end:
        found = await asyncio.to_thread(cluster.find_replicas, loaded=True)
        if len(found) >= replicas:
            return found
        await asyncio.sleep(0.25)
    raise RuntimeError(f"no other replica came in {BACK_SECONDS:.0f} s")


async def run(cluster: RunningCluster, options: argparse.Namespace) -> Tally:
    """Kills the replicas, under load."""
    tally, is_over = Tally(), asyncio.Event()
    limits = httpx.Limits(max_connections=None)
    timeout = httpx.Timeout(300)
    async with httpx.AsyncClient(base_url=cluster.url, timeout=timeout, limits=limits) as client:
        asking: list[asyncio.Task[None]] = []
        for worker in range(options.streams):
            task = ask_all_the_time(client, worker, tally, is_over)
            asking.append(asyncio.create_task(task))
        try:
            await kill_all_the_time(
                cluster, tally, options.kills, options.replicas, random.Random(options.seed)
            )
        finally:
            is_over.set()
            await asyncio.gather(*asking)
    return tally


def show(tally: Tally, kills: int) -> str:
    """Returns the figures."""
    streams = tally.whole + len(tally.lost) + len(tally.doubled) + len(tally.invalid)
    lines = [
        f"{kills} kills, {streams} streams: {len(tally.lost)} lost, {len(tally.doubled)} with a "
        f"gap or a double, {len(tally.invalid)} with an invalid call; {tally.resumed} were "
        f"resumed, at {tally.places} places"
    ]
    for name, values in (
        ("another replica was there after", tally.back),
        ("longest pause of a stream that was resumed", tally.pauses),
        ("longest pause of the others", tally.others),
    ):
        if values:
            median, most = np.median(values), max(values)
            lines.append(f"{name}: {median:.1f} s (median), {most:.1f} s (most)")
    for problem in (*tally.lost, *tally.doubled, *tally.invalid)[:5]:
        lines.append(f"  {problem[:300]}")
    return "\n".join(lines)


def main() -> None:
    """Runs, and prints."""
    parser = argparse.ArgumentParser(description="Kills replicas of a cluster under load.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--streams", type=int, default=6, help="at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    words = ("-np", "4", "-c", "4096", "--replicas", str(options.replicas))
    with run_cluster(*words) as cluster:
        tally = asyncio.run(run(cluster, options))
    print(show(tally, options.kills))
    sys.exit(0 if tally.is_clean else 1)


if __name__ == "__main__":
    main()
