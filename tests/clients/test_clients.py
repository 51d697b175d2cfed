"""The programs of `make test-clients` hold together: those of openai and anthropic run here, with
the packages of the development environment; the others need their own, and the network."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from constrained import load
from tests.clients.run import CLIENTS, PROGRAMS, QUIET, compare, judge
from tests.server.running_server import running

NAMES = (
    "plain auto required named none parallel stream reasoning_on reasoning_off round_trip error "
    "cancel".split()
)
Line = dict[str, Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(load(threads=1, sequences=2)) as client:
        yield str(client.base_url).rstrip("/")


@pytest.mark.parametrize(
    "script", ["openai_chat.py", "openai_responses.py", "anthropic_messages.py"]
)
def test_a_client_is_content(url: str, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAMS / script), url],
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines: list[Line] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line in lines if not line["ok"]] == []
    assert [line["scenario"] for line in lines if "__" not in line["scenario"]] == NAMES


# The scenarios of schemathesis are the paths of the server.
TALKING = [client for client in CLIENTS if client.name != "schemathesis"]


@pytest.mark.parametrize("client", TALKING, ids=lambda client: client.name)
def test_each_client_has_all_scenarios(client: Any) -> None:
    text = (PROGRAMS / client.script).read_text()
    head = "  async {}() {{" if client.script.endswith(".mjs") else "\ndef {}() -> Any:"
    missing = [name for name in NAMES if head.format(name) not in text]
    assert missing == list(client.lacks)


def test_what_differs_is_found() -> None:
    first = [{"scenario": "plain", "result": 1}, {"scenario": "auto", "result": [2]}]
    assert compare(first, first) == []
    assert compare(first, [{"scenario": "auto", "result": [3]}, first[0]]) == ["auto"]
    assert compare(first, first[:1]) == ["auto"]
    assert compare(first[:1], first) == ["auto"]


@pytest.mark.parametrize(
    ("second", "code", "counts"),
    [
        ({"ok": True, "result": 1}, 0, {"failed": 0, "differing": 0}),
        ({"ok": True, "result": 2}, 1, {"failed": 0, "differing": 1}),
        ({"ok": False, "result": 1}, 1, {"failed": 1, "differing": 0}),
    ],
)
def test_the_verdict(
    second: Line, code: int, counts: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {
        1: {"openai": [{"scenario": "plain", "ok": True, "result": 1}]},
        8: {"openai": [{"scenario": "plain", **second}]},
    }
    assert judge(runs) == code
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"scenarios": 2, **counts}
