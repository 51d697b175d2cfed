"""One line for each real failure, with its thread; `expect` is what `constrained check` answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from constrained.inspect.conformance.rows import read_packaged_rows
from constrained.inspect.replay.check import check_rows

ROWS = [row for row in read_packaged_rows() if isinstance(row, Mapping)]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
@pytest.mark.parametrize("markers", ["text", "token"])
def test_the_failure_stays_mended(row: Mapping[str, Any], markers: str) -> None:
    answer = next(check_rows([{**row, "markers": markers}]))
    assert {key: _shorten(answer[key]) for key in row["expect"]} == row["expect"]


def test_all_rows_are_read() -> None:
    assert len(ROWS) == len(list(read_packaged_rows())) > 70
    assert len({row["id"] for row in ROWS}) == len(ROWS)


def _shorten(value: Any) -> Any:
    """Calls without what a row does not speak of."""
    if isinstance(value, list):
        return [{k: call[k] for k in ("name", "arguments", "valid")} for call in value]
    return value
