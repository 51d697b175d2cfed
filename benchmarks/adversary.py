"""Random logits against the grammar: whatever the model wants, what comes out is valid.

    python -m benchmarks.adversary [PATH ...] [--turns 2000] [--seed 0] [--max-tokens 4096]
                                   [--vocabulary bytes|qwen2]

Every turn runs through the whole stack, on random logits. At each step, with p = 0.1, the model
begins to write an opener or closer that is legal there (a marker, a terminator, a quote, a bracket,
the end of turn) and follows it token by token to its end; otherwise it draws at random. The
vocabulary is that of 256 bytes, with the markers as text or as tokens, or Qwen2's 151,936 tokens.
PATHs are JSON Lines files with a `tools` list in each row; without one, the committed sample.
"""

import argparse
import multiprocessing
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.stage import POLICIES, TEMPLATES, ask, find_faults, stage
from benchmarks.tool_sets import read_rows, sample_paths, usable
from grammars.formats import FORMATS

MAX_TOKENS = 4096


@dataclass(frozen=True)
class Outcome:
    """One turn: under which conditions, and what came of it."""

    format: str
    policy: str
    finish: str
    calls: int
    tokens: int
    faults: tuple[str, ...]


def play(
    row: dict[str, Any],
    number: int,
    seed: int,
    max_tokens: int = MAX_TOKENS,
    vocabulary: str = "bytes",
) -> Outcome | None:
    """Plays turn `number` on the tools of a row; None where the format refuses the request."""
    template = TEMPLATES[number % len(TEMPLATES)]
    policy = POLICIES[number // len(TEMPLATES) % len(POLICIES)]
    draw = random.Random(f"{seed}/{number}")
    markers = "token" if vocabulary != "bytes" else draw.choice(["text", "token"])
    place = stage(template, f"{vocabulary}, {markers}")
    request = ask(row, place.model.compiler.format, policy, draw)
    if request is None:
        return None
    turn = place.model.compile(request.job)
    reply = place.play(turn, draw.randrange(2**32), max_tokens)
    faults = find_faults(request, turn, reply)
    tokens = reply.usage.completion_tokens
    return Outcome(template, policy, reply.finish_reason, len(reply.calls), tokens, tuple(faults))


def _play(job: tuple[dict[str, Any], int, int, int, str]) -> Outcome | None:
    return play(*job)


def main() -> int:
    """Plays the turns and prints counts per format and choice; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--vocabulary", choices=("bytes", "qwen2"), default="bytes")
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    order = random.Random(options.seed).choices(range(len(rows)), k=options.turns)
    rest = (options.seed, options.max_tokens, options.vocabulary)
    jobs = [(rows[at], n, *rest) for n, at in enumerate(order)]
    with multiprocessing.Pool() as pool:
        outcomes = [o for o in pool.imap(_play, jobs, chunksize=8) if o is not None]
    _print_counts(outcomes)
    _print_refused(rows)
    return 1 if any(o.faults for o in outcomes) else 0


def _print_counts(outcomes: Sequence[Outcome]) -> None:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for o in outcomes:
        for key in ((o.format, o.policy), ("all", "all")):
            count = counts.setdefault(key, Counter())
            count["turns"] += 1
            count["by itself"] += o.finish != "length"
            count["with call"] += o.calls > 0
            count["calls"] += o.calls
            count["faults"] += len(o.faults)
    columns = ("turns", "by itself", "with call", "calls", "faults")
    print(f"{'format':<14}{'policy':<18}" + "".join(f"{c:>11}" for c in columns))
    for (format, policy), count in sorted(counts.items()):
        print(f"{format:<14}{policy:<18}" + "".join(f"{count[c]:>11}" for c in columns))
    for fault in [f for o in outcomes for f in o.faults][:10]:
        print("fault:", fault[:300])


def _print_refused(rows: Sequence[dict[str, Any]]) -> None:
    for format in FORMATS:
        refused = [r for row in rows for r in usable(row, format).refused]
        total = sum(len(row["tools"]) for row in rows)
        print(f"{format.name}: {len(refused)} of {total} tools refused by name")
        for name, reason in dict(refused).items():
            print(f"  {name}: {reason[:160]}")


if __name__ == "__main__":
    raise SystemExit(main())
