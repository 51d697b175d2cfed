"""New chat templates: which format each gets, and whether recorded turns are accepted and read.

    python -m benchmarks.unseen PATH

PATH is a JSON Lines file. A row holds `name`, `template`, `tools`, `messages`, `text` (what the
model writes after the prompt), perhaps `alternatives` to it, and what it says: `gold` (the calls),
`content`, `reasoning`. For each template: its format, where that comes from, the rows whose text
the grammar accepts as a whole turn, those that are read as they are meant, and those whose meaning
the renderer writes so that it is accepted and read back. Rows with notes that begin with "lossy"
are left out: what the template writes there cannot be read.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.format_selection.selection import SelectedFormat, select_format
from constrained.replay.check import check_rows
from constrained.replay.replay_context import read_context
from constrained.template.chat_template import ChatTemplate
from constrained.tools.shapes import read_tools
from grammars.errors import Error
from grammars.render import render
from grammars.turn import Start, ToolCall, Turn

Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a row fares.

    Args:
        accepted: the grammar takes the text as a whole turn.
        read: the text is read as it is meant.
        rendered: what is meant, written by the renderer, is accepted and read back.
        fault: what is wrong; "" if nothing is.
    """

    accepted: bool
    read: bool
    rendered: bool
    fault: str = ""


def read(path: str | Path) -> Iterator[Row]:
    """Yields the rows of a file that can be scored."""
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if not str(row.get("notes") or "").startswith("lossy"):
                yield row


def select(row: Row) -> SelectedFormat:
    """Returns the format that the template of a row gets."""
    template = ChatTemplate(
        row["template"],
        bos_token=row.get("bos_token") or "",
        eos_token=row.get("eos_token") or "",
        name=row["name"],
    )
    return select_format(template)


def judge(row: Row) -> Verdict:
    """Checks the text of a row, and what the renderer makes of its meaning."""
    best = Verdict(accepted=False, read=False, rendered=False)
    for text in (row["text"], *(row.get("alternatives") or ())):
        (answer,) = check_rows([{**row, "text": text}])
        accepted = bool(answer["accepted"] and answer["complete"])
        is_read = accepted and bool(answer["valid"]) and means(row, answer)
        fault = "" if is_read else json.dumps(answer, ensure_ascii=False)
        verdict = Verdict(accepted=accepted, read=is_read, rendered=False, fault=fault)
        if (verdict.accepted, verdict.read) > (best.accepted, best.read) or not best.fault:
            best = verdict
        if is_read:
            break
    rendered = _is_rendered(row)
    return Verdict(best.accepted, best.read, rendered, best.fault)


def means(row: Row, answer: Row) -> bool:
    """Returns whether the answer has the calls of the row, and its content and reasoning if it
    names them."""
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in answer["tool_calls"]]
    if calls != row["gold"]:
        return False
    parsed = {"content": answer["content"], "reasoning": answer["reasoning_content"]}
    return all(parsed[key].strip() == row[key] for key in parsed if row.get(key))


def _is_rendered(row: Row) -> bool:
    """Returns whether the renderer writes the calls of the row so that they are accepted and read
    back."""
    try:
        context = read_context(row)
        state = context.find_state(row, row["tools"])
        reasoning = "ok" if state.start is Start.OPEN else ""
        calls: list[ToolCall] = []
        for number, call in enumerate(row["gold"]):
            calls.append(ToolCall(call["name"], call["arguments"], id=f"abcdefgh{number}"))
        turn = Turn(reasoning=reasoning, calls=tuple(calls))
        text = render(turn, context.format, read_tools(row["tools"]), state)
    except Error:
        return False
    (answer,) = check_rows([{**row, "text": text}])
    meant = {"gold": row["gold"]}
    return bool(answer["complete"] and answer["valid"]) and means(meant, answer)


def group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each template."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return groups


def describe(name: str, rows: Sequence[Row], *, verbose: bool) -> tuple[int, int, int]:
    """Prints the line of a template; returns its rows accepted, read and rendered."""
    selected = select(rows[0])
    verdicts = [judge(row) for row in rows]
    counts = (
        sum(verdict.accepted for verdict in verdicts),
        sum(verdict.read for verdict in verdicts),
        sum(verdict.rendered for verdict in verdicts),
    )
    cells = "".join(f"{count:>10}" for count in counts)
    kind = f"{selected.format.name} ({selected.origin.value})"
    print(f"{name:<32}{kind:<28}{len(rows):>6}{cells}")
    if verbose:
        print(f"    {selected.notice}")
        for row, verdict in zip(rows, verdicts, strict=True):
            if verdict.fault:
                print(f"    {row['id']}: {verdict.fault[:400]}")
    return counts


def main() -> int:
    """Prints a table; 1 if a row is not read as it is meant."""
    parser = argparse.ArgumentParser(description="Tries templates that nobody has looked at.")
    parser.add_argument("path")
    parser.add_argument("--only", default="", help="a part of the names of templates")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what is wrong")
    options = parser.parse_args()
    rows = [row for row in read(options.path) if options.only in row["name"]]
    heads = "".join(f"{head:>10}" for head in ("accepted", "read", "rendered"))
    print(f"{'template':<32}{'format':<28}{'rows':>6}{heads}")
    totals = [0, 0, 0]
    for name, own in group(rows).items():
        counts = describe(name, own, verbose=options.verbose)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    cells = "".join(f"{total:>10}" for total in totals)
    print(f"{'all':<60}{len(rows):>6}{cells}")
    return 0 if totals[1] == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
