"""Warnings that a prefix was lost: how many are expected, how many come, how many are wrong.

    python -m benchmarks.lost_prefix ROWS.jsonl [--most 400]

Each row has `tools` and `messages` in OpenAI's form, such as those of BFCL. The rows become
requests of clients with one habit each: questions that have nothing to do with each other, or agent
loops of three steps, four of them side by side. A loop calls the first tool of its row.

Not each wrong warning is one: some of BFCL's rows have the tools of others with changed
descriptions.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from server.observe.prefix_watch import PrefixWatch

Json = dict[str, Any]
STEPS, BESIDE = 3, 4
PREAMBLE = "You are a helpful assistant. Use the tools that you have, and say what they tell. " * 5


def make_loop(row: Json) -> Iterator[Json]:
    """The requests of an agent, each a step further."""
    messages: list[Json] = [{"role": "system", "content": PREAMBLE}, *row["messages"]]
    name = row["tools"][0]["function"]["name"]
    for step in range(STEPS):
        yield {"messages": [*messages], "tools": row["tools"]}
        function = {"name": name, "arguments": json.dumps({"step": step})}
        call = {"id": f"c{step}", "type": "function", "function": function}
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"result {step}"})


def list_questions(rows: Sequence[Json]) -> Iterator[tuple[int, Json]]:
    """The rows as they are, each with 0 for its step."""
    for row in rows:
        yield 0, {"messages": row["messages"], "tools": row["tools"]}


def list_loops(rows: Sequence[Json]) -> Iterator[tuple[int, Json]]:
    """Agent loops, some side by side, with the number of the step."""
    for first in range(0, len(rows), BESIDE):
        loops = [[*make_loop(row)] for row in rows[first : first + BESIDE]]
        for step in range(STEPS):
            for requests in loops:
                yield step, requests[step]


def keep(request: Json, number: int) -> Json:
    """Nothing changes."""
    return request


def rotate_header(request: Json, number: int) -> Json:
    """The system message begins with another id."""
    system, *rest = request["messages"]
    changed = {**system, "content": f"[{number:08x}] {system['content']}"}
    return {**request, "messages": [changed, *rest]}


def rotate_tools(request: Json, number: int) -> Json:
    """The first tools have become the last."""
    first = number % len(request["tools"])
    return {**request, "tools": request["tools"][first:] + request["tools"][:first]}


def edit_description(request: Json, number: int) -> Json:
    """The description of the last tool has a number."""
    *others, last = request["tools"]
    function = {**last["function"], "description": f"As of {number}"}
    return {**request, "tools": [*others, {**last, "function": function}]}


def give_role(request: Json, number: int) -> Json:
    """Each of the loops side by side has a system message of its own."""
    role = ("planner", "researcher", "writer", "critic")[number % BESIDE]
    system = {"role": "system", "content": f"You are the {role}. " * (10 + number % BESIDE)}
    return {**request, "messages": [system, *request["messages"][1:]]}


Habit = Callable[[Json, int], Json]
LISTS = {"questions": list_questions, "loops": list_loops}
SEQUENCES: tuple[tuple[str, Habit, bool], ...] = (
    ("questions", keep, False),
    ("loops", keep, False),
    ("loops", give_role, False),
    ("loops", rotate_header, True),
    ("loops", rotate_tools, True),
    ("loops", edit_description, True),
)
"""What is asked, the habit, and whether it changes each step of a loop."""


def count(rows: Sequence[Json], kind: str, habit: Habit, *, changes: bool) -> tuple[int, ...]:
    """Requests, warnings that are due, those of them that came, and those that were not due. At the
    first step of a loop none is due, and none is wrong where the habit changes something."""
    watch = PrefixWatch()
    total = due = right = wrong = 0
    for number, (step, asked) in enumerate(LISTS[kind](rows)):
        turn = step if habit is rotate_tools else number
        request = habit(asked, turn)
        lost = watch.note(request["messages"], request["tools"], None)
        is_due = changes and step > 0
        if habit is rotate_tools:  # a few tools have the order of an earlier step again
            is_due = 0 < step < len(asked["tools"])
        total += 1
        due += is_due
        right += is_due and lost is not None
        wrong += not is_due and lost is not None and not (changes and step == 0)
    return total, due, right, wrong


def main() -> None:
    """Counts, and prints a table."""
    parser = argparse.ArgumentParser(description="Warnings that a prefix was lost.")
    parser.add_argument("rows")
    parser.add_argument("--most", type=int, default=400, help="rows")
    options = parser.parse_args()
    with open(options.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    usable = [row for row in rows if row.get("messages") and row.get("tools")]
    random.Random(0).shuffle(usable)
    print(f"{'asked':<10} {'habit':<17} {'requests':>8} {'due':>6} {'right':>6} {'wrong':>6}")
    for kind, habit, changes in SEQUENCES:
        counts = count(usable[: options.most], kind, habit, changes=changes)
        total, due, right, wrong = counts
        print(f"{kind:<10} {habit.__name__:<17} {total:>8} {due:>6} {right:>6} {wrong:>6}")


if __name__ == "__main__":
    main()
