"""Attacks on a server, and how they delay another client.

Each attack goes to a server that two clients share (a key each; those on connections of their own
need none, and go to a server without keys). Meanwhile the second client asks for a short reply
again and again, and for /health. Prints, for each attack: its status, the seconds that it takes,
the peak of memory above the start, and the worst latencies of the second client, with and without
the attack.

    python -m benchmarks.hostile [NAME ...] [--holds]

NAME is a part of the names of attacks; without one, all are tried. With `--holds` it is also said
for how long a thread had the interpreter lock at a time, and where; at the end, the longest time at
each place.
"""

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import httpx

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.connections import CONNECTIONS, RawAttack, send_raw
from benchmarks.attacks.echoes import ECHOES
from benchmarks.attacks.exchanges import EXCHANGES, Exchange
from benchmarks.attacks.fields import FIELDS
from benchmarks.attacks.grammars import GRAMMARS
from benchmarks.attacks.lengths import LENGTHS
from benchmarks.attacks.schemas import ATTACKS
from benchmarks.attacks.ways import WAYS
from benchmarks.processes.lock_holds import Hold, read_longest
from benchmarks.processes.served import Served, serve
from benchmarks.processes.victim import Victim, run_victim

AnyAttack: TypeAlias = Attack | RawAttack | Exchange
WITH_KEYS = (*ATTACKS, *BODIES, *WAYS, *ECHOES, *FIELDS, *GRAMMARS, *LENGTHS, *EXCHANGES)
ATTACKER, VICTIM = "attacker", "victim"
SECONDS = 60.0  # an attack that takes longer is a hang
CALM = 2.0  # seconds without an attack
PLAIN = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}


@dataclass(frozen=True)
class Row:
    """What came of an attack; times in seconds, memory in MB."""

    name: str
    status: str
    seconds: float
    memory: float
    plain: float
    health: float


def try_attack(served: Served, victims: Sequence[Victim], attack: AnyAttack | None) -> Row:
    """Sends an attack beside the requests of the victims: one that asks for a short reply, and one
    for /health. None: there is no attack, for comparison."""
    content = json.dumps(attack.make()) if isinstance(attack, Attack) else ""
    memory = peak = served.measure()
    for victim in victims:
        victim.start()
    began = time.monotonic()
    answers: list[str] = []
    sender = threading.Thread(target=_send, args=(served.url, attack, content, answers))
    sender.start()
    while sender.is_alive():
        peak = max(peak, served.measure())
        sender.join(0.02)
    seconds = time.monotonic() - began
    plain, health = [victim.stop() for victim in victims]
    name = "none" if attack is None else attack.name
    return Row(name, answers[0], seconds, (peak - memory) / 1e6, plain, health)


def _send(url: str, attack: AnyAttack | None, content: str, answers: list[str]) -> None:
    if attack is None:
        time.sleep(CALM)
        answers.append("-")
        return
    if isinstance(attack, RawAttack):
        answers.append(_name_statuses(send_raw(url, attack)))
        return
    headers = {"Authorization": f"Bearer {ATTACKER}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client:
        try:
            if isinstance(attack, Exchange):
                answers.append(_name_statuses(attack.run(client)))
            else:
                kind = {"Content-Type": "application/json"}
                response = client.post(attack.path, content=content, headers=kind)
                answers.append(str(response.status_code))
        except httpx.TimeoutException:
            answers.append("hang")
        except httpx.TransportError:
            answers.append("lost")  # the server may be gone


def _name_statuses(statuses: Iterable[int]) -> str:
    """Tries each of them once."""
    return " ".join(dict.fromkeys(map(str, statuses)))


def _list_fair(attack: AnyAttack) -> list[str]:
    """Returns what may come of an attack; of several requests, which statuses each of them may
    have."""
    if isinstance(attack, RawAttack):
        return [_name_statuses(attack.statuses)]
    return [str(status) for status in attack.statuses]


def _is_fair(attack: AnyAttack, status: str) -> bool:
    if isinstance(attack, Exchange):
        return set(status.split()) <= {*_list_fair(attack)}
    return status in _list_fair(attack)


def _print_row(row: Row) -> None:
    figures = f"{row.seconds:7.2f} s {row.memory:6.0f} MB"
    print(f"{row.name:42} {row.status:>5} {figures}  {row.plain:6.2f} s {row.health * 1e3:6.0f} ms")
    sys.stdout.flush()


def main() -> int:
    """Tries the attacks; 1 if one has an answer that it may not have."""
    parser = argparse.ArgumentParser(description="attacks on a server")
    parser.add_argument("names", nargs="*", help="parts of names; default: all attacks")
    help = "say who holds the interpreter lock"
    parser.add_argument("--holds", action="store_true", help=help)
    arguments = parser.parse_args()
    names = arguments.names
    keys = ("--api-key", ATTACKER, "--api-key", VICTIM)
    faults = count = 0
    for options, attacks in ((keys, WITH_KEYS), ((), CONNECTIONS)):
        chosen = [a for a in attacks if not names or any(name in a.name for name in names)]
        if chosen:
            faults += try_all(options, chosen, shows_holds=arguments.holds)
            count += len(chosen)
    print(f"{faults} of {count} attacks had another answer than they may have, or others had none")
    return 1 if faults else 0


def try_all(
    options: Sequence[str], attacks: Sequence[AnyAttack], *, shows_holds: bool = False
) -> int:
    """Tries attacks on a server with these options; the number that had an unfair answer."""
    faults = 0
    with TemporaryDirectory() as folder:
        holds = Path(folder, "holds.jsonl")
        module = ("benchmarks.processes.lock_holds", str(holds)) if shows_holds else ("server",)
        with (
            serve([*options, "--log-level", "error", "-np", "2"], module) as served,
            run_victim(served.url, VICTIM, PLAIN) as asking_for_replies,
            run_victim(served.url, VICTIM) as asking_for_health,
        ):
            victims = asking_for_replies, asking_for_health
            print(f"{'attack':42} status  time    memory   plain   /health of another client")
            try_attack(served, victims, None)  # what is new takes longer
            _print_row(try_attack(served, victims, None))
            for attack in attacks:
                begin = holds.stat().st_size if shows_holds else 0
                row = try_attack(served, victims, attack)
                _print_row(row)
                if shows_holds:
                    _print_hold(read_longest(holds, begin))
                is_served = math.isfinite(row.plain) and math.isfinite(row.health)
                faults += not (is_served and _is_fair(attack, row.status))
            if shows_holds:
                _print_places(holds)
    return faults


def _print_places(holds: Path) -> None:
    """Prints the longest hold at each place."""
    longest: dict[str, int] = {}
    for line in holds.read_text().splitlines():
        hold = Hold(**json.loads(line))
        longest[hold.places[0]] = max(longest.get(hold.places[0], 0), hold.milliseconds)
    for place, milliseconds in sorted(longest.items(), key=lambda item: -item[1]):
        print(f"{milliseconds:6} ms  {place}")


def _print_hold(hold: Hold | None) -> None:
    if hold is not None:
        print(f"    {hold.milliseconds} ms, {hold.thread}: {' < '.join(hold.places)}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
