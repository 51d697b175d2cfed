"""Words of texts in any language, and documents ranked by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.agent.search.word_index import MAX_CHARACTERS, WordIndex, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserByID", ["get", "user", "by", "id"]),
        ("get_user.by-ID", ["get", "user", "by", "id"]),
        ("HTTPServer parseJSONText", ["http", "server", "parse", "json", "text"]),
        ("base64 utf8", ["base64", "utf8"]),
        ("Categories, buses; classes & gas", ["category", "buse", "classe", "gas"]),
        ("Café NAÏVE Straße", ["cafe", "naive", "strasse"]),
        ("ｇｅｔ ﬁle", ["get", "file"]),
        ("天気予報API", ["天気", "気予", "予報", "api"]),
        ("火", ["火"]),
        ("हिन्दी शब्द", ["हिन्दी", "शब्द"]),
        ("погодаВМоскве", ["погода", "в", "москве"]),
        ("... --- !", []),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.text())
def test_words_are_found_again_in_whatever_case_they_are_written(text: str) -> None:
    index = WordIndex([[("unrelated", 1.0)], [(text, 1.0)]])
    for word in split_words(text):
        assert word
    if split_words(text) and "unrelated" not in split_words(text):
        assert index.rank(text) == [1]
    assert index.rank(text) == index.rank(text)


def test_what_has_more_and_rarer_words_of_the_query_comes_first() -> None:
    documents = ["read file", "read mail", "read mail of today", "write file", "read clock"]
    index = WordIndex([[(text, 1.0)] for text in documents])
    assert index.rank("read my mail") == [1, 2, 0, 4]
    assert index.rank("clock") == [4]
    assert index.rank("nothing of this") == [2]  # of
    assert index.rank("") == []
    assert WordIndex([]).rank("read") == []


def test_words_of_a_name_count_more_and_equal_ones_keep_their_order() -> None:
    fields = [("ping", 2.0), ("weather", 1.0)]
    other = [("weather", 2.0), ("ping", 1.0)]
    assert WordIndex([fields, other, other]).rank("weather") == [1, 2, 0]


@pytest.mark.parametrize(
    "text", ["a" * 900_000, "aB" * 400_000, "\u05b0\u0591" * 400_000, "\ufdfa" * 400_000]
)
def test_of_a_long_text_the_beginning_counts(text: str) -> None:
    """A word took the square of its length, and so did marks that are not in order."""
    assert split_words(text) == split_words(text[:MAX_CHARACTERS])


def test_marks_after_a_letter_are_few() -> None:
    assert split_words("\u05d0" + "\u05b0" * 1_000) == ["\u05d0" + "\u05b0" * 30]
