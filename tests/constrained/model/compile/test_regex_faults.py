"""A regular expression that is not valid: the error has the place in it as the user wrote it."""

import pytest

from constrained.errors import GrammarError
from grammars.turn import RegexAnswer
from tests.scripted_model import scripted


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        ("(", "at character 1: unclosed group"),
        ("ab(c", "at character 3: unclosed group"),
        ("^a/b*c+(", "at character 8: unclosed group"),
        ("x{2", "at character 2: unclosed counted repetition"),
        ("*a", "at character 1: repetition operator missing expression"),
        (r"é\p{Foo}", "at character 2: Unicode property not found"),
    ],
)
def test_the_place_is_that_in_the_expression(regex: str, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        scripted("x").compile_text("p", RegexAnswer(regex))
    assert str(caught.value).startswith("the regular expression is not valid at ")
    assert message in str(caught.value)
    assert "(?:" not in str(caught.value)
    assert caught.value.where == "/regex"
