"""The examples run, and say what they should."""

import json
import re
from pathlib import Path

import pytest

from constrained.model_files import embedded
from examples import first_call, own_parser, without_a_model
from grammars.wire.formats import FORMATS
from tests.example_runs import ROOT, RUNS, run

LEAST_RIGHT = 6  # of the everyday questions; the model has nothing of them but the tools


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the models of llama.cpp, on a machine without others."""
    for name in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("cache")
def test_the_demo_shows_what_a_mask_adds_a_typed_answer_and_an_agent() -> None:
    printed = run("examples.first_call")
    free, made, masked = re.findall(r"^  with(?:out)? mask +(.*)$|^    it (.*)$", printed, re.M)[:3]
    assert free[0].startswith("cancel_reservation {"), printed
    assert made[1].startswith("fails:   cancel_reservation() got an unexpected keyword"), printed
    assert masked[0] == 'cancel_reservation {"restaurant": "Luigi\'s"}'
    assert "it works:   the table at Luigi's is cancelled" in printed
    assert "Order(drink='latte', cups=2)" in printed
    calls = re.findall(r"^  call +(\w+) (\{.*\})$", printed, re.M)
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        ("get_price", {"product": "lamp"}),
        ("convert_money", {"amount": 20, "currency": "EUR"}),
    ]
    answer = re.findall(r"^  answer +(.*)$", printed, re.M)[-1]
    assert "18.4" in answer
    assert "EUR" in answer
    assert f"constrained chat {first_call.DOWNLOAD}" in printed


def test_the_demo_ends_with_a_model_of_this_machine(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache / "mine.gguf").symlink_to(embedded.PATH)
    first_call.name_next_step()
    printed = capsys.readouterr().out
    assert re.search(r"constrained chat .*mine", printed), printed
    assert first_call.DOWNLOAD not in printed


def test_the_figures_of_the_demo_are_those_of_the_model_card() -> None:
    card = (ROOT / "examples" / "demo_model" / "MODEL_CARD.md").read_text(encoding="utf-8")
    [row] = [line for line in card.splitlines() if line.startswith("| Q8_0, 100 handwritten |")]
    cells = row.split("|")
    valid, masked = re.findall(r"(\d+)\.0%", cells[3])
    assert f"{valid} % are valid without the mask, and {masked} % with it" in first_call.CHOSEN


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
    assert printed.endswith("3 findings of reads_tags_in_values, survives_edits\n"), printed
    assert re.search(r'^  text    .*"</tool_call>"', printed, re.MULTILINE), printed


def test_the_grammar_and_the_parser_need_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    without_a_model.main()
    printed = capsys.readouterr().out
    assert printed.count("write_file {'mode': 420, 'path': 'a.py'} valid: True") == len(FORMATS)
