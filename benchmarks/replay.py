"""Replays recorded turns through `constrained check` and compares the results with the expected
ones.

    python -m benchmarks.replay [PATH ...] [--markers text|token]

PATHs are JSON Lines files. A row holds `template` (a file, or the name of a template of llama.cpp)
or `format`; `tools`; `text` or `assistant_text`; and what is wanted: `gold` or `expected` calls, or
`expected: "reject" | "invalid"`. Without a PATH, the committed sample. Rows of templates whose
format is not known are counted apart.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs.tool_sets import SAMPLE
from constrained.inspect.replay.check import check_rows
from constrained.inspect.replay.replay_context import read_context
from examples.random_model.sources import models_directory
from grammars.turn import Start

_OFF = {"enable_thinking": False, "thinking": False}


def read(paths: Iterable[str | Path]) -> Iterator[dict[str, Any]]:
    """Yields the rows of all files, in the row form of `check`."""
    for path in paths:
        with Path(path).open(encoding="utf-8") as lines:
            yield from (_as_check_row(json.loads(line)) for line in lines)


def _as_check_row(row: dict[str, Any]) -> dict[str, Any]:
    row = {"text": row.get("assistant_text"), **row}
    if "template" in row and "\n" not in row["template"] and not Path(row["template"]).is_file():
        row["template"] = str(models_directory() / "templates" / row["template"])
    if row.get("variant") == "off":
        row["chat_template_kwargs"] = _OFF
    if row.get("variant") == "prefill_dropped_in_history":
        row["text"] = _think_first(row)
    return row


def _think_first(row: dict[str, Any]) -> str:
    """Returns the text after a thought, where the prompt opens one that the history leaves out."""
    frame = read_context(row)
    block = frame.format.reasoning
    state = frame.find_state(row, row["tools"])
    if block is None or state.start is not Start.OPEN or block.closer.text in row["text"]:
        return row["text"]
    return f"ok{block.closer.text}{row['text']}"


def judge(row: dict[str, Any], answer: dict[str, Any]) -> str:
    """`right`, `wrong`, or `unknown format`."""
    if answer["format"] is None:
        return "unknown format"
    wanted: Any = row.get("gold", row.get("expected"))
    if isinstance(wanted, str):
        return "wrong" if answer["accepted"] and answer["complete"] else "right"
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in answer["tool_calls"]]
    fine = answer["complete"] and answer["valid"] and calls == _written(wanted, row["text"])
    return "right" if fine else "wrong"


def _written(calls: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Returns those of the calls that the template has written; some write the first one alone."""
    names = [call["name"] for call in calls]
    return [c for i, c in enumerate(calls) if text.count(c["name"]) > names[:i].count(c["name"])]


def replay(
    rows: Sequence[dict[str, Any]], markers: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yields each row with its answer and verdict."""
    answers = check_rows({**row, "markers": markers} for row in rows)
    for row, answer in zip(rows, answers, strict=True):
        yield row, answer, judge(row, answer)


def main() -> int:
    """Prints a table; 1 if a row is wrong."""
    parser = argparse.ArgumentParser(description="Replays recorded turns.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--markers", choices=("text", "token"), default="text")
    options = parser.parse_args()
    rows = list(read(options.paths or sorted(SAMPLE.glob("turns_*.jsonl"))))
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    wrong: list[str] = []
    for row, answer, verdict in replay(rows, options.markers):
        source = Path(row.get("template", row.get("format", "?"))).name
        wanted = "reject" if isinstance(row.get("gold", row.get("expected")), str) else "calls"
        wanted = "reject" if row.get("expected") in ("reject", "invalid") else wanted
        key = (answer["format"] or "unknown format", source, wanted)
        counts.setdefault(key, Counter())[verdict] += 1
        if verdict == "wrong":
            wrong.append(f"{row['id']}: {json.dumps(answer, ensure_ascii=False)[:300]}")
    heads = "".join(f"{head:>6}" for head in ("right", "wrong", "other"))
    print(f"{'format':<16}{'template or format':<58}{'wanted':<10}{heads}")
    for key, count in sorted(counts.items()):
        cells = "".join(f"{count[v]:>6}" for v in ("right", "wrong", "unknown format"))
        print(f"{key[0]:<16}{key[1]:<58}{key[2]:<10}{cells}")
    totals = Counter(v for count in counts.values() for v in count.elements())
    print(dict(totals))
    print("\n".join(wrong[:10]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
