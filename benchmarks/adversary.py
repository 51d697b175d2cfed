"""Random logits against the grammar: whatever the model wants, what comes out is valid.

    python -m benchmarks.adversary [PATH ...] [--turns 2000] [--seed 0] [--max-tokens 4096]
                                   [--vocabulary bytes|qwen2] [--policy POLICY]

Every turn runs through the whole stack, on random logits. At each step, with p = 0.1, the model
begins to write an opener or closer that is legal there (a marker, a terminator, a quote, a bracket,
the end of turn) and follows it token by token to its end; otherwise it draws at random. The
vocabulary is that of 256 bytes, with the markers as text or as tokens, or Qwen2's 151,936 tokens.
PATHs are JSON Lines files with a `tools` list in each row, such as the catalogue of an MCP server;
without one, the committed sample. A few rows are also counted one by one.
"""

import argparse
import multiprocessing
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.inputs.asks import POLICIES, ask, find_faults
from benchmarks.inputs.sources import TEMPLATES
from benchmarks.inputs.stage import stage
from benchmarks.inputs.tool_sets import read_rows, sample_paths

MAX_TOKENS = 4096
MAX_ROWS = 30  # that are counted one by one


@dataclass(frozen=True)
class Outcome:
    """One turn: under which conditions, and what came of it."""

    row: str
    format: str
    policy: str
    finish: str
    calls: int
    tokens: int
    faults: tuple[str, ...]


def pair(number: int) -> tuple[str, str]:
    """Returns the format and the policy of a turn: all formats in turn, and in time all pairs."""
    again, at = divmod(number, len(TEMPLATES))
    return TEMPLATES[at], POLICIES[(at + again) % len(POLICIES)]


def play(
    row: dict[str, Any],
    number: int,
    seed: int,
    max_tokens: int = MAX_TOKENS,
    vocabulary: str = "bytes",
    policy: str | None = None,
) -> Outcome | None:
    """Plays turn `number` on the tools of a row; None where the format refuses the request."""
    template, paired = pair(number)
    policy, id = policy or paired, str(row.get("id"))
    draw = random.Random(f"{seed}/{number}")
    markers = "token" if vocabulary != "bytes" else draw.choice(["text", "token"])
    place = stage(template, f"{vocabulary}, {markers}")
    request = ask(row, place.teaching, policy, draw)
    if request is None:
        return None
    try:
        turn = place.compile(request.job)
        reply = place.play(turn, draw.randrange(2**32), max_tokens)
    except Exception as e:  # whatever is raised is a finding
        return Outcome(id, template, policy, "raised", 0, 0, (f"turn {number}: raised {e!r}",))
    faults = [f"turn {number}: {fault}" for fault in find_faults(request, turn, reply)]
    tokens = reply.usage.completion_tokens
    finish, calls = reply.finish_reason, len(reply.calls)
    return Outcome(id, template, policy, finish, calls, tokens, tuple(faults))


def _play(job: tuple[dict[str, Any], int, int, int, str, str | None]) -> Outcome | None:
    return play(*job)


def main() -> int:
    """Plays the turns and prints counts per format and choice; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--vocabulary", choices=("bytes", "qwen2"), default="bytes")
    parser.add_argument("--policy", choices=POLICIES, help="of all turns; default: all of them")
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    order = random.Random(options.seed).choices(range(len(rows)), k=options.turns)
    rest = (options.seed, options.max_tokens, options.vocabulary, options.policy)
    jobs = [(rows[at], n, *rest) for n, at in enumerate(order)]
    with multiprocessing.Pool() as pool:
        outcomes = [o for o in pool.imap(_play, jobs, chunksize=8) if o is not None]
    _print_counts(outcomes)
    return 1 if any(o.faults for o in outcomes) else 0


def _print_counts(outcomes: Sequence[Outcome]) -> None:
    counts: dict[str, Counter[str]] = {}
    is_each = len({o.row for o in outcomes}) <= MAX_ROWS
    for o in outcomes:
        rows = [f"row: {o.row[:22]}"] if is_each else []
        for key in (o.format, f"policy: {o.policy}", *rows, "all"):
            count = counts.setdefault(key, Counter())
            count["turns"] += 1
            count["by itself"] += o.finish != "length"
            count["with call"] += o.calls > 0
            count["calls"] += o.calls
            count["faults"] += len(o.faults)
    columns = ("turns", "by itself", "with call", "calls", "faults")
    print(f"{'format, or policy':<28}" + "".join(f"{c:>11}" for c in columns))
    order = sorted(counts, key=lambda key: (key == "all", ": " in key, key))
    for key in order:
        print(f"{key:<28}" + "".join(f"{counts[key][c]:>11}" for c in columns))
    faults = [f"{o.format}, {o.policy}: {fault}" for o in outcomes for fault in o.faults]
    for fault in faults[:20]:
        print("fault:", fault[:300])


if __name__ == "__main__":
    raise SystemExit(main())
