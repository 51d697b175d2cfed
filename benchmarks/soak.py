"""Many requests of several users at once, some of which leave: nothing leaks, every reply is valid.

    python -m benchmarks.soak [-m MODEL.gguf] [--requests 2000] [--users 8] [--sequences 4]
    python -m benchmarks.soak --conversations 10000

Each user holds conversations of a few turns, about the tools of the samples. Some requests are
cancelled while they wait, while the prompt is read or in the middle of the answer; some streams are
left, some have deadlines that they miss. Printed are how the requests ended, replies that do not
fit their schemas, and after each tenth of the requests what could leak: memory of the process,
threads, sequences in use; and what the caches hold. Exit code 1 if memory outside the caches grew
by more than 2 % over the second half, if a reply is not valid, or if anything is in use at the end.

With `--conversations N` there are N short conversations instead, each with its own system message
and tool, so that they share nothing.
"""

import argparse
import gc
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema_rs

from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained import Model, Sampling, embedded, load
from constrained.engine.host import bound_heap, measure_heap, return_free_memory
from constrained.errors import BusyError, ContextError, DeadlineError, Error, ReplyError
from constrained.reply import Reply
from grammars.byte_cache import measure_shared

WORDS = "weather Paris tomorrow list open issues send mail convert nine miles please thanks".split()
GROWTH = 0.02
TURNS = 5  # of a conversation
KNOWN = (BusyError, ContextError, DeadlineError, ReplyError)


@dataclass
class Tally:
    """How requests ended, and what was wrong with replies."""

    ends: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> int:
        return sum(self.ends.values())

    def note(self, end: str, faults: list[str]) -> None:
        """A request is over."""
        with self.lock:
            self.ends[end] += 1
            self.faults += faults


def find_faults(reply: Reply, tools: list[dict[str, Any]]) -> list[str]:
    """Returns what is wrong with the calls of a reply."""
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    faults = list[str]()
    for call in reply.calls:
        schema = known.get(call.name)
        if schema is None:
            faults.append(f"no such tool: {call.name}")
        elif not jsonschema_rs.is_valid(schema, call.arguments):
            faults.append(f"{call.name}({call.arguments}) does not fit")
    return faults


def converse(model: Model, sets: list[Any], tally: Tally, seed: int, *, turns: int) -> None:
    """One conversation of a user."""
    draw = random.Random(seed)
    tools, messages = draw.choice(sets), list[Any]()
    for _ in range(turns):
        text = " ".join(draw.choices(WORDS, k=draw.randint(3, 60)))
        messages.append({"role": "user", "content": text})
        end, reply = ask(model, messages, tools, draw)
        tally.note(end, find_faults(reply, tools) if reply and end in ("stop", "length") else [])
        if reply is None or end == "cancelled":
            messages.pop()
            continue
        messages.append(reply.message())
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in reply.calls
        ]


def ask(
    model: Model, messages: list[Any], tools: list[Any], draw: random.Random
) -> tuple[str, Reply | None]:
    """Sends one request; returns how it ended."""
    options: Any = {"max_tokens": draw.randint(24, 96)}
    options["sampling"] = Sampling(temperature=draw.choice((0.0, 1.0)), seed=draw.randrange(999))
    leaves = draw.random()
    if leaves < 0.1:
        options["timeout"] = draw.choice((0.001, 0.05, 0.2))
    try:
        stream = model.stream(messages, tools, **options)
        if 0.1 <= leaves < 0.2:
            return _leave(stream, 0)
        if 0.2 <= leaves < 0.3:
            return _leave(stream, draw.randint(1, 6))
        reply = stream.result
    except KNOWN as e:
        return type(e).__name__, None
    except Error as e:
        return f"unexpected {type(e).__name__}: {e}", None
    return ("length" if reply.finish_reason == "length" else "stop"), reply


