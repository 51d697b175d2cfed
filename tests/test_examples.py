"""The examples run, and say what they should."""

import json
import re

import pytest

from examples import first_call, own_parser, without_a_model
from grammars.wire.formats import FORMATS
from tests.example_runs import ROOT, RUNS, run

LEAST_RIGHT = 6  # of the everyday questions; the model has nothing of them but the tools


def test_the_first_call_is_the_right_one_and_its_result_is_told() -> None:
    printed = run("examples.first_call")
    call = re.search(r"^call +(\w+) (\{.*\})  \(valid: True\)$", printed, re.MULTILINE)
    assert call, printed
    assert call[1] == "get_weather"
    assert json.loads(call[2]) == {"city": "Paris", "day": "tomorrow", "unit": "celsius"}
    answer = re.findall(r"^answer +(.*)$", printed, re.MULTILINE)[-1]
    assert all(str(told) in answer for told in first_call.FORECAST.values()), printed
    assert "using the demo model of the package" in printed


def test_everyday_questions_are_answered_mostly_right() -> None:
    printed = run("examples.everyday")
    right, count = map(int, printed.splitlines()[-1].split(" are ")[0].split(" of "))
    assert count == 10
    assert right >= LEAST_RIGHT, printed


@pytest.mark.parametrize("name", RUNS)
def test_short_programs(name: str) -> None:
    printed = run(f"examples.{name}")
    assert re.search(RUNS[name], printed, re.MULTILINE), printed


def test_all_examples_are_run() -> None:
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert programs == {*RUNS, "first_call", "everyday", "without_a_model", "own_parser"}


def test_the_suite_finds_what_is_wrong_with_a_naive_parser(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_parser.main()
    printed = capsys.readouterr().out
    assert printed.endswith(
        "checks fail: reads_tags_in_values, survives_the_end, survives_edits\n"
    ), printed
    assert re.search(r'^  text    .*"</tool_call>"', printed, re.MULTILINE), printed


def test_the_grammar_and_the_parser_need_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    without_a_model.main()
    printed = capsys.readouterr().out
    assert printed.count("write_file {'mode': 420, 'path': 'a.py'} valid: True") == len(FORMATS)
