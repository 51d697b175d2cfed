"""New chat templates: which format each gets, and whether recorded turns are accepted and read.

    python -m benchmarks.unseen PATH

PATH is a JSON Lines file. A row holds `name`, `template`, `tools`, `messages`, `text` (what the
model writes after the prompt), perhaps `alternatives` to it, and what it says: `gold` (the calls),
`content`, `reasoning`. For each template: its format, where that comes from, the rows whose text
the grammar accepts as a whole turn, and those that are read as they are meant. Rows with notes that
begin with "lossy" are left out: what the template writes there cannot be read. What is wrong with
the others is told.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.inspect.replay.check import check_rows
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Verdict:
    """How a row fares.

    Args:
        accepted: the grammar takes the text as a whole turn.
        read: the text is read as it is meant.
        answer: of `constrained check`.
    """

    accepted: bool
    read: bool
    answer: str


def read(path: Path) -> Iterator[Row]:
    """Yields the rows of a file that can be scored."""
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if not str(row.get("notes") or "").startswith("lossy"):
                yield row


def judge(row: Row) -> Verdict:
    """Checks the text of a row and its alternatives; returns the best verdict."""
    verdicts: list[Verdict] = []
    for text in (row["text"], *(row.get("alternatives") or ())):
        (answer,) = check_rows([{**row, "text": text}])
        accepted = bool(answer["accepted"] and answer["complete"])
        is_read = accepted and bool(answer["valid"]) and means(row, answer)
        verdicts.append(Verdict(accepted, is_read, json.dumps(answer, ensure_ascii=False)))
    return max(verdicts)


def means(row: Row, answer: Row) -> bool:
    """Returns whether the answer has the calls of the row, and its content and reasoning if it
    names them."""
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in answer["tool_calls"]]
    if calls != row["gold"]:
        return False
    parsed = {"content": answer["content"], "reasoning": answer["reasoning_content"]}
    return all(parsed[key].strip() == row[key] for key in parsed if row.get(key))


def describe(name: str, rows: Sequence[Row]) -> tuple[int, int]:
    """Prints the line of a template; returns how many rows are accepted, and how many read."""
    tokens = {key: rows[0].get(key) or "" for key in ("bos_token", "eos_token")}
    selected = select_format(ChatTemplate(rows[0]["template"], name=name, **tokens))
    verdicts = [judge(row) for row in rows]
    accepted = sum(verdict.accepted for verdict in verdicts)
    is_read = sum(verdict.read for verdict in verdicts)
    kind = f"{selected.format.name} ({selected.origin.value})"
    print(f"{name:<32}{kind:<28}{len(rows):>6}{accepted:>10}{is_read:>10}")
    for row, verdict in zip(rows, verdicts, strict=True):
        if not verdict.read:
            print(f"    {row['id']}: {verdict.answer[:400]}")
    return accepted, is_read


def main() -> int:
    """Prints a table; 1 if a row is not read as it is meant."""
    parser = argparse.ArgumentParser(description="Tries templates that nobody has looked at.")
    parser.add_argument("path", type=Path)
    groups: dict[str, list[Row]] = {}
    for row in read(parser.parse_args().path):
        groups.setdefault(row["name"], []).append(row)
    print(f"{'template':<32}{'format':<28}{'rows':>6}{'accepted':>10}{'read':>10}")
    count = accepted = is_read = 0
    for name, rows in groups.items():
        found = describe(name, rows)
        count += len(rows)
        accepted += found[0]
        is_read += found[1]
    print(f"{'all':<60}{count:>6}{accepted:>10}{is_read:>10}")
    return 0 if is_read == count else 1


if __name__ == "__main__":
    raise SystemExit(main())
