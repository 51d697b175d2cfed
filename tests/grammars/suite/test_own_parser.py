"""One's own parser, as a function or a class: what it may return, and its tests with pytest."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grammars.suite.answers import write_answer, write_deltas
from grammars.suite.checks import CHECKS
from grammars.suite.own_parser import OwnParser, as_factory
from grammars.suite.pytest import parser_suite
from grammars.suite.run import find_failures, settings
from grammars.wire.formats import HERMES
from tests.grammars.suite.own_parsers import (
    Lines,
    OneChunk,
    parse_as_text,
    parse_calls,
    parse_message,
)

ROOT = Path(__file__).parents[3]
PROJECT = """
from grammars.suite.checks import CHECKS
from grammars.suite.pytest import parser_suite
from grammars.wire.formats import HERMES
from tests.grammars.suite.own_parsers import parse_as_text

test_parser = parser_suite(
    parse_as_text, HERMES, known={"reads_back": "numbers are text"}, max_examples=5
)
"""


@pytest.mark.parametrize(
    ("parser", "abilities"),
    [
        (parse_calls, ["types"]),
        (parse_message, ["content", "types"]),
        (Lines, ["stream", "content", "types"]),
    ],
)
def test_a_good_parser_passes_in_each_form(
    parser: Callable[..., Any], abilities: list[str]
) -> None:
    assert list(OwnParser(parser).greet()) == abilities
    factory, claims = as_factory(parser)
    few = settings(max_examples=10, database=None)
    assert find_failures(factory, HERMES, claims=claims, settings=few, seed=0) == []


@pytest.mark.parametrize(
    ("parser", "checks"),
    [(parse_as_text, {"reads_back"}), (OneChunk, {"streams_the_same", "same_in_every_cut"})],
)
def test_a_fault_is_found(parser: Callable[..., Any], checks: set[str]) -> None:
    factory, claims = as_factory(parser)
    few = settings(max_examples=60, database=None)
    made = [check for check in CHECKS if check.name in checks]
    found = find_failures(factory, HERMES, claims=claims, settings=few, seed=0, checks=made)
    assert {failure.check for failure in found} & checks


@pytest.mark.parametrize(
    "call",
    [
        ("f", {"n": 1}),
        ["f", {"n": 1}],
        {"name": "f", "arguments": {"n": 1}},
        {"name": "f", "parameters": {"n": 1}},
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"n": 1}}},
        SimpleNamespace(name="f", args={"n": 1}),
        SimpleNamespace(id="1", function=SimpleNamespace(name="f", arguments={"n": 1})),
    ],
)
def test_a_call_has_any_common_form(call: Any) -> None:
    calls = [{"name": "f", "arguments": {"n": 1}}]
    assert write_answer([call]) == {"calls": calls}
    assert write_answer({"content": None, "tool_calls": [call]}) == {
        "content": None,
        "calls": calls,
    }
    message = SimpleNamespace(content="a", reasoning_content="b", tool_calls=[call])
    assert write_answer(message) == {"content": "a", "reasoning": "b", "calls": calls}


def test_no_calls_are_an_answer_and_other_values_are_not() -> None:
    assert write_answer(None) == write_answer(()) == {"calls": []}
    assert write_answer({"content": "a"}) == {"content": "a", "calls": []}
    for value in (5, "text", {}, {"reasoning": "a"}, [{"name": "f"}]):
        with pytest.raises(TypeError):
            write_answer(value)


def test_a_delta_has_any_common_form() -> None:
    assert list(write_deltas(None)) == []
    assert list(write_deltas(["a", None, "b"])) == [{"content": "a"}, {"content": "b"}]
    function = SimpleNamespace(name="f", arguments=None)
    delta = SimpleNamespace(content=None, tool_calls=[SimpleNamespace(index=0, function=function)])
    (written,) = write_deltas(delta)
    assert written["calls"] == [{"index": 0, "name": "f", "arguments": None}]


def test_each_check_is_a_test_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_parser.py").write_text(PROJECT)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    result = subprocess.run(
        [*command, "test_parser.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "XFAIL test_parser.py::test_parser[reads_back] - numbers are text" in result.stdout
    assert "PASSED test_parser.py::test_parser[invents_nothing]" in result.stdout


def test_a_known_fault_names_a_check() -> None:
    with pytest.raises(LookupError, match="unknown checks: reads_forth"):
        parser_suite(parse_calls, HERMES, known={"reads_forth": "?"})
