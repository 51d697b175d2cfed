"""Endings: whatever max_tokens is, the turn ends well, or the request is refused beforehand.

    python -m benchmarks.endings [PATH ...] [--requests 200] [--steps 4] [--seed 0]

Each request is played under every policy, on random logits, with `--steps` values of max_tokens
drawn from 1 to 400. A reply has to be well-formed (no cut call, valid arguments and answers, a call
if one is required), and the next prompt, which contains it, has to render. If not even the shortest
turn fits, the request has to be refused before generation.
"""

import argparse
import multiprocessing
import random
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.inputs.asks import POLICIES, Ask, ask, find_faults
from benchmarks.inputs.sources import TEMPLATES
from benchmarks.inputs.stage import Stage, stage
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.errors import ReplyError, RequestError
from constrained.model.compile.compiled_turn import CompiledTurn
from grammars.errors import Error

MAX_TOKENS_DRAWN = 400


@dataclass(frozen=True)
class Outcome:
    """What came of one request with one max_tokens; `shortest` where it was refused."""

    policy: str
    max_tokens: int
    finish: str
    shortest: int = 0
    truncated: int = 0
    faults: tuple[str, ...] = ()


def play(row: dict[str, Any], number: int, seed: int, steps: int) -> list[Outcome]:
    """Plays request `number` under every policy."""
    template = TEMPLATES[number % len(TEMPLATES)]
    draw = random.Random(f"endings/{seed}/{number}")
    place = stage(template, draw.choice(["bytes, text", "bytes, token"]))
    outcomes: list[Outcome] = []
    for policy in POLICIES:
        request = ask(row, place.teaching, policy, draw)
        if request is None or policy == "grammar":  # how a grammar of one's own ends, nobody knows
            continue
        turn = place.compile(request.job)
        for _ in range(steps):
            outcomes.append(_play(place, request, turn, draw.randint(1, MAX_TOKENS_DRAWN), draw))
    return outcomes


def _play(
    place: Stage, request: Ask, turn: CompiledTurn, max_tokens: int, draw: random.Random
) -> Outcome:
    try:
        reply = place.play(turn, draw.randrange(2**32), max_tokens)
    except RequestError as e:
        shortest = int(re.findall(r"has (\d+) tokens", e.message)[0])
        faults = () if shortest > max_tokens else (f"refused for nothing: {e}",)
        return Outcome(request.policy, max_tokens, "refused", shortest, faults=faults)
    except ReplyError as e:
        return Outcome(request.policy, max_tokens, "raised", faults=(f"raised {e!r}",))
    faults = find_faults(request, turn, reply)
    if reply.usage.completion_tokens > max_tokens:
        faults.append(f"{reply.usage.completion_tokens} tokens, {max_tokens} allowed")
    try:
        place.render_next(request.job.messages, request.tools, reply)
    except Error as e:
        faults.append(f"the next turn does not render: {e}")
    truncated = sum(call.truncated for call in reply.calls)
    described = tuple(f"{turn.format.name}, {request.policy}: {fault}" for fault in faults)
    return Outcome(request.policy, max_tokens, reply.finish_reason, 0, truncated, described)


def _work(job: tuple[dict[str, Any], int, int, int]) -> list[Outcome]:
    return play(*job)


def main() -> int:
    """Plays the requests and prints counts per policy; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Endings at every max_tokens from 1 to 400.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    picks = random.Random(options.seed).choices(rows, k=options.requests)
    jobs = [(row, n, options.seed, options.steps) for n, row in enumerate(picks)]
    with multiprocessing.Pool() as pool:
        outcomes = [o for os in pool.imap(_work, jobs, chunksize=2) for o in os]
    _print(outcomes)
    return 1 if any(o.faults for o in outcomes) else 0


def _print(outcomes: Iterable[Outcome]) -> None:
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.policy].append(outcome)
        groups["all"].append(outcome)
    columns = ("replies", "by itself", "ended", "truncated", "refused", "faults")
    heads = "".join(f"{c:>11}" for c in columns)
    print(f"{'policy':<18}{heads}   max_tokens that the shortest turn needs: median, most")
    for policy, group in groups.items():
        count = Counter(o.finish for o in group)
        needs = [o.shortest for o in group if o.finish == "refused"]
        cells = (
            len(group),
            len(group) - count["length"] - count["refused"],
            count["length"],
            sum(o.truncated for o in group),
            count["refused"],
            sum(len(o.faults) for o in group),
        )
        need = f"   {statistics.median(needs):.0f}, {max(needs)}" if needs else ""
        print(f"{policy:<18}" + "".join(f"{c:>11}" for c in cells) + need)
    for fault in [f for o in groups["all"] for f in o.faults][:10]:
        print("fault:", fault[:300])


if __name__ == "__main__":
    raise SystemExit(main())
