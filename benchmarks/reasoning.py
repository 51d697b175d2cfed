"""The reasoning budget: an open block is closed when its tokens are spent, and a call follows.

    python -m benchmarks.reasoning [PATH ...] [--seeds 500] [--budgets 0 1 32 500]

Random logits in a block that the prompt has opened, or that the model opens, in every format that
knows reasoning; a call is required. The block may hold at most as many tokens as the budget, no
second block is opened, none where the prompt has closed it, and no character is cut.
"""

import argparse
import multiprocessing
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.inputs.asks import ask, find_faults
from benchmarks.inputs.sources import TEMPLATES, read_teaching
from benchmarks.inputs.stage import stage
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.errors import ReplyError
from grammars.turn import Start, Think

MAX_TOKENS = 8_192
VOCABULARIES = ("bytes, text", "bytes, token")


@dataclass(frozen=True)
class Outcome:
    """One turn: its budget, what was spent of it, and what was wrong."""

    budget: int
    start: str
    spent: int
    closed: bool
    calls: int
    faults: tuple[str, ...]


def play(row: dict[str, Any], seed: int, budget: int) -> Outcome | None:
    """Plays one turn in which a call is required."""
    draw = random.Random(f"reasoning/{seed}/{budget}")
    names = [t for t in TEMPLATES if read_teaching(t).format.reasoning]
    place = stage(names[seed % len(names)], VOCABULARIES[seed // len(names) % 2])
    request = ask(row, place.teaching, "required", draw)
    if request is None:
        return None
    on = draw.choice([True, True, None, False])
    kwargs = {} if on is None else {"enable_thinking": on}
    sentence = draw.choice(["", "That is enough."])
    job = replace(
        request.job,
        think=Think.OPTIONAL,
        template_kwargs=kwargs,
        reasoning_budget=budget,
        reasoning_close=sentence,
    )
    turn = place.compile(job)
    try:
        reply = place.play(turn, draw.randrange(2**32), MAX_TOKENS, thinks=True)
    except ReplyError as e:
        return Outcome(budget, turn.state.start, 0, False, 0, (f"raised {e!r}",))
    faults = find_faults(request, turn, reply)
    block, spent = turn.format.reasoning, reply.usage.reasoning_tokens
    assert block is not None
    if spent > budget:
        faults.append(f"{spent} tokens of reasoning")
    calls = "|".join(map(re.escape, turn.format.openings))
    before = re.split(calls, reply.text)[0]  # in a call, the opener is data
    opened = before.count(block.opener.text)
    if opened > (turn.state.start is Start.PLAIN and budget > 0):
        faults.append(f"{opened} blocks opened, start {turn.state.start}")
    if "\ufffd" in reply.reasoning:
        faults.append("a cut character")
    if not reply.calls:
        faults.append("no call")
    closed = bool(sentence) and sentence in reply.reasoning
    described = tuple(f"{turn.format.name}, seed {seed}: {fault}" for fault in faults)
    return Outcome(budget, turn.state.start, spent, closed, len(reply.calls), described)


def _play(job: tuple[dict[str, Any], int, int]) -> Outcome | None:
    return play(*job)


def main() -> int:
    """Plays all seeds with all budgets and prints counts; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="The reasoning budget on random logits.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--budgets", type=int, nargs="+", default=[0, 1, 32, 500])
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    picks = random.Random(0).choices(rows, k=options.seeds)
    jobs = [(row, seed, b) for b in options.budgets for seed, row in enumerate(picks)]
    with multiprocessing.Pool() as pool:
        outcomes = [o for o in pool.imap(_play, jobs, chunksize=4) if o is not None]
    _print(outcomes, options.budgets)
    return 1 if any(o.faults for o in outcomes) else 0


def _print(outcomes: Sequence[Outcome], budgets: Sequence[int]) -> None:
    print(
        f"{'budget':>8}{'turns':>8}{'open':>8}{'plain':>8}{'closed':>8}{'spent':>12}{'calls':>8}"
        f"{'by force':>10}{'faults':>8}"
    )
    for budget in budgets:
        group = [o for o in outcomes if o.budget == budget]
        starts = Counter(o.start for o in group)
        most = f"{min(o.spent for o in group)} to {max(o.spent for o in group)}"
        cells = [len(group), starts[Start.OPEN], starts[Start.PLAIN], starts[Start.CLOSED]]
        print(
            f"{budget:>8}" + "".join(f"{c:>8}" for c in cells) + f"{most:>12}"
            f"{sum(o.calls for o in group):>8}{sum(o.spent == budget > 0 for o in group):>10}"
            f"{sum(len(o.faults) for o in group):>8}"
        )
    for fault in [f for o in outcomes for f in o.faults][:10]:
        print("fault:", fault[:300])


if __name__ == "__main__":
    raise SystemExit(main())
