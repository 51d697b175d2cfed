"""A regular expression that is not valid: the error has the place in it as the user wrote it."""

import pytest

from grammars.errors import PolicyError
from grammars.turn import RegexAnswer
from tests.scripted_model import scripted


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        ("(", "at character 1: the group is not closed"),
        ("ab(c", "at character 3: the group is not closed"),
        ("^a/b*c+(", "at character 8: the group is not closed"),
        ("x{2}{3}", "at character 5: nothing to repeat"),
        ("*a", "at character 1: nothing to repeat"),
        ("é[b", "at character 4: the bracket is not closed"),
    ],
)
def test_the_place_is_that_in_the_expression(regex: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        scripted("x").compile_text("p", RegexAnswer(regex))
    assert str(caught.value).startswith("the regular expression is not valid at ")
    assert message in str(caught.value)
    assert caught.value.where == "/regex"
