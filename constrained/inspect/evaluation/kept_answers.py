"""Answers of `benchmarks.real` in a file: a run of hours can be stopped and gone on with."""

import json
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from benchmarks.bfcl.answers import Outcome
from benchmarks.bfcl.rows import Call, Question


class KeptAnswers(AbstractContextManager["KeptAnswers"]):
    """Outcomes by way and row: those of a JSON Lines file, and those that are added to it.

    Args:
        path: the file, which is made if there is none; None: outcomes are not kept.
    """

    def __init__(self, path: Path | None):
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._file: TextIO | None = None
        if path is None:
            return
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                key = row.pop("way"), row.pop("id")
                self._outcomes[key] = _read_outcome(row)
        self._file = path.open("a", encoding="utf-8")

    def __exit__(self, *exception: object) -> None:
        if self._file:
            self._file.close()

    def find(self, way: str, question: Question) -> Outcome | None:
        """Returns what this way has answered already."""
        return self._outcomes.get((way, question.id))

    def add(self, way: str, question: Question, outcome: Outcome) -> None:
        """Keeps an answer."""
        self._outcomes[way, question.id] = outcome
        if self._file:
            line = {"way": way, "kind": question.kind, "id": question.id} | asdict(outcome)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()


def _read_outcome(row: dict[str, Any]) -> Outcome:
    for name in ("kind", "measures", "envelopes"):  # some only in answers of older versions
        row.pop(name, None)
    calls = row.pop("calls")
    if calls is not None:
        calls = [Call(**call) for call in calls]
    return Outcome(calls=calls, **row)
