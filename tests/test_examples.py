"""The examples run, and say what they should."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import first_call, without_a_model
from tests.support import require_models_directory

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("small", [True, False])
def test_first_call_prints_a_valid_call(small: bool) -> None:
    if not small:
        require_models_directory()
    printed = run("examples.first_call", *(["--small"] if small else []))
    call = re.search(r"^call +(\w+) (\{.*\})  \(valid: True\)$", printed, re.MULTILINE)
    assert call, printed
    assert call[1] in [tool["function"]["name"] for tool in first_call.TOOLS]
    assert json.loads(call[2])
    assert "start       closed" in printed


def test_the_grammar_and_the_parser_need_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    without_a_model.main()
    printed = capsys.readouterr().out
    assert printed.count("write_file {'path': 'a.py', 'mode': 420} valid: True") == 2
