"""The suite passes our own parser in every format, and finds what is wrong with others."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import settings

from grammars.parse.parser import Parser, parse
from grammars.suite import Reading
from grammars.suite.checks import CHECKS
from grammars.suite.parser_output import as_reading
from grammars.suite.run import ParserFailure, assert_parser, find_failures
from grammars.turn import Tool, Turn
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES

FEW = settings(max_examples=4, derandomize=True, database=None)
CASES = [
    pytest.param(f, mode, id=f"{f.name}-{mode}") for f in FORMATS for mode in ("stream", "recover")
]


def own(format: Format, *, recover: bool = False, stream: bool = False) -> Callable[..., Parser]:
    return lambda tools: Parser(format, tools, recover=recover, stream=stream)


@pytest.mark.parametrize(("format", "mode"), CASES)
def test_our_parser_passes(format: Format, mode: str) -> None:
    assert_parser(own(format, **{mode: True}), format, settings=FEW)


def read_hermes(tools: Sequence[Tool]) -> Callable[[str], Turn]:
    return lambda text: parse(text, HERMES, tools)


def damage(change: Callable[[Reading], Reading]) -> Callable[..., Callable[[str], Reading]]:
    """A parser of Hermes JSON with a fault."""
    return lambda tools: lambda text: change(as_reading(parse(text, HERMES, tools), []))


FAULTS: dict[str, tuple[Callable[[Reading], Reading], str]] = {
    "raises": (lambda r: replace(r, content=r.content if 1 / len(r.content) else ""), "reads_back"),
    "twice": (lambda r: replace(r, calls=[*r.calls, *r.calls]), "survives_the_end"),
    "loses": (lambda r: replace(r, unfinished=""), "survives_the_end"),
    "invents": (lambda r: replace(r, calls=r.calls or [("f", {})]), "invents_nothing"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str) -> None:
    change, check = FAULTS[name]
    checks = [one for one in CHECKS if one.name == check]
    chosen = settings(FEW, max_examples=30)
    found = find_failures(damage(change), HERMES, settings=chosen, checks=checks)
    assert [failure.check for failure in found] == [check]
    for failure in found:
        assert failure.report.startswith(f"{failure.check}: ")
        assert repr(failure.text) in failure.report


class Late:
    """A parser that forgets what it was told in the chunk before."""

    def __init__(self, tools: Sequence[Tool]):
        self.tools, self.text = tools, ""

    def feed(self, text: str) -> None:
        self.text = text or self.text

    def close(self) -> Turn:
        return parse(self.text, HERMES, self.tools)


def test_chunks_matter_to_a_parser_that_forgets() -> None:
    found = find_failures(Late, HERMES, settings=FEW)
    assert [failure.check for failure in found] == ["same_in_every_cut"]
    assert "\n  pieces  [" in found[0].report


def test_the_failure_is_an_assertion_with_a_report() -> None:
    with pytest.raises(
        ParserFailure, match="reads_back: the parser reads something else"
    ) as caught:
        assert_parser(damage(lambda r: Reading(r.content)), HERMES, settings=FEW)
    assert isinstance(caught.value, AssertionError)
    assert "\n  wanted  Reading(" in str(caught.value)
    assert not getattr(caught.value, "__notes__", [])


def test_a_function_and_text_for_arguments_do() -> None:
    assert_parser(read_hermes, HERMES, settings=FEW)
    as_text = [("f", '{"a": 1}'), ("g", "{")]
    reading = as_reading(Reading(calls=as_text), [])
    assert list(reading.calls) == [("f", {"a": 1}), ("g", "{")]


def test_nothing_else_needs_hypothesis() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\nimport grammars.parse\nimport grammars.suite"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'constrained-calls[suite]'" in result.stderr
