"""JSON read in pieces is what it is read as a whole: values, mistakes, and their bytes."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.errors import HttpError
from server.http import json_body, json_pieces
from server.http.json_body import read_json
from server.http.json_pieces import PIECE, read_in_pieces

LEAST = 13  # bytes of a piece: both escapes of a character, and one more
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(alphabet='a"\\[]{},:é😀\ud83d\ude00\n', max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
DAMAGE = st.sampled_from(
    [b"", b",", b"[", b"]", b"{", b"}", b'"', b"\\", b":", b"1", b" ", b"\xc3"]
)


def read(text: bytes, piece: int) -> Any:
    """The value, or the mistake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECE", piece)
        patch.setattr(json_body, "PIECE", piece)
        try:
            return json.dumps(read_json(text, max_values=1000))
        except HttpError as error:
            return error


def check_same(text: bytes, piece: int) -> None:
    whole, in_pieces = read(text, len(text)), read(text, piece)
    if not isinstance(whole, HttpError):
        assert in_pieces == whole
        return
    assert isinstance(in_pieces, HttpError)
    if b"\xc3" not in text:  # as a whole, what is no UTF-8 is noticed first
        assert in_pieces.message == whole.message


@given(VALUES, st.booleans(), st.sampled_from([None, 1]), st.integers(LEAST, 40))
@example(["\ud83d", "a" * 9 + "😀" * 9], True, None, LEAST)
@example({"a" * 40: {"b" * 40: ["\\" * 40]}}, False, None, LEAST)
def test_values_are_the_same(value: Any, is_ascii: bool, indent: int | None, piece: int) -> None:
    written = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    check_same(written.encode(errors="replace"), piece)


@given(VALUES, st.data())
def test_mistakes_are_the_same(value: Any, data: st.DataObject) -> None:
    written = json.dumps(value).encode()
    at = data.draw(st.integers(0, len(written)))
    removed = data.draw(st.integers(0, 3))
    damaged = written[:at] + data.draw(DAMAGE) + written[at + removed :]
    check_same(damaged, data.draw(st.integers(LEAST, 40)))


@pytest.mark.parametrize(
    "text",
    [
        b'[1, 2, "' + b"a" * 50 + b'",]',
        b'{"a": "' + b"a" * 50 + b'", "b" 1}',
        b'{"a": "' + b"a" * 50 + b'" "b": 1}',
        b'["' + b"a" * 50 + b"}",
        b'["' + b"a" * 50 + b'"}',
        b"[" + b" " * 50 + b", 1]",
        b'["' + b"a" * 50 + b"\\x" + b"a" * 50 + b'"]',
        b'["' + b"a" * 50 + b"\n" + b"a" * 50 + b'"]',
        b'[1, {"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, NaN, 1]}]',
        b"[" + b"1" * 50 + b"x]",
        b'{"a": 1, "a": "' + b"a" * 50 + b'", "a": 2}',
        b"[1] " + b" " * 50 + b"x",
        b" " * 50 + b"[1]" + b" " * 50,
        b'"' + b"a" * 50,
    ],
)
def test_edges_are_the_same(text: bytes) -> None:
    check_same(text, LEAST)
    check_same(text, 40)


def test_a_number_is_no_longer_than_a_piece() -> None:
    with pytest.raises(HttpError, match=r"a number has more than 131,072 characters, at byte 1$"):
        read_json(b"[0." + b"1" * 200_000 + b"]", max_values=9)


def test_no_piece_is_long() -> None:
    """Whoever else runs waits for one of them at most."""
    items = [{"a": [1, "b\n" * 99]}] * 999
    value = {"a": "\n" * 999_999, "b" * 999_999: items, "c": [[items], "é" * 999_999], "d": 1}
    sizes: list[int] = []

    def note(piece: bytes, offset: int) -> Any:
        sizes.append(len(piece))
        return json.loads(piece)

    assert read_in_pieces(json.dumps(value).encode(), note) == value
    assert max(sizes) <= PIECE + len("[]")
    assert len(sizes) < 99


LONG = b'"' + b"a" * (PIECE + 999) + b'"'
NESTED = [
    (b"[1," * 500, b"]" * 500),
    (b"[" * 500, b",1]" * 500),
    (b'{"a":1,"b":' * 500, b"}" * 500),
    (b'{"b":' * 500, b',"a":[]}' * 500),
    (b'{"' + b"\\n" * 99 + b'":', b"}"),
    ((b'{"' + b"n" * 260 + b'":') * 400, b"}" * 400),
    (b"[[1]," * 500, b" , [{}] ]" * 500),
    (b"[" * 500 + b" " * 999, b" " * 99 + b"]" * 500),
]


@pytest.mark.parametrize(("opened", "closed"), NESTED)
@pytest.mark.parametrize("middle", [LONG, b"[1]" + b" " * PIECE, b"[" + b"1," * 66_000])
def test_depth_adds_no_looks(
    opened: bytes, closed: bytes, middle: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is nested deeply where it is cut is looked through as often as any other text."""
    looked = list[int]()
    mask = json_pieces._mask

    def note(text: bytes) -> bytes:
        looked.append(len(text))
        return mask(text)

    monkeypatch.setattr(json_pieces, "_mask", note)
    ends = b"1]" if middle.startswith(b"[1,") else b""
    text = b"[" + b",".join([opened + middle + ends + closed] * 3) + b"]"
    assert read_in_pieces(text, lambda piece, offset: json.loads(piece)) == json.loads(text)
    assert sum(looked) < 6 * len(text)
