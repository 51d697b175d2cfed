"""The kinds of faults that ids of findings depend on."""

import pytest

from constrained.inspect.conformance.parser_fault import find_kinds
from grammars.suite.parser_output import Reading
from grammars.suite.reading import Claims, ParserFailure
from grammars.turn import ContentDelta

LOOSE = Claims(types=False, space=False)
F, G = ("f", {"a": 1}), ("g", {})
WANTED = Reading("Hi", "Hm", calls=[F, G])


def fail(wanted: object, got: object, text: str = "woxam") -> ParserFailure:
    return ParserFailure("check", "the parser reads something else", [text], wanted=wanted, got=got)


@pytest.mark.parametrize(
    ("got", "kinds"),
    [
        (Reading("Ho", "Hm", calls=[F, G]), ["other content"]),
        (Reading("", "Hm", calls=[F, G]), ["no content"]),
        (Reading("Hi", "Oh", calls=[F, G]), ["other reasoning"]),
        (Reading("Hi Hm", "", calls=[F, G]), ["other content", "no reasoning"]),
        (Reading("Hi", "Hm", calls=[F]), ["lost call"]),
        (Reading("Hi", "Hm", calls=[F, G, G]), ["extra call"]),
        (Reading("Hi", "Hm", calls=[F, ("h", {})]), ["lost call", "extra call"]),
        (Reading("Hi", "Hm", calls=[G, F]), ["order of calls"]),
        (Reading("Hi", "Hm", calls=[("f", {"a": 2}), G]), ["other arguments"]),
        (Reading("Ho", "Hm"), ["other content", "lost call"]),
        # What the parser does not claim is no difference.
        (Reading("Hi ", " Hm", calls=[("f", {"a": "1"})]), ["lost call"]),
    ],
)
def test_readings_differ_by_content_reasoning_and_calls(got: Reading, kinds: list[str]) -> None:
    assert find_kinds(fail(WANTED, got), LOOSE) == kinds


@pytest.mark.parametrize(
    ("wanted", "got", "kinds"),
    [
        (None, Reading(), ["lost text"]),
        (None, Reading("woxam", "woxam"), ["repeated text"]),
        (None, None, ["error"]),
        ([F], [("f", {"a": 2})], ["other arguments"]),
        ([], [F], ["extra call"]),
        (WANTED, [ContentDelta("Hi")], ["events of the stream"]),
        (WANTED, WANTED, ["other"]),
    ],
)
def test_other_failures_have_kinds_too(wanted: object, got: object, kinds: list[str]) -> None:
    assert find_kinds(fail(wanted, got), LOOSE) == kinds


def test_a_parser_that_answers_differently_each_time_is_a_kind() -> None:
    assert find_kinds(ParserFailure("check", "not the same", []), LOOSE) == [
        "not the same each time"
    ]
