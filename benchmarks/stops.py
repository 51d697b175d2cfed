"""A server that is told to stop at random moments, while it has hostile requests.

Each round starts a server on the folder of the round before, sends it attacks, plain requests and
files, and sends SIGTERM or SIGINT after a random time. Counts the servers that ended in time (the
drain time and two seconds), how many of them were ended by the wall, and the files that were
acknowledged and are not there at the next start.

    python -m benchmarks.stops [--rounds 50] [--drain 1] [--seed 0]
"""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.attacks.attack import Attack
from benchmarks.hostile import PLAIN
from benchmarks.processes.served import ENDED, Served, serve
from benchmarks.siege import prepare_attacks

WALL = 1  # the status of a process that ended by `end_process`
SENDERS = 3  # threads with attacks
LATEST = 3.0  # seconds until a signal
HANG = 60.0  # seconds
MORE = 2.0  # seconds that a server may take beyond its drain time


def send_until_end(send: Callable[[], None], ended: threading.Event) -> None:
    """Sends requests until the server has ended; what becomes of them does not matter here."""
    while not ended.is_set():
        with suppress(httpx.HTTPError):
            send()


class Load:
    """Requests to a server, from threads of their own.

    Attributes:
        kept: ids of the files that servers have acknowledged.
    """

    def __init__(self, attacks: list[tuple[Attack, str]], chance: random.Random):
        self._attacks = attacks
        self._chance = chance
        self.kept: set[str] = set()

    def begin(self, url: str, ended: threading.Event) -> list[threading.Thread]:
        """Starts the threads, which send until the server has ended."""

        def attack() -> None:
            chosen, content = self._chance.choice(self._attacks)
            httpx.post(url + chosen.path, content=content, timeout=HANG)

        def ask() -> None:
            httpx.post(f"{url}/v1/chat/completions", json=PLAIN, timeout=HANG)

        def upload() -> None:
            files = {"file": ("rows.jsonl", b"{}\n")}
            answer = httpx.post(f"{url}/v1/files", files=files, data={"purpose": "batch"})
            if answer.status_code == 200:
                self.kept.add(answer.json()["id"])
            time.sleep(0.1)

        senders: list[threading.Thread] = []
        for send in (*[attack] * SENDERS, ask, upload):
            senders.append(threading.Thread(target=send_until_end, args=(send, ended)))
        for sender in senders:
            sender.start()
        return senders

    def count_lost(self, url: str) -> int:
        """Returns how many acknowledged files a new server does not have."""
        listed = httpx.get(f"{url}/v1/files", timeout=HANG).json()["data"]
        return len(self.kept - {file["id"] for file in listed})


def stop(served: Served, number: signal.Signals) -> tuple[float, int]:
    """Sends a signal; returns the seconds until the process has ended, and its status."""
    began = time.monotonic()
    os.kill(served.pid, number)
    while time.monotonic() - began < HANG:
        # The process stays known, for `serve` to wait for it.
        ended = os.waitid(os.P_PID, served.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is not None:
            return time.monotonic() - began, ended.si_status
        time.sleep(0.01)
    os.kill(served.pid, signal.SIGKILL)
    return HANG, -signal.SIGKILL


def main() -> int:
    """Runs the rounds; 1 if a server was late or has lost a file."""
    parser = argparse.ArgumentParser(description="a server that is told to stop")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--drain", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    load = Load(prepare_attacks(), chance)
    limit = arguments.drain + MORE
    in_time = walls = lost = 0
    with TemporaryDirectory() as folder:
        options = ["--drain", str(arguments.drain), "--batch-dir", str(Path(folder, "batches"))]
        options += ["--store", f"sqlite:{folder}/store.sqlite", "--log-level", "error"]
        options += ["-np", "2", "--max-files", "1000"]
        statuses = (*ENDED, WALL, -signal.SIGINT, 128 + signal.SIGINT)
        for index in range(arguments.rounds):
            with serve(options, ended=statuses) as served:
                lost += load.count_lost(served.url)
                ended = threading.Event()
                senders = load.begin(served.url, ended)
                time.sleep(chance.uniform(0, LATEST))
                number = chance.choice((signal.SIGTERM, signal.SIGINT))
                seconds, status = stop(served, number)
                ended.set()
                for sender in senders:
                    sender.join()
            in_time += seconds <= limit
            walls += status == WALL
            row = {"round": index, "signal": number.name, "seconds": round(seconds, 2)}
            print(json.dumps({**row, "status": status}), flush=True)
    print(
        f"{in_time} of {arguments.rounds} ended in {limit:g} s, {walls} of them by the wall; "
        f"{lost} of {len(load.kept)} acknowledged files lost"
    )
    return 0 if in_time == arguments.rounds and not lost else 1


if __name__ == "__main__":
    sys.exit(main())
