"""`constrained suite --parser` and `--peer`: parsers in Python, in a process of their own."""

from pathlib import Path

import pytest

from constrained.inspect.peers.pipe import answer_request
from grammars.suite.own_parser import OwnParser, find_parser
from tests.command_line import Run

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def beside_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests" / "grammars" / "suite")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_parser_in_python_is_named_on_the_command_line(run: Run) -> None:
    options = ["--parser", "own_parsers:OneChunk", "--format", "hermes", "--examples", "4"]
    code, out, _ = run("suite", *options)
    assert code == 1
    assert "own_parsers:OneChunk: hermes, claims stream, content, types; " in out


def test_what_is_not_there_is_named(run: Run) -> None:
    options = ["--format", "hermes"]
    code, _, err = run("suite", "--parser", "no_parsers:missing", *options)
    assert code == 2
    assert "No module named 'no_parsers'" in err
    code, _, err = run("suite", "--peer", "nobody:hermes", *options)
    assert code == 2
    assert "unknown project 'nobody'; known: vllm, sglang" in err
    code, _, err = run("suite", "--cmd", "true", "--package", "packages", *options)
    assert code == 2
    assert "--package is for the project of --peer" in err


def test_an_error_of_a_parser_is_an_answer() -> None:
    parser = OwnParser(find_parser("json:loads"))
    assert answer_request(parser, {"hello": {"markers": ["<tool_call>"]}}) == {"can": ["types"]}
    assert answer_request(parser, {"tools": [], "text": "[]"}) == {"calls": []}
    answer = answer_request(parser, {"tools": [], "text": "no"})
    assert answer["error"].startswith("JSONDecodeError: Expecting value")
    answer = answer_request(parser, {"tools": [], "text": "5"})
    assert answer["error"].startswith("TypeError: a parser returns a list of calls, or content")
