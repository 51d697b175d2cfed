"""The tokens that go along a text that opens a call."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.vocabulary.call_openings import CallOpenings
from tests.scripted_model import BYTES

TEXTS = st.text("<ab> ", min_size=1, max_size=5)


@given(st.lists(TEXTS, max_size=30), TEXTS)
def test_they_spell_its_beginning_or_all_of_it(tokens: list[str], text: str) -> None:
    vocabulary = replace(BYTES, tokens=tuple(token.encode() for token in tokens), names={})
    found = vocabulary.find_along(text.encode())
    along = [text.startswith(token) or token.startswith(text) for token in tokens]
    assert sorted(found) == [index for index, is_along in enumerate(along) if is_along]


def test_an_opening_goes_on_behind_its_first_token() -> None:
    texts = (b"<", b"<tool", b" <tool", b"_call>", b"_call", b"tool", b"b", b"\n\n<", b"\n", b"")
    names = {9: "<tool_call>"}
    openings = CallOpenings(["<tool_call>"], replace(BYTES, tokens=texts, names=names))

    def find(written: bytes) -> list[int] | None:
        found = openings.find(written)
        return None if found is None else found.tolist()

    assert find(b"") == find(b"\n") == [0, 1, 2, 7, 9]
    assert find(b"<tool") == [3, 4]
    assert find(b"<tool_call>") is None
    assert find(b"<b") is None
