"""Patterns are measured before an engine compiles them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.errors import SchemaError
from grammars.lowering.lower import lower
from grammars.regex.compiled_size import MAX_SIZE, estimate_ranges


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("a{3}", 3),
        ("a{2,5}b", 6),
        ("a{2,}", 2),
        ("a{0}", 1),
        ("(ab){3}c", 7),
        ("((a{10}){10}){10}", 1000),
        ("(a|bc){4}", 16),
        (r"\p{L}{1,200}", 140_000),
        (r"\.{3}", 3),
        ("[^a]{4}", 56),
        (r"[\]a]{2}", 10),
        ("a{99999999999999999999}", MAX_SIZE),
        ("(((((a{9999}){9999}){9999}){9999}){9999}){9999}", MAX_SIZE),
        ("(a{5}", 5),
        ("a)){5}", 7),
        ("{5}", 0),
        ("[a", 2),
        ("(?i)a{3}", 15),
        (r"(?=.)\d{3}", 250),
        (r"(?P<n>[^\]]{3})(?:a|\(?[0-9]{3}\))", 65),
    ],
)
def test_counts_are_written_out(pattern: str, size: int) -> None:
    assert estimate_ranges(pattern) == size


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?x)\p{L} {1,200}",
        r"(?x)\p{L}{1, 200}",
        r"(?x)\p{L}{2 0 0}",
        "(?x)\\p{L}{20#}\n0}",
        "(?x)\\p{L}#a\n{200}",
        r"(?s-i)(?ix:\p{L} {200})",
        r"[]\p{L}]{200}",
        r"[^]\p{L}]{200}",
        r"(?=.)[^]\w]{200}",
        r"(?=.)[a[\p{L}]]{200}",
        r"[\p{L}~~a]{200}",
        r"[a-z&&\p{L}]{200}",
        r"(?=.)\p{L}(?#x){200}",
        r"(?=.)\p{L}{,200}",
        r"(?=.)\w{200}",
        r"(?<!a)[^\w]{200}",
        r"\0?\w{200}",
        r"(a)\1\W{200}",
    ],
)
def test_what_the_engine_may_read_otherwise_is_not_estimated_too_small(pattern: str) -> None:
    """All of these take it as long as `\\p{L}{200}`, or might."""
    assert estimate_ranges(pattern) >= estimate_ranges(r"\p{L}{200}")


def test_classes_without_case_are_counted_once_for_all_their_characters() -> None:
    """3 ms for each of them, and less for those of few characters."""
    for pattern in (r"(?i)[#\W]", r"(?i)[\x00-\u{10ffff}]", "(?i)[\0-\U0010ffff]", r"(?i)\p{Any}"):
        assert 12_000 < estimate_ranges(pattern) < 13_000
        assert estimate_ranges(pattern * 3 + "{9}") < 25_000 or "-" in pattern
    assert estimate_ranges("(?i)".join(rf"[{letter}\W]" for letter in "abcdefghi")) > 100_000
    assert estimate_ranges("(?i)^[a-zÀ-ÿ]{2,40}$") < 1000


@given(st.text(st.sampled_from(r"ab(){}[]^\pL,19.|*+?-&")))
def test_whatever_stands_there_has_a_size(pattern: str) -> None:
    assert 0 <= estimate_ranges(pattern) <= MAX_SIZE
    assert estimate_ranges(f"(?:{pattern.replace('[', '').replace(']', '')}x){{7}}") >= 1


def make_schema(*patterns: str) -> dict[str, object]:
    members = {f"p{number}": {"pattern": pattern} for number, pattern in enumerate(patterns)}
    return {"type": "object", "properties": members}


def test_patterns_that_are_too_large_together_are_refused_before_they_are_compiled() -> None:
    counted = [rf"^\p{{L}}{{1,200}}x{number}$" for number in range(30)]
    lower(make_schema(*counted))  # by automata of ours, which write nothing out
    letters = r"^(?=.)\p{L}{1,200}$"
    lower(make_schema(letters, *[letters] * 30))  # the same one is compiled once
    with pytest.raises(SchemaError, match="the counts of its patterns") as refused:
        lower(make_schema(*[f"{letters}|{number}" for number in range(30)]))
    assert str(refused.value.where).startswith("/properties/p")
    for spaced in (r"(?x)\p{L} {1,200}", r"[]\p{L}]{200}", r"(?=.)\w{200}"):
        with pytest.raises(SchemaError, match="the counts of its patterns"):
            lower(make_schema(*[f"(?=.){spaced}|{number}" for number in range(30)]))
    keys = {"type": "object", "patternProperties": {r"^\p{L}{1,900}$": {}}}
    with pytest.raises(SchemaError, match="the counts of its patterns") as refused:
        lower(keys)
    assert refused.value.where == r"/patternProperties/^\p{L}{1,900}$"
