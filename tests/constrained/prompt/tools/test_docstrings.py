import time

import pytest

from constrained.prompt.tools.docstrings import read_docstring

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


NUMPY = """The weather.

    Parameters
    ----------
    city : str
        Where;

        "Paris: France" is fine.
    north, south : float, optional
        Corners.
    unit
        Celsius or not.
    *rest : int
    Other Parameters
    ----------------
    **more
        The rest.

    Returns
    -------
    result : str
        Not this one.
    """
FIELDS = """The weather.

    :param city: where; "Paris: France" is fine
        on a line of its own
    :type city: str
    :param float north: a corner
    :param dict[str, int] south: another one
    goes on without an indent
    :keyword unit:
        celsius or not
    :param **rest: the rest

    Not of a field.

    :returns: city: not this one
    :raises ValueError: neither
    """


def test_a_docstring_of_numpy() -> None:
    assert read_docstring(NUMPY) == (
        "The weather.",
        {
            "city": 'Where; "Paris: France" is fine.',
            "north": "Corners.",
            "south": "Corners.",
            "unit": "Celsius or not.",
            "rest": "",
            "more": "The rest.",
        },
    )


@pytest.mark.parametrize("sign", [":", "@"])
def test_a_docstring_of_fields(sign: str) -> None:
    text = FIELDS.replace("    :", f"    {sign}")
    assert read_docstring(text) == (
        "The weather.",
        {
            "city": 'where; "Paris: France" is fine on a line of its own',
            "north": "a corner",
            "south": "another one goes on without an indent",
            "unit": "celsius or not",
            "rest": "the rest",
        },
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\n:param x: an x", ("One.", {"x": "an x"})),
        (":param x: an x", ("", {"x": "an x"})),
        ("One.\nParameters\n---\nx\n  an x", ("One.", {"x": "an x"})),
        ("One: two.\n---", ("One: two. ---", {})),
        (":class:`Weather` of a city.", (":class:`Weather` of a city.", {})),
        ("Parameters\nof it.", ("Parameters of it.", {})),
        (":note: Reads.\n:param x: an x", (":note: Reads.", {"x": "an x"})),
        ("@team: reads.\n\nMore.", ("@team: reads.", {})),
    ],
)
def test_where_the_first_paragraph_ends(text: str, expected: tuple[str, dict[str, str]]) -> None:
    assert read_docstring(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\nArgs:\n  \\*args: all\n  \\*\\*more, x: the rest", {"args": "all", "more": "the rest"}),
        ("Parameters\n---\n\\*args, \\**more : int\n  all", {"args": "all", "more": "all"}),
        (":param \\*args: all\n:param dict \\*\\*more: rest", {"args": "all", "more": "rest"}),
        (":param x: an x\nMore about it.", {"x": "an x"}),
        (":param x: an x\n  or two\n\n  or three\nMore.", {"x": "an x or two or three"}),
        (":param x: an x\n\nParameters\n---\nx : int", {"x": "an x"}),
        (":param x: an x\n\nArgs:\n  x:", {"x": "an x"}),
    ],
)
def test_names_and_texts(text: str, expected: dict[str, str]) -> None:
    _, texts = read_docstring(text)
    assert expected.items() <= texts.items()


@pytest.mark.parametrize(
    "line", [":param", ":param x", "x", "@type x", "Args:\n  x", "Args:\n  x ("]
)
def test_blanks_take_linear_time(line: str) -> None:
    start = time.thread_time()  # of this thread alone, however busy the machine is
    read_docstring(f"\n{line}{' ' * 20_000}!")
    assert time.thread_time() - start < 1  # quadratic time takes 2 to 18 seconds
