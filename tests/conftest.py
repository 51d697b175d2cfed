"""Hypothesis profiles (`ci` repeats itself, `dev` searches anew each time, `thorough` for long),
the command line, and what may be skipped in continuous integration."""

import os
from typing import Any, cast

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
EXPECTED_SKIPS = {
    "extra train": "PyTorch takes 800 MB, and the demo model is trained once",
    "needs the extra `compare`": "transformers, for one comparison of templates",
    "the table is of another version of llama.cpp": "it is written for one version",
    "no systemd here": "a container has none",
    "one call a turn": "the format has no second call",
}
"""What may be skipped where `CI` is set, and why: any other skip fails the run."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run in continuous integration that has skipped what it should not."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None:  # a worker reports to another process
        return
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(known in reason for known in EXPECTED_SKIPS):
            reporter.write_line(f"not expected to be skipped: {report.nodeid}: {reason}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, in an environment that names no model."""
    for name in [name for name in os.environ if name.startswith("LLAMA_ARG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")

    from constrained.cli.parser import main

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = cast(int, stop.code)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run
