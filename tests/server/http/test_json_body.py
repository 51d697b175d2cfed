"""Reading the JSON of a body: what is read, and what the error says of what is not."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.schema.pointers import point_to
from server.errors import HttpError
from server.http.json_body import MAX_DEPTH, read_json


def read(body: bytes) -> Any:
    return read_json(body, max_values=1000)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1, "a": 2}', {"a": 2}),  # of two members of one name, the last counts
        (b"[123456789012345678901234567890]", [123456789012345678901234567890]),
        (b'"\\ud83d"', "\ud83d"),  # half an emoji, from a client that cut the text
        (b'"\\ud83d\\ude00"', "😀"),
        (b"\xef\xbb\xbf[1]", [1]),
        (b" [1.5e3, true, null]\r\n", [1500.0, True, None]),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None),
    ],
)
def test_what_is_read(body: bytes, value: Any) -> None:
    found = read(body)
    if value is None:
        assert json.dumps(found).encode() == body
    else:
        assert found == value


@pytest.mark.parametrize(
    ("body", "words", "offset"),
    [
        (b'{"a": NaN}', "NaN", 6),
        (b'{"NaN": [1, -Infinity]}', "-Infinity", 12),
        ('{"é": "\\"NaN", "b": NaN}'.encode(), "NaN", 21),
        (b'["' + b"1" * 5000 + b'", ' + b"1" * 5000 + b"]", "4,300 digits", 5005),
        (b"", "empty", None),
        (b" \n", "empty", None),
        (b'{"a": [1, 2', "ends too early", 11),
        (b'{"a": "x', "not JSON", 6),
        ('["é" 1]'.encode(), "delimiter", 6),
        (b'["\xff"]', "UTF-8", 2),
        ("[1]".encode("utf-16"), "UTF-8", 0),
        (b"[1] x", "Extra data", 4),
        (b'["a\nb"]', "control character", 3),
        (b"{'a': 1}", "property name", 1),
        (b"a=1", "Expecting value", 0),
    ],
)
def test_what_is_not(body: bytes, words: str, offset: int | None) -> None:
    with pytest.raises(HttpError) as caught:
        read(body)
    error = caught.value
    assert (error.status, error.code) == (400, "invalid_json")
    assert words in error.message
    if offset is not None:
        assert error.message.endswith(f"at byte {offset}")


def test_limits_name_the_field_and_the_option() -> None:
    with pytest.raises(HttpError, match=r"1,000 values.*--max-values.*byte 3000") as caught:
        read(json.dumps({"a": 1, "x~y": [0] * 1000}).encode())
    assert caught.value.where == "/x~0y"
    deep = b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    with pytest.raises(HttpError, match=f"{MAX_DEPTH} deep") as caught:
        read(deep)
    assert caught.value.where == "/a"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},:é', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + count(member) for member in value.values())
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(VALUES, st.booleans())
@example("\\", True)
@example(['\\"', [[]]], False)
def test_values_are_counted_before_they_are_read(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    empty = text.count(b"[]") + text.count(b"{}")  # some may stand in texts
    assert read_json(text, max_values=count(value) + empty) == value
    if count(value) > 1:
        with pytest.raises(HttpError, match="--max-values"):
            read_json(text, max_values=count(value) - 1)


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
@pytest.mark.parametrize("beside", ["[", "]]]]", '\\"[', ""])
def test_depth_is_that_of_brackets_outside_texts(depth: int, beside: str) -> None:
    text = json.dumps(beside).encode() + b"," + b"[" * (depth - 1) + b"]" * (depth - 1)
    if depth == MAX_DEPTH:
        assert read(b"[" + text + b"]")[0] == beside
    else:
        with pytest.raises(HttpError, match="deep"):
            read(b"[" + text + b"]")


@pytest.mark.parametrize("text", [b'{"a', b"[[" * 999, b'[\\"[[[', b"\xff" + b"[" * 999])
def test_what_is_not_json_is_refused_before_or_after(text: bytes) -> None:
    with pytest.raises(HttpError):
        read(text)


def test_pointers() -> None:
    assert point_to([]) == ""
    assert point_to(["a/b", 0, "~"]) == "/a~1b/0/~0"
