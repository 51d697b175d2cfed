"""One line for each real failure, with its thread; `expect` is what `constrained check` answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.replay.check import check_rows

ROWS = [
    json.loads(line)
    for file in sorted(Path(__file__).parent.glob("*.jsonl"))
    for line in file.read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
@pytest.mark.parametrize("markers", ["text", "token"])
def test_the_failure_stays_mended(row: dict[str, Any], markers: str) -> None:
    answer = next(check_rows([{**row, "markers": markers}]))
    assert {key: _shorten(answer[key]) for key in row["expect"]} == row["expect"]


def _shorten(value: Any) -> Any:
    """Calls without what a row does not speak of."""
    if isinstance(value, list):
        return [{k: call[k] for k in ("name", "arguments", "valid")} for call in value]
    return value
