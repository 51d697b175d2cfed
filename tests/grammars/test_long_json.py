"""JSON written in pieces is what the standard library writes; long data have names of their own."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars import long_json
from grammars.long_json import measure_json, pack_key, write_pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\é😀\ud83d\n', max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "PIECE", 12)


@given(VALUES, st.booleans())
def test_it_is_the_same_json(value: Any, ensure_ascii: bool) -> None:
    pieces = list(write_pieces(value, ensure_ascii=ensure_ascii))
    assert "".join(pieces) == json.dumps(value, ensure_ascii=ensure_ascii)
    assert max(map(len, pieces)) <= 12 * len("\\ud83d\\ude00") + 2


def test_short_items_are_written_together() -> None:
    """A call and a text for each of a million tokens would take a second."""
    assert write_pieces({"a": [1, 2, 3, 4, "a long text", 5, 6]}) == [
        *("{", '"', "a", '"', ": "),
        *("[", "1, 2", ", ", "3, 4", ", ", '"', "a long text", '"', ", ", "5, 6", "]"),
        "}",
    ]


def test_depth_takes_no_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value is looked at once, however deep it is nested."""
    looks = 0
    measure = long_json._PieceWriter.measure

    def count(writer: Any, value: Any) -> int:
        nonlocal looks
        looks += 1
        return measure(writer, value)

    monkeypatch.setattr(long_json._PieceWriter, "measure", count)
    value: Any = [1] * 100
    for _ in range(100):
        value = [value]
    assert "".join(write_pieces(value)) == json.dumps(value)
    assert looks == 201


@given(VALUES, VALUES)
def test_names_tell_data_apart(one: Any, other: Any) -> None:
    same = json.dumps(one) == json.dumps(other)
    assert (pack_key(one) == pack_key(other)) is same


@given(VALUES)
def test_what_is_short_is_measured_as_such(value: Any) -> None:
    """No value is far longer than it is said to be, so no call writes a long one."""
    assert len(json.dumps(value, ensure_ascii=False)) <= 2 * measure_json(value, 10_000) + 12


def test_it_stops_at_its_limit() -> None:
    assert 9 < measure_json([["a" * 99] * 99] * 99, 9) < 999
