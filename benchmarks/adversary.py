"""Random logits against the grammar: whatever the model wants, what comes out is valid.

    python -m benchmarks.adversary [PATH ...] [--turns 2000] [--seed 0] [--max-tokens 4096]

Every turn runs on a vocabulary of 256 bytes with random logits. At each step, with p = 0.1, the
model begins to write an opener or closer that is legal there (a marker, a terminator, a quote, a
bracket, the end of turn) and follows it byte by byte to its end; otherwise it draws at random.
PATHs are JSON Lines files with a `tools` list in each row; without one, the committed sample.
"""

import argparse
import json
import multiprocessing
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import numpy as np

from benchmarks.tool_sets import read_rows, sample_paths, usable
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.frame import byte_tokenizer
from constrained.generation import Finish, Request, generate
from constrained.mask import Matcher
from constrained.tools import read_policy, read_tools
from constrained.vocabulary import Vocabulary
from grammars.formats import FORMATS
from grammars.lark import build_grammar
from grammars.parse import Parser, collect
from grammars.turn import Choice, Policy, Start, State, Think, Turn
from grammars.wire import Format, Marker, TaggedArguments

FOLLOW = 0.1
MAX_TOKENS = 4096
CHOICES = ("auto", "none", "required", "named", "allowed", "auto, single", "required, single")
DRAW = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)


