"""Hypothesis profiles (`ci` repeats itself, `dev` searches anew each time, `thorough` for long),
and the command line."""

import os
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from tests.command_line import Run

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW)
# It draws the same examples each time: a second hundred would tell nothing new. `thorough` does.
settings.register_profile(
    "ci", parent=settings.get_profile("dev"), derandomize=True, max_examples=30
)
settings.register_profile("thorough", parent=settings.get_profile("dev"), max_examples=2000)
# Tests make hundreds of models, and trust them: each would be loaded by a child first.
os.environ["CONSTRAINED_NO_PROBE"] = "1"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, in an environment that names no model."""
    for name in [name for name in os.environ if name.startswith("LLAMA_ARG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")

    from constrained.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = cast(int, stop.code)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run
