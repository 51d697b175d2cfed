"""Attacks on a server, and how they delay another client.

Each attack goes to a server that two clients share (a key each; those on connections of their own
need none, and go to a server without keys). Meanwhile the second client asks for a short reply
again and again, and for /health. Prints, for each attack: its status, the seconds that it takes,
the peak of memory above the start, and the worst latencies of the second client, with and without
the attack.

    python -m benchmarks.hostile [NAME ...]

NAME is a part of the names of attacks; without one, all are tried. Exit code 1 if a status was 500
or above, if an attack had no answer, took more than 500 MB, or kept another client waiting for more
than 10 s.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.connections import CONNECTIONS, RawAttack, send_raw
from benchmarks.attacks.exchanges import EXCHANGES, Exchange
from benchmarks.attacks.fields import FIELDS
from benchmarks.attacks.grammars import GRAMMARS
from benchmarks.attacks.lengths import LENGTHS
from benchmarks.attacks.schemas import ATTACKS
from benchmarks.attacks.ways import WAYS
from benchmarks.processes.served import Served, serve
from benchmarks.processes.victim import Victim, run_victim

AnyAttack: TypeAlias = Attack | RawAttack | Exchange
WITH_KEYS = (*ATTACKS, *BODIES, *WAYS, *FIELDS, *GRAMMARS, *LENGTHS, *EXCHANGES)
ATTACKER, VICTIM = "attacker", "victim"
SECONDS = 60.0  # an attack that takes longer is a hang
CALM = 2.0  # seconds without an attack
MAX_MEMORY = 500.0  # MB
MAX_DELAY = 10.0  # seconds
PLAIN = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}


@dataclass(frozen=True)
class Row:
    """What came of an attack; times in seconds, memory in MB.

    Args:
        statuses: of its answers.
        fault: "hang", or "lost": the server may be gone; "" if all requests had answers.
        plain: the longest time of a short reply to another client.
        health: the same of /health.
    """

    name: str
    statuses: Sequence[int]
    fault: str
    seconds: float
    memory: float
    plain: float
    health: float

    @property
    def is_fair(self) -> bool:
        """Returns whether nobody suffered from it."""
        is_answered = not self.fault and all(status < 500 for status in self.statuses)
        delay = max(self.plain, self.health)
        return is_answered and self.memory <= MAX_MEMORY and delay <= MAX_DELAY


class Sender(threading.Thread):
    """Sends an attack; None: there is none, for comparison."""

    def __init__(self, url: str, attack: AnyAttack | None):
        super().__init__()
        self._url = url
        self._attack = attack
        self._content = json.dumps(attack.make()) if isinstance(attack, Attack) else ""
        self.statuses: list[int] = []
        self.fault = ""

    def run(self) -> None:
        """Notes the statuses of the answers."""
        headers = {"Authorization": f"Bearer {ATTACKER}"}
        try:
            with httpx.Client(base_url=self._url, headers=headers, timeout=SECONDS) as client:
                self._send(client)
        except (httpx.TimeoutException, TimeoutError):
            self.fault = "hang"
        except (httpx.TransportError, OSError):
            self.fault = "lost"

    def _send(self, client: httpx.Client) -> None:
        match self._attack:
            case None:
                time.sleep(CALM)
            case RawAttack():
                self.statuses += send_raw(self._url, self._attack)
            case Exchange():
                self.statuses += self._attack.run(client)
            case Attack():
                kind = {"Content-Type": "application/json"}
                answer = client.post(self._attack.path, content=self._content, headers=kind)
                self.statuses.append(answer.status_code)


def try_attack(served: Served, victims: Sequence[Victim], attack: AnyAttack | None) -> Row:
    """Sends an attack beside the requests of the victims: one that asks for a short reply, and one
    for /health."""
    sender = Sender(served.url, attack)
    memory = peak = served.measure()
    for victim in victims:
        victim.start()
    began = time.monotonic()
    sender.start()
    while sender.is_alive():
        peak = max(peak, served.measure())
        sender.join(0.02)
    seconds = time.monotonic() - began
    plain, health = [victim.stop() for victim in victims]
    return Row(
        name="none" if attack is None else attack.name,
        statuses=sender.statuses,
        fault=sender.fault,
        seconds=seconds,
        memory=(peak - memory) / 1e6,
        plain=plain,
        health=health,
    )


def _print_row(row: Row) -> None:
    status = row.fault or " ".join(dict.fromkeys(map(str, row.statuses))) or "-"
    figures = f"{row.seconds:7.2f} s {row.memory:6.0f} MB"
    delays = f"{row.plain:6.2f} s {row.health * 1e3:6.0f} ms"
    print(f"{row.name:46} {status:>7} {figures}  {delays}{'' if row.is_fair else '  FAULT'}")
    sys.stdout.flush()


def try_all(options: Sequence[str], attacks: Sequence[AnyAttack]) -> int:
    """Tries attacks on a server with these options; returns of how many somebody suffered."""
    faults = 0
    with (
        serve([*options, "--log-level", "error", "-np", "2"]) as served,
        run_victim(served.url, VICTIM, PLAIN) as asking_for_replies,
        run_victim(served.url, VICTIM) as asking_for_health,
    ):
        victims = asking_for_replies, asking_for_health
        print(f"{'attack':46}  status  time    memory    plain  /health of another client")
        try_attack(served, victims, None)  # what is new takes longer
        _print_row(try_attack(served, victims, None))
        for attack in attacks:
            row = try_attack(served, victims, attack)
            _print_row(row)
            faults += not row.is_fair
    return faults


def main() -> int:
    """Tries the attacks; 1 if somebody suffered from one."""
    parser = argparse.ArgumentParser(description="attacks on a server")
    parser.add_argument("names", nargs="*", help="parts of names; default: all attacks")
    names = parser.parse_args().names
    keys = ("--api-key", ATTACKER, "--api-key", VICTIM)
    faults = count = 0
    for options, attacks in ((keys, WITH_KEYS), ((), CONNECTIONS)):
        chosen = [a for a in attacks if not names or any(name in a.name for name in names)]
        if chosen:
            faults += try_all(options, chosen)
            count += len(chosen)
    print(f"{faults} faults in {count} attacks")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