class Adversary:
    """Logits for one turn: random, and now and then set on an opener or closer."""

    def __init__(self, vocabulary: Vocabulary, format: Format, matcher: Matcher, seed: int):
        self._random = np.random.default_rng(seed)
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._targets = [vocabulary.encode_special(text) for text in _targets(format)]
        self._rest: list[int] = []

    def __call__(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        logits = self._random.normal(size=len(self._vocabulary.tokens)).astype(np.float32)
        if not self._rest and self._random.random() < FOLLOW:
            self._rest = self._choose()
        if self._rest:
            logits[self._rest.pop(0)] += 100
        return logits

    def _choose(self) -> list[int]:
        legal = [t for t in self._targets if self._matcher.accepts(t) == len(t)]
        if self._matcher.is_complete:
            legal.append([self._vocabulary.end[0]])
        return list(legal[self._random.integers(len(legal))]) if legal else []


def _targets(format: Format) -> list[str]:
    targets = [*format.reserved, '"', "}", "]"]
    for node in format.call:
        if isinstance(node, TaggedArguments):
            targets += [node.close + node.open, node.close + node.end]
    return targets


@dataclass(frozen=True)
class Outcome:
    """One turn: under which conditions, and what came of it."""

    format: str
    choice: str
    finish: Finish
    calls: int
    faults: tuple[str, ...]


def play(
    row: dict[str, Any], number: int, seed: int, max_tokens: int = MAX_TOKENS
) -> Outcome | None:
    """Plays turn `number` on the tools of a row; None where the format refuses all of them."""
    format = FORMATS[number % len(FORMATS)]
    choice = CHOICES[number // len(FORMATS) % len(CHOICES)]
    draw = random.Random(f"{seed}/{number}")
    offered = usable(row, format).tools
    if not offered:
        return None
    state = _state(format, draw)
    policy = _policy(choice, offered, state, draw)
    tools = read_tools(offered)
    vocabulary, tokenizer = byte_tokenizer(format.markers if draw.random() < 0.5 else ())
    ids = {m: i for m in format.markers if (i := vocabulary.marker(m)) is not None}
    matcher = Matcher.compile(tokenizer, build_grammar(format, tools, policy, state, ids))
    adversary = Adversary(vocabulary, format, matcher, draw.randrange(2**32))
    engine = ScriptedEngine(vocabulary, adversary, context_length=max_tokens + 1)
    sampling = Sampling(*list(vars(DRAW).values())[:-1], seed=draw.randrange(2**31))
    parser = Parser(format, tools, state)
    request = Request([ord("\n")], matcher, parser, sampling, max_tokens)
    generation = generate(engine, [request])[0]
    turn = collect(generation.events)
    faults = find_faults(turn, generation.finish, policy, offered)
    faults += _find_uncut(turn, generation.text, format)
    return Outcome(format.name, choice, generation.finish, len(turn.calls), tuple(faults))


def _policy(
    choice: str, tools: Sequence[dict[str, Any]], state: State, draw: random.Random
) -> Policy:
    names = [t.get("function", t)["name"] for t in tools]
    closed = state.start is Start.CLOSED  # nothing can be required of a closed block
    think = draw.choice([t for t in Think if not (closed and t is Think.REQUIRED)])
    word, _, single = choice.partition(", ")
    if word == "named":
        return Policy.named(draw.choice(names), think)
    if word == "allowed":
        allowed = tuple(draw.sample(names, draw.randint(1, len(names))))
        return Policy(draw.choice([Choice.AUTO, Choice.REQUIRED]), allowed, True, think)
    return read_policy(word, parallel=not single, think=think)


def _state(format: Format, draw: random.Random) -> State:
    block = format.reasoning
    pads = {Start.OPEN: block.pad_open, Start.CLOSED: block.after} if block else {}
    start = draw.choice([Start.PLAIN, *pads])
    return State(start, pads.get(start, "")[: draw.randint(0, 2)])


def find_faults(
    turn: Turn, finish: Finish, policy: Policy, tools: Sequence[dict[str, Any]]
) -> list[str]:
    """What is wrong with a turn; the arguments are judged by jsonschema-rs on the original."""
    faults: list[str] = []
    bodies = {t.get("function", t)["name"]: t.get("function", t) for t in tools}
    names = policy.names or tuple(bodies)
    for call in turn.calls:
        if call.name not in bodies:
            faults.append(f"unknown tool {call.name}")
            continue
        body = bodies[call.name]
        schema = next(body[k] for k in ("parameters", "input_schema", "inputSchema") if k in body)
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
        if not jsonschema_rs.validator_for(schema).is_valid(call.arguments) or not call.valid:
            faults.append(f"invalid arguments {call.arguments} {call.errors}")
        if call.name not in names or policy.choice is Choice.NONE:
            faults.append(f"tool_choice does not allow {call.name}")
    if len(turn.calls) > 1 and not policy.parallel:
        faults.append("more than one call")
    if finish is Finish.STOP and policy.choice is Choice.REQUIRED and not turn.calls:
        faults.append("no call, though one is required")
    if finish is Finish.STOP and turn.unfinished:
        faults.append("a finished turn with a cut call")
    return faults


def _find_uncut(turn: Turn, text: str, format: Format) -> list[str]:
    """A delivered call has to be closed in the text; a cut one has to be kept apart."""
    closer = next(n.text for n in reversed(format.call) if isinstance(n, Marker))
    if text.count(closer) < len(turn.calls):
        return ["a cut call was delivered as complete"]
    return []


def _play(job: tuple[dict[str, Any], int, int, int]) -> Outcome | None:
    return play(*job)


def main() -> int:
    """Plays the turns and prints counts per format and choice; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    options = parser.parse_args()
    rows = list(read_rows(options.paths or sample_paths()))
    order = random.Random(options.seed).choices(range(len(rows)), k=options.turns)
    jobs = [(rows[at], n, options.seed, options.max_tokens) for n, at in enumerate(order)]
    with multiprocessing.Pool() as pool:
        outcomes = [o for o in pool.imap(_play, jobs, chunksize=8) if o is not None]
    _print_counts(outcomes)
    _print_refused(rows)
    return 1 if any(o.faults for o in outcomes) else 0


def _print_counts(outcomes: Sequence[Outcome]) -> None:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for o in outcomes:
        for key in ((o.format, o.choice), ("all", "all")):
            count = counts.setdefault(key, Counter())
            count["turns"] += 1
            count["complete"] += o.finish is Finish.STOP
            count["with call"] += o.finish is Finish.STOP and o.calls > 0
            count["calls"] += o.calls
            count["faults"] += len(o.faults)
    columns = ("turns", "complete", "with call", "calls", "faults")
    print(f"{'format':<14}{'tool_choice':<18}" + "".join(f"{c:>11}" for c in columns))
    for (format, choice), count in sorted(counts.items()):
        print(f"{format:<14}{choice:<18}" + "".join(f"{count[c]:>11}" for c in columns))
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
