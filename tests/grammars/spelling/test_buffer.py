"""The push buffer and the reader of values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.spelling.buffer import Buffer, CutError
from grammars.spelling.value_reader import ValueReader
from grammars.wire.format import JsonStyle
from tests.schema_strategies import VALUES

CONTAINERS = VALUES.filter(lambda value: isinstance(value, list | dict))


@given(CONTAINERS, st.text(max_size=5), st.integers(0, 40), st.sampled_from([None, 2]))
def test_the_end_of_a_json_value_is_found(value: Any, rest: str, cut: int, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert ValueReader(JsonStyle()).feed(text + rest) == len(text)
    reader = ValueReader(JsonStyle())
    cut = min(cut, len(text) - 1)
    assert reader.feed(text[:cut]) is None
    assert reader.feed(text[cut:] + rest) == len(text) - cut


@pytest.mark.parametrize("text", ["{<", '{"a" \\', "{'", "{a: $}"])
def test_what_is_no_json_is_told_early(text: str) -> None:
    with pytest.raises(ValueError, match="in JSON"):
        ValueReader(JsonStyle()).feed(text)


@given(st.data())
def test_a_buffer_gives_back_what_was_taken(data: st.DataObject) -> None:
    text = "abcdefgh"
    buffer = Buffer()
    buffer.push(text)
    at, marks = 0, list[int]()
    for _ in range(data.draw(st.integers(0, 12))):
        match data.draw(st.sampled_from(["mark", "take", "back", "forget"])):
            case "mark":
                buffer.mark()
                marks.append(at)
            case "take":
                count = data.draw(st.integers(0, 4))
                assert buffer.take(count) == text[at : at + count]
                at = min(at + count, len(text))
            case "back" if marks:
                taken = buffer.forget()
                assert taken == text[marks.pop() : at]
                buffer.unread(taken)
                at -= len(taken)
            case "forget" if marks:
                assert buffer.forget() == text[marks.pop() : at]
            case _:
                pass
        assert (buffer.rest, buffer.position) == (text[at:], at)


def test_a_closed_buffer_has_no_more() -> None:
    buffer = Buffer()
    buffer.closed = True
    with pytest.raises(CutError):
        next(buffer.need())
    with pytest.raises(StopIteration):
        next(buffer.skip("\n"))
    with pytest.raises(StopIteration) as end:
        next(buffer.until((), print))
    assert end.value.value is None
