"""A server under mixed load with attackers: nothing is lost, nothing stays in use, memory is flat.

    python -m benchmarks.siege [--minutes 60] [--keys 10] [--cache-memory 32]

Ten clients with a key each ask for one thing after the other: replies, calls, streams. One request
in twenty is an attack (`benchmarks.attacks`), of one in twenty the client leaves in the middle.
Half of the others have tools that nobody has sent before, so that grammars come and go.
Printed are the answers by kind with their latencies, and each tenth of the time what could leak:
memory, descriptors and threads of the server, and what its caches hold. These have little room, so
that they are full before the second half.

At the start, in the middle and at the end nobody asks for a while, and the memory of the server is
read before and after it collects garbage and returns free memory to the system. What grows over the
second half, and is neither free then nor in a cache, counts as a leak. Exit code 1 if that is more
than 5 %, if an answer is status 500, none at all, or a call that does not fit its schema, or if a
turn runs or waits while nobody asks.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import httpx

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.fields import FIELDS
from benchmarks.attacks.grammars import GRAMMARS
from benchmarks.attacks.lengths import LENGTHS
from benchmarks.attacks.schemas import ATTACKS
from benchmarks.attacks.ways import WAYS
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.processes.served import Served, serve
from constrained.inspect.evaluation.rows import fits
from constrained.inspect.evaluation.ways import read_calls

SECONDS = 120.0  # a request that takes longer is lost
HOSTILE, LEAVING = 0.05, 0.05
NEW = 0.5  # of the requests have tools of their own
LARGEST = 4 << 20  # bytes of an attack: larger ones would keep this very process busy
GROWTH = 0.05
PARTS = 5  # of each half: the times at which memory is printed
QUIET = 15.0  # seconds until requests whose clients have left, and idle processes, have ended
KEPT = r"cache_bytes\{.*\}|memory_bytes"
CHAT = "/v1/chat/completions"
WORDS = "weather Paris tomorrow list open issues send mail convert nine miles please thanks".split()
Attacks = list[tuple[Attack, str]]
"""The hostile requests, with their bodies as JSON."""


@dataclass
class Tally:
    """The answers so far."""

    statuses: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict[str, Counter[str]](Counter)
    )
    seconds: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict[str, list[float]](list)
    )
    faults: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, status: str, seconds: float, fault: str = "") -> None:
        """A request is over."""
        with self.lock:
            self.statuses[kind][status] += 1
            self.seconds[kind].append(seconds)
            if fault:
                self.faults.append(f"{kind}: {fault}")


class Client:
    """One key, whose requests follow each other until the time is over.

    Args:
        url: of the server.
        key: the number of its API key.
        seed: decides what it asks for.
        attacks: the hostile requests.
        sets: sets of tools.
    """

    def __init__(self, url: str, key: int, seed: int, attacks: Attacks, sets: list[list[Any]]):
        self._draw = random.Random(seed)
        self._attacks = attacks
        self._sets = sets
        headers = {"Authorization": f"Bearer key-{key}", "Content-Type": "application/json"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=SECONDS)
        self._asked = ""

    def run(self, tally: Tally, end: float) -> None:
        """Asks until then, by the monotonic clock."""
        with self._http:
            while time.monotonic() < end:
                began = time.monotonic()
                try:
                    kind, status, fault = self._ask()
                except httpx.HTTPError as error:
                    kind, status, fault = self._asked, "lost", repr(error)
                tally.note(kind, status, time.monotonic() - began, fault)

    def _ask(self) -> tuple[str, str, str]:
        """Sends one request; returns its kind, its status, and what is wrong with the answer."""
        chance = self._draw.random()
        if chance < HOSTILE:
            attack, content = self._draw.choice(self._attacks)
            self._asked = attack.name
            response = self._http.post(attack.path, content=content)
            fault = "" if response.status_code in attack.statuses else attack.name
            if response.status_code == 503:  # there is a queue, and it is full
                fault = ""
            return "attack", str(response.status_code), fault
        body = self._make_body()
        self._asked = "request"
        if chance < HOSTILE + LEAVING:
            return self._leave(body)
        if self._draw.random() < 0.3:
            return self._stream(body)
        response = self._http.post(CHAT, json=body)
        fault = ""
        if response.status_code == 200:
            fault = find_fault(response.json(), body["tools"])
        elif response.status_code == 500:
            fault = response.text
        return "whole", str(response.status_code), fault

    def _make_body(self) -> dict[str, Any]:
        tools = self._draw.choice(self._sets)
        if self._draw.random() < NEW:
            tools = rename(tools, f"_{self._draw.getrandbits(32):x}")
        text = " ".join(self._draw.choices(WORDS, k=self._draw.randint(3, 30)))
        return {
            "messages": [{"role": "user", "content": text}],
            "tools": tools,
            "tool_choice": self._draw.choice(("auto", "auto", "required")),
            "max_tokens": 200,
            "seed": self._draw.randrange(1_000),
        }

    def _stream(self, body: dict[str, Any]) -> tuple[str, str, str]:
        with self._http.stream("POST", CHAT, json={**body, "stream": True}) as response:
            text = response.read().decode()
        is_whole = response.status_code != 200 or text.rstrip().endswith("data: [DONE]")
        return "stream", str(response.status_code), "" if is_whole else "a cut stream"

    def _leave(self, body: dict[str, Any]) -> tuple[str, str, str]:
        most = self._draw.randint(1, 4)
        with self._http.stream("POST", CHAT, json={**body, "stream": True}) as response:
            for number, _ in enumerate(response.iter_lines()):
                if number >= most:
                    break
        return "leaves", str(response.status_code), ""


def rename(tools: list[Any], mark: str) -> list[Any]:
    """Returns the same tools, with a mark after each name."""
    return [
        tool | {"function": tool["function"] | {"name": tool["function"]["name"][:50] + mark}}
        for tool in tools
    ]


def find_fault(reply: dict[str, Any], tools: list[Any]) -> str:
    """Returns what is wrong with the calls of a reply; "" if nothing is."""
    said = reply["choices"][0]["message"].get("tool_calls", ())
    calls = read_calls(said)
    return "" if all(fits(call, tools) for call in calls) else f"{said}"


def add_figures(served: Served, pattern: str) -> float:
    """The sum of those of the server's own metrics whose names fit a regular expression."""
    headers = {"Authorization": "Bearer key-0"}
    text = httpx.get(f"{served.url}/metrics", headers=headers, timeout=SECONDS).text
    found = re.findall(rf"^constrained_(?:{pattern}) (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def watch(served: Served, seconds: float) -> None:
    """Prints what could leak, after each part of this time."""
    for _ in range(PARTS):
        time.sleep(seconds / PARTS)
        kept = add_figures(served, KEPT)
        descriptors = len(os.listdir(f"/proc/{served.pid}/fd"))
        threads = len(os.listdir(f"/proc/{served.pid}/task"))
        print(
            f"{time.strftime('%H:%M:%S')} {served.measure() / 1e6:8.1f} MB {descriptors:4} "
            f"descriptors {threads:4} threads {kept / 1e6:8.1f} MB in caches",
            flush=True,
        )


@dataclass(frozen=True)
class Account:
    """The memory of the server while nobody asks, without the processes that it starts.

    Args:
        before: the bytes in use.
        after: those that are left without garbage and free memory.
        caches: the bytes that the caches hold, as they say.
        turns: how many run or wait all the same.
    """

    before: int
    after: int
    caches: float
    turns: float


def take_account(served: Served, name: str) -> Account:
    """Takes an account when the server has had time to become quiet, and prints it."""
    time.sleep(QUIET)
    before, others = served.measure_alone(), served.measure() - served.measure_alone()
    os.kill(served.pid, signal.SIGUSR1)
    # The signal is handled in the thread of the event loop: the server answers afterwards.
    caches = add_figures(served, KEPT)
    turns = add_figures(served, "running|waiting")
    heap = add_figures(served, r"heap_bytes\{state=.used.\}")
    after = served.measure_alone()
    print(
        f"{name}: {before / 1e6:.1f} MB; {after / 1e6:.1f} without garbage and free memory, with "
        f"{caches / 1e6:.1f} in caches and {heap / 1e6:.1f} used of malloc; "
        f"{others / 1e6:.1f} in other processes; {turns:.0f} turns",
        flush=True,
    )
    return Account(before, after, caches, turns)


def prepare_attacks() -> Attacks:
    """Returns the attacks, but for the largest."""
    prepared: Attacks = []
    for attack in (*ATTACKS, *BODIES, *WAYS, *FIELDS, *GRAMMARS, *LENGTHS):
        content = json.dumps(attack.make())
        if len(content) <= LARGEST:
            prepared.append((attack, content))
    return prepared


def main() -> int:
    """Runs, and prints what was seen."""
    parser = argparse.ArgumentParser(description="A server under mixed load with attackers.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--keys", type=int, default=10)
    help = "MiB of the caches beside snapshots"
    parser.add_argument("--cache-memory", type=int, default=32, help=help)
    options = parser.parse_args()
    attacks = prepare_attacks()
    sets = [row["tools"][:3] for row in read_rows(sample_paths())][:40]
    keys: list[str] = []
    for key in range(options.keys):
        keys += ["--api-key", f"key-{key}"]
    tally = Tally()
    seconds = options.minutes * 60 / 2
    # One thread: on a busy machine, two would wait for each other.
    limits = ("-t", "1", "--cache-ram", "64", "--cache-memory", str(options.cache_memory))
    arguments = [*keys, "--log-level", "error", *limits]
    with serve(arguments, module=("benchmarks.processes.tidied",)) as served:
        accounts = [take_account(served, "start")]
        for name in ("middle", "end"):
            end = time.monotonic() + seconds
            threads: list[threading.Thread] = []
            for key in range(options.keys):
                seed = key + options.keys * len(accounts)
                client = Client(served.url, key, seed, attacks, sets)
                threads.append(threading.Thread(target=client.run, args=(tally, end)))
            for thread in threads:
                thread.start()
            watch(served, seconds)
            for thread in threads:
                thread.join()
            accounts.append(take_account(served, name))
    return report(tally, accounts)


def report(tally: Tally, accounts: list[Account]) -> int:
    """Prints the figures; 1 if something is wrong."""
    for kind, statuses in sorted(tally.statuses.items()):
        times = sorted(tally.seconds[kind])
        shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        print(f"{kind:8} {shown}; median {median(times):.2f} s, longest {times[-1]:.2f} s")
    _, middle, last = accounts
    grown, left = last.before - middle.before, last.after - middle.after
    caches = last.caches - middle.caches
    leaked = (left - caches) / middle.after
    print(
        f"memory over the second half: {grown / 1e6:+.1f} MB = caches {caches / 1e6:+.1f}, "
        f"garbage and free memory {(grown - left) / 1e6:+.1f}, "
        f"rest {(left - caches) / 1e6:+.1f} ({leaked:+.2%})"
    )
    print(f"{len(tally.faults)} faults", *tally.faults[:10], sep="\n")
    failed = any(statuses["500"] or statuses["lost"] for statuses in tally.statuses.values())
    in_use = any(account.turns for account in accounts)
    return int(failed or bool(tally.faults) or in_use or leaked > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
