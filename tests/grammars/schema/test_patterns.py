"""Patterns are measured before jsonschema-rs compiles all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.errors import SchemaError
from grammars.schema.lowering.lower import lower
from grammars.schema.patterns import count_steps


def make_schema(*patterns: str) -> dict[str, object]:
    members = {f"p{number}": {"pattern": pattern} for number, pattern in enumerate(patterns)}
    return {"type": "object", "properties": members}


LARGE = r"(.)\1?\p{L}{1,200}$"


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("", 1, 10),
        ("^[a-z]{1,20}$", 1, 10),
        (r"(?P<n>[^\]]{3})(?:a|\(?[0-9]{3}\))", 1, 10),
        ("(?i)^[a-z]{2,40}$", 1, 10),
        (r"^\p{L}{2}x$", 11, 1_000),
        (r"(?i)[#\W]", 1_000, 2_000),
        (LARGE, 20_000, 20_000),
        (r"(?x)\p{L} {1,200}", 20_000, 20_000),
        (r"[]\p{L}]{200}", 20_000, 20_000),
        (r"(.)\1?\w{200}", 20_000, 20_000),
        ("((((a{9999}){9999}){9999}){9999}){9999}", 20_000, 20_000),
        ("(?i)" + r"[#\W]" * 20, 30_000, 40_000),
    ],
)
def test_the_engine_tells_how_large_a_pattern_is(pattern: str, least: int, most: int) -> None:
    assert least <= count_steps(pattern) <= most


@given(st.text(st.sampled_from(r"ab(){}[]^\pL,19.|*+?-&")))
def test_whatever_stands_there_has_a_size(pattern: str) -> None:
    assert 0 < count_steps(pattern) <= 20_000


def test_patterns_that_are_too_large_together_are_refused_before_they_are_compiled() -> None:
    counted = [rf"^\p{{L}}{{1,200}}x{number}$" for number in range(30)]
    lower(make_schema(*counted))  # by automata of ours, which write nothing out
    lower(make_schema(LARGE, *[LARGE] * 30))  # the same one is compiled once
    lower(make_schema(*["^(a{1,900}b){1,900}$"] * 500))
    for large in (LARGE, r"(?x)\p{L} {1,200}"):
        with pytest.raises(SchemaError, match="the counts of its patterns") as refused:
            lower(make_schema(*[f"(.)\\1?{large}|{number}" for number in range(30)]))
        assert str(refused.value.where).startswith("/properties/p")


def test_patterns_that_are_none_are_named() -> None:
    with pytest.raises(SchemaError, match="is not a") as refused:
        lower(make_schema("[", "(", "a)", "x**", "(?<"))
    assert refused.value.where == "/properties/p0/pattern"
