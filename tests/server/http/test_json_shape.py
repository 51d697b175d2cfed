"""The shape of JSON, measured before it is read, against what the reader finds."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.http import json_shape
from server.http.json_shape import Excess, find_excess

MANY = 1 << 30
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},é', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    return 1


def measure_depth(value: Any) -> int:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*value.values()]
    elif isinstance(value, list):
        inner = value
    else:
        return 0
    return 1 + max(map(measure_depth, inner), default=0)


def exceeds(text: bytes, *, values: int = MANY, depth: int = MANY) -> bool:
    return find_excess(text, max_values=values, max_depth=depth) is not None


@given(VALUES, st.booleans(), st.integers(1, 20))
@example("\\", True, 1)
@example(['\\"', [[]]], False, 2)
def test_it_counts_what_the_reader_reads(value: Any, is_ascii: bool, piece: int) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    depth = measure_depth(value)
    empty = text.count(b"[]") + text.count(b"{}")  # some may stand in texts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "PIECE", piece)
        assert not exceeds(text, depth=depth)
        assert depth == 0 or exceeds(text, depth=depth - 1)
        assert not exceeds(text, values=count(value) + empty)
        assert count(value) == 1 or exceeds(text, values=count(value) - 1)


def test_it_says_where() -> None:
    text = json.dumps({"a": [1, 2], "b/c": {"d": [1, 2, 3]}}).encode()
    assert find_excess(text, max_values=8, max_depth=9) == Excess(
        is_depth=False, offset=text.index(b", 3"), field="b/c"
    )
    assert find_excess(text, max_values=99, max_depth=2) == Excess(
        is_depth=True, offset=text.rindex(b"["), field="b/c"
    )


@pytest.mark.parametrize("text", [b'"', b"\\", b'{"a', b"]]]]", b'[\\"[[[', b"\xff[["])
def test_what_is_no_json_is_left_to_the_reader(text: bytes) -> None:
    assert find_excess(text, max_values=MANY, max_depth=9) is None
