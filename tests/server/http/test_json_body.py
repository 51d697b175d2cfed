"""Reading the JSON of a body: what is read, and what the error says of what is not."""

import json
from typing import Any

import pytest

from server.errors import HttpError
from server.http.json_body import MAX_DEPTH, point, read_json


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
    with pytest.raises(HttpError, match=r"1,000 values.*--max-values.*byte 3006") as caught:
        read(json.dumps({"a": 1, "x~y": [0] * 1000}).encode())
    assert caught.value.where == "/x~0y"
    deep = b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    with pytest.raises(HttpError, match=f"{MAX_DEPTH} deep") as caught:
        read(deep)
    assert caught.value.where == "/a"


def test_pointers() -> None:
    assert point() == ""
    assert point("a/b", 0, "~") == "/a~1b/0/~0"
