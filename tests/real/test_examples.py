"""The examples run on real weights, too, which draw what they like: what they print has its form.

Those that ask whether the calls are right (`everyday`) are about the demo model, and `own_llama`
opens its file.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.example_runs import ROOT, RUNS, run

pytestmark = pytest.mark.real
PRINTED = {
    **RUNS,
    "first_call": r"^  answer        ",
    "mcp_tools": r"^get_weather: only reads\n(.*\n)+ended: ",  # it may answer without a call
}
del PRINTED["own_llama"]


@pytest.mark.parametrize("example", PRINTED)
def test_on_the_model_that_the_environment_names(
    example: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_MODEL", name)
    printed = run(f"examples.{example}")
    assert re.search(PRINTED[example], printed, re.MULTILINE), printed


@pytest.mark.parametrize("program", ["openai_client", "anthropic_client"])
def test_on_a_server(program: str, url: str) -> None:
    command = [sys.executable, "-m", f"examples.server.{program}"]
    environment = os.environ | {"CONSTRAINED_URL": url}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^cached \d+", done.stdout, re.MULTILINE), done.stdout
