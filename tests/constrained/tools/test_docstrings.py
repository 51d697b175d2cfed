import pytest

from constrained.tools.signatures import read_docstring

WHOLE = """The weather
    of a city.

    More about it.

    Args:
        city: where; "Paris: France" is fine
            on a line of its own

            and after a blank one.
        unit (Literal["a", "b"], optional): celsius or not.
        north, south: corners.
        *rest: the rest.
        nothing:
        not an entry

    Returns:
        city: not this one.
    """


def test_a_whole_docstring():
    description, texts = read_docstring(WHOLE)
    assert description == "The weather of a city."
    assert texts == {
        "city": 'where; "Paris: France" is fine on a line of its own and after a blank one.',
        "unit": "celsius or not.",
        "north": "corners.",
        "south": "corners.",
        "rest": "the rest.",
        "nothing": "not an entry",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ("", {})),
        ("", ("", {})),
        ("  \n ", ("", {})),
        ("One line.", ("One line.", {})),
        ("\nArgs:\n    x: an x", ("", {"x": "an x"})),
        ("One.\nArguments:\n  x : an x\nMore.\n  y: no", ("One.", {"x": "an x"})),
        ("\n    Later.\n\n    Parameters:\n        x(int): an x\n    ", ("Later.", {"x": "an x"})),
        ("One.\n\nArgs: x is what it is", ("One.", {})),
        ("One.\n\nArgs:", ("One.", {})),
        ("One.\n\nArgs:\n\n\n    x: an x", ("One.", {"x": "an x"})),
        ("One.\n\nArgs:\n    no entry at all", ("One.", {})),
    ],
)
def test_parts_that_are_not_there(text: str | None, expected: tuple[str, dict[str, str]]):
    assert read_docstring(text) == expected
