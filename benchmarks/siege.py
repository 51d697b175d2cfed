"""A server under mixed load with attackers: nothing is lost, nothing stays in use, memory is flat.

    python -m benchmarks.siege [--minutes 60] [--keys 10] [--cache-memory 32]

Ten clients with a key each ask for one thing after the other: replies, calls, streams. One request
in twenty is an attack (`benchmarks.attacks`), of one in twenty the client leaves in the middle.
Half of the others have tools that nobody has sent before, so that grammars come and go.
Printed are the answers by kind with their latencies, and each tenth of the time what could leak:
memory, descriptors and threads of the server, and what its caches hold. These have little room, so
that they are full before the second half, and what grows then is no cache. Exit code 1 if an answer
is status 500, none at all, or a call that does not fit its schema, if something is in use at the
end, or if memory grew by more than 5 % over the second half.
"""

import argparse
import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import httpx
import jsonschema_rs

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.schemas import ATTACKS
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.processes.served import Served, serve

SECONDS = 120.0  # a request that takes longer is lost
HOSTILE, LEAVING = 0.05, 0.05
NEW = 0.5  # of the requests have tools of their own
LARGEST = 4 << 20  # bytes of an attack: larger ones would keep this very process busy
GROWTH = 0.05
PARTS = 10
KEPT = r"cache_bytes\{.*\}|memory_bytes"
CHAT = "/v1/chat/completions"
WORDS = "weather Paris tomorrow list open issues send mail convert nine miles please thanks".split()


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
        key: its API key; the seed of what it asks for.
        attacks: the hostile requests, with their bodies as JSON.
        sets: sets of tools.
    """

    def __init__(
        self, url: str, key: int, attacks: list[tuple[Attack, str]], sets: list[list[Any]]
    ):
        self._draw = random.Random(key)
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
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    for call in reply["choices"][0]["message"].get("tool_calls", ()):
        function = call["function"]
        schema = schemas.get(function["name"])
        if schema is None:
            return f"no such tool: {function['name']}"
        if not jsonschema_rs.is_valid(schema, json.loads(function["arguments"])):
            return f"{function['name']}({function['arguments']}) does not fit"
    return ""


def count_descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def count_threads(pid: int) -> int:
    """Threads of a process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def find_figures(served: Served, pattern: str) -> dict[str, float]:
    """Figures of the server's own metrics whose names fit a regular expression."""
    headers = {"Authorization": "Bearer key-0"}
    text = httpx.get(f"{served.url}/metrics", headers=headers, timeout=SECONDS).text
    found = re.findall(rf"^constrained_({pattern}) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def watch(served: Served, seconds: float) -> list[int]:
    """Returns the memory after each tenth of the time, printed with what else could leak."""
    memory: list[int] = []
    for part in range(PARTS):
        time.sleep(seconds / PARTS)
        memory.append(served.measure())
        kept = sum(find_figures(served, KEPT).values())
        print(
            f"{(part + 1) * seconds / PARTS / 60:6.1f} min {memory[-1] / 1e6:8.1f} MB "
            f"{count_descriptors(served.pid):4} descriptors {count_threads(served.pid):4} threads "
            f"{kept / 1e6:8.1f} MB in caches",
            flush=True,
        )
    return memory


def prepare_attacks() -> list[tuple[Attack, str]]:
    """Returns the attacks with their bodies as JSON, but for the largest."""
    prepared: list[tuple[Attack, str]] = []
    for attack in (*ATTACKS, *BODIES):
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
    seconds = options.minutes * 60
    # One thread: on a busy machine, two would wait for each other.
    limits = ("-t", "1", "--cache-ram", "64", "--cache-memory", str(options.cache_memory))
    with serve([*keys, "--log-level", "error", *limits]) as served:
        end = time.monotonic() + seconds
        threads: list[threading.Thread] = []
        for key in range(options.keys):
            client = Client(served.url, key, attacks, sets)
            threads.append(threading.Thread(target=client.run, args=(tally, end)))
        for thread in threads:
            thread.start()
        memory = watch(served, seconds)
        for thread in threads:
            thread.join()
        time.sleep(2)
        in_use = find_figures(served, "running|waiting")
    return report(tally, memory, in_use)


def report(tally: Tally, memory: list[int], in_use: dict[str, float]) -> int:
    """Prints the figures; 1 if something is wrong."""
    for kind, statuses in sorted(tally.statuses.items()):
        times = sorted(tally.seconds[kind])
        shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        print(f"{kind:8} {shown}; median {median(times):.2f} s, longest {times[-1]:.2f} s")
    growth = memory[-1] / memory[PARTS // 2 - 1] - 1
    print(f"memory over the second half: {growth:+.2%}; at the end: {in_use}")
    print(f"{len(tally.faults)} faults", *tally.faults[:10], sep="\n")
    failed = any(statuses["500"] or statuses["lost"] for statuses in tally.statuses.values())
    return int(failed or bool(tally.faults) or any(in_use.values()) or growth > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
