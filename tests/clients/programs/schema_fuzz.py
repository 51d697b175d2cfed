"""schemathesis: requests drawn from the OpenAPI document, against what it says of the answers.

No status but those that the document names, and none of 5xx but 503, and 504, as this server has a
limit of time (see `run.py`). Prints a line for each operation.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

URL = sys.argv[1]
HERE = Path(__file__).parent
EXAMPLES, SEED = 20, 1
UNGUESSABLE = re.compile(r"/responses/{id}")
"""Operations that need an id of what was made before, or another model than the demo model."""
CHECKS = "not_a_server_error,status_code_conformance"
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "501", "503", "504"]
"""


def list_operations() -> list[str]:
    """The operations of the document, as reports name them."""
    with urllib.request.urlopen(f"{URL}/openapi.json") as response:
        paths: dict[str, Any] = json.load(response)["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


def fuzz(folder: Path) -> list[dict[str, Any]]:
    """The events of a run."""
    (folder / "settings.toml").write_text(SETTINGS)
    events = folder / "events.ndjson"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "settings.toml", "run"]
    command += [f"{URL}/openapi.json", "--checks", CHECKS, "--phases", "coverage,fuzzing"]
    command += ["--max-examples", str(EXAMPLES), "--seed", str(SEED), "--no-shrink"]
    command += ["--generation-database", "none", "--continue-on-failure", "--warnings", "off"]
    command += ["--request-timeout", "60", "--report", "ndjson"]
    command += ["--report-ndjson-path", str(events), "--no-color"]
    places = {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | places, capture_output=True, text=True, check=False
    )
    if not events.exists():
        raise SystemExit(done.stdout + done.stderr)
    return [json.loads(line) for line in events.read_text().splitlines()]


def judge(operation: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of an operation: what was wrong, if anything was."""
    ends = [event["ScenarioFinished"] for event in events if "ScenarioFinished" in event]
    ends = [end for end in ends if end["recorder"]["label"] == operation]
    failures = [failure for end in ends for failure in find_failures(end["recorder"])]
    failures += [f"{end['phase']}: {end['status']}" for end in ends if end["status"] != "success"]
    statuses = {status for end in ends for status in find_statuses(end["recorder"])}
    is_answered = any(200 <= status < 300 for status in statuses)
    if not is_answered and not UNGUESSABLE.search(operation):
        failures.append(f"nothing was answered; statuses: {sorted(statuses)}")
    line: dict[str, Any] = {"scenario": operation, "ok": not failures}
    return line | ({"error": failures[0]} if failures else {})


def find_failures(recorder: dict[str, Any]) -> Iterator[str]:
    """The checks that failed, and what was sent."""
    for case, checks in recorder["checks"].items():
        for check in checks:
            if check["status"] != "success":
                sent = recorder["cases"][case]["value"].get("body")
                yield f"{json.dumps(check)[:300]} of {json.dumps(sent)[:500]}"


def find_statuses(recorder: dict[str, Any]) -> Iterator[int]:
    """The statuses of the answers to the operation's own method: others are tried, too."""
    method = recorder["label"].split()[0]
    for one in recorder["interactions"].values():
        if one["response"] and one["request"]["method"] == method:
            yield one["response"]["status_code"]


def main() -> None:
    """A line for each operation, and one for each error of schemathesis or of the connection."""
    with tempfile.TemporaryDirectory() as folder:
        events = fuzz(Path(folder))
    assert any("EngineFinished" in event for event in events), "schemathesis has not finished"
    for operation in list_operations():
        print(json.dumps(judge(operation, events)), flush=True)
    for event in events:
        for kind in ("NonFatalError", "FatalError", "Interrupted"):
            if kind in event:
                said = json.dumps(event[kind])[:1000]
                print(json.dumps({"scenario": kind, "ok": False, "error": said}), flush=True)


main()