def talk_once(model: Model, tally: Tally, number: int) -> None:
    """A conversation about a tool that no other one has: a call, and what the model says to it."""
    parameters = {
        "type": "object",
        "properties": {f"name{number}": {"type": "string", "maxLength": 8}},
        "required": [f"name{number}"],
    }
    function = {"name": f"tool{number}", "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    messages: list[Any] = [
        {"role": "system", "content": f"You are assistant {number}."},
        {"role": "user", "content": WORDS[number % len(WORDS)]},
    ]
    for choice in ("required", "none"):
        reply = model.call(messages, tools, tool_choice=choice, max_tokens=24)
        tally.note(reply.finish_reason, find_faults(reply, tools))
        messages.append(reply.message())
        for call in reply.calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "ok"})


def show_caches(model: Model) -> int:
    """Prints what is kept, in MB, and the memory that malloc holds; the bytes that are kept."""
    caches = {**model.metrics().caches, **measure_shared()}
    kept = [f"{name} {size.bytes / 1e6:.1f} ({size.count:,})" for name, size in caches.items()]
    snapshots = model.metrics().memory.bytes
    kept.append(f"snapshots {snapshots / 1e6:.1f}")
    heap = measure_heap()
    if heap is not None:
        kept.append(f"malloc {heap.used / 1e6:.1f} + {heap.free / 1e6:.1f} free")
    print("      ", ", ".join(kept), flush=True)
    return snapshots + sum(size.bytes for size in caches.values())


def _leave(stream: Any, after: int) -> tuple[str, Reply | None]:
    """Goes away after so many events."""
    if after == 0:
        stream.cancel()
    else:
        for number, _ in enumerate(stream):
            if number + 1 >= after:
                break
    reply = stream.result
    return ("cancelled" if reply.finish_reason == "cancelled" else "stop"), reply


def measure() -> int:
    """Memory of this process that is in use, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(
    model: Model, hold: Callable[[Tally, int], None], conversations: int, users: int
) -> tuple[Tally, list[int], list[int]]:
    """Returns all conversations, by number; the memory after each tenth of them, and the memory
    beside what the caches hold."""
    tally, memory, beside = Tally(), list[int](), list[int]()
    for part in range(10):
        numbers = range(part * conversations // 10, (part + 1) * conversations // 10)
        with ThreadPoolExecutor(users) as pool:
            list(pool.map(partial(hold, tally), numbers))
        return_free_memory()
        memory.append(measure())
        threads = threading.active_count()
        print(
            f"{tally.total:6} requests, {memory[-1] / 1e6:8.1f} MB, {threads} threads", flush=True
        )
        beside.append(memory[-1] - show_caches(model))
    return tally, memory, beside


def main() -> int:
    """Runs, and prints what was seen."""
    parser = argparse.ArgumentParser(description="Many requests, some of which leave.")
    parser.add_argument("-m", "--model", type=Path, default=embedded.PATH)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--conversations", type=int, help="so many, each with a tool of its own")
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--tools", type=Path, nargs="*", default=sample_paths())
    options = parser.parse_args()
    sets = [row["tools"][:3] for row in read_rows(options.tools)][:40]
    before = threading.active_count()
    bound_heap()
    how: Any = {"sequences": options.sequences, "threads": options.threads, "cache_ram": 32}
    with load(options.model, context_length=2048, **how) as model:
        if options.conversations:
            hold, count = partial(talk_once, model), options.conversations
        else:
            hold, count = partial(converse, model, sets, turns=TURNS), options.requests // TURNS
        tally, memory, beside = run(model, hold, count, options.users)
        used = model.metrics().running + model.metrics().waiting
    growth = (beside[-1] - beside[4]) / memory[4]
    for end, count in sorted(tally.ends.items()):
        print(f"{count:6} {end}")
    print(
        f"memory over the second half: {memory[-1] / memory[4] - 1:+.2%}, beside the caches "
        f"{growth:+.2%}; in use at the end: {used} sequences, "
        f"{threading.active_count() - before} threads"
    )
    print(f"{len(tally.faults)} faults", *tally.faults[:10], sep="\n")
    strange = [end for end in tally.ends if end.startswith("unexpected")]
    left = used or threading.active_count() != before
    return int(bool(growth > GROWTH or tally.faults or strange or left))


if __name__ == "__main__":
    raise SystemExit(main())
