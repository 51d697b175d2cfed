"""Judges the answers of `benchmarks.real` by BFCL's own checker and by ours.

    python -m benchmarks.bfcl_judge ANSWERS.jsonl [PATH ...] --bfcl-eval FOLDER

ANSWERS.jsonl is what `benchmarks.real --answers` has written, PATHs are the rows that it asked.
FOLDER is a virtual environment, which is made if there is none; bfcl-eval is installed there
without the packages that it needs to ask models. Prints, for each way: the answers to rows that
need a tool, those that are exactly right by either judge, and the rows where the two disagree (2.0
is an integer to JSON Schema and to us, and none to BFCL). Java and JavaScript are left out: BFCL
judges their calls as source text.
"""

import argparse
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.bfcl.rows import Call, Question, is_exact, read_question
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from benchmarks.peers import prepare

PACKAGE = ("--no-deps", "bfcl-eval>=2026.3.23,<2027")
TYPES = {"object": "dict", "number": "float"}
"""JSON Schema's words -> BFCL's."""
CATEGORIES = ("simple_python", "live_simple", "multiple", "live_multiple")


def describe(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns the tool as BFCL describes it."""
    function = tool["function"]
    parameters = {"required": [], **_rename_types(function["parameters"])}
    return {"name": function["name"], "parameters": parameters}


def _rename_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_rename_types(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _rename_types(member) for key, member in schema.items()}
    if isinstance(renamed.get("type"), str):
        renamed["type"] = TYPES.get(renamed["type"], renamed["type"])
    return renamed


def judge(python: str, asked: Iterable[dict[str, Any]]) -> list[bool]:
    """Returns what BFCL's checker says of each, in order."""
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    command = [python, "-m", "benchmarks.peer_processes.bfcl_peer"]
    done = subprocess.run(command, input=lines, text=True, stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["valid"] for line in done.stdout.splitlines()]


def main() -> None:
    """Judges, and prints the table."""
    parser = argparse.ArgumentParser(description="BFCL's own checker beside ours.")
    parser.add_argument("answers", type=Path, metavar="ANSWERS.jsonl")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--bfcl-eval", type=Path, metavar="FOLDER", required=True)
    options = parser.parse_args()
    rows = {row["id"]: row for row in read_rows(options.paths or sample_paths())}
    judged: list[tuple[dict[str, Any], Question]] = []
    asked: list[dict[str, Any]] = []
    for line in options.answers.read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        row = rows.get(answer["id"])
        if row is None or row["category"] not in CATEGORIES or "gold_alternatives" not in row:
            continue
        question = read_question(row)
        if question is None:
            continue
        judged.append((answer, question))
        asked.append(
            {
                "functions": [describe(tool) for tool in row["tools"]],
                "calls": answer["calls"] or [],
                # Its tools have no dots in their names here, as APIs want it.
                "answers": [{question.right_name: right} for right in question.right_arguments],
                "category": row["category"],
            }
        )
    verdicts = judge(prepare(options.bfcl_eval, PACKAGE), asked)
    print_table(judged, verdicts)


def print_table(judged: list[tuple[dict[str, Any], Question]], verdicts: list[bool]) -> None:
    """The answers of each way, and the rows where the judges disagree."""
    print("| way | answers | exact | exact, by bfcl-eval | disagreements |")
    print("|---|---|---|---|---|")
    ways = dict.fromkeys(answer["way"] for answer, _ in judged)
    for way in ways:
        ours, theirs, disputed = 0, 0, list[str]()
        count = 0
        for (answer, question), verdict in zip(judged, verdicts, strict=True):
            if answer["way"] != way:
                continue
            calls = [Call(**call) for call in answer["calls"] or []]
            exact = is_exact(calls, question)
            count += 1
            ours += exact
            theirs += verdict
            if exact != verdict:
                disputed.append(answer["id"])
        print(f"| {way} | {count} | {ours} | {theirs} | {', '.join(disputed) or 'none'} |")


if __name__ == "__main__":
    main()
