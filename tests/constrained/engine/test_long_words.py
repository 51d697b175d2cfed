"""Words so long that llama.cpp's tokenizer would end the process are cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.engine.llama_vocabulary import MAX_NUMBER_LENGTH, MAX_WORD_LENGTH, cut_words
from tests.hostile.attacked import run_attack

NAMES = re.compile(b"<\\|end\\|>")
KINDS = ["9", "a", " ", "!", "中", "\n", "٣", "aB", "a9"]
TOKENIZE = """
import sys
from constrained import embedded, load
with load(embedded.PATH, threads=1) as model:
    vocabulary = model.engine.vocabulary
    for kind in sys.argv[1:]:
        text = kind * (100_000 // len(kind))
        assert vocabulary.text(vocabulary.encode(text)) == text.encode()
"""


def test_no_text_ends_the_process() -> None:
    """100,000 digits did."""
    done = run_attack(TOKENIZE, ["9", "a", "a9"], memory=4 << 30)
    assert (done.returncode, done.stderr) == (0, "")


words = st.sampled_from([*KINDS, "<|end|>", "word ", "é"])
counts = st.sampled_from([1, 3, 130, 5_000])


@settings(max_examples=50)
@given(st.lists(st.tuples(words, counts), max_size=6), st.integers(0, 20_000))
def test_cuts_keep_characters_names_and_what_a_text_goes_on_from(
    spelled: list[tuple[str, int]], size: int
) -> None:
    text = "".join(word * count for word, count in spelled)
    data = text.encode()
    parts = [*cut_words(data, NAMES)]
    assert b"".join(parts) == data
    assert sum(part.count(b"<|end|>") for part in parts) == data.count(b"<|end|>")
    for part in parts:
        part.decode()
        for number in re.findall(rb"[0-9]+", part):
            assert len(number) <= MAX_NUMBER_LENGTH
        for word in re.findall(rb"[^ \t\r\n]+", part):
            assert len(word) < MAX_WORD_LENGTH + 8 or b"<|end|>" in word
    if b"<|end|>" not in data:
        begun = [*cut_words(text[:size].encode(), NAMES)]
        assert begun[:-1] == parts[: len(begun) - 1]


@pytest.mark.parametrize("text", ["word " * 5_000, "9" * MAX_NUMBER_LENGTH, "a" * MAX_WORD_LENGTH])
def test_other_texts_stay_whole(text: str) -> None:
    assert [*cut_words(text.encode(), NAMES)] == [text.encode()]
