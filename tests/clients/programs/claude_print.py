"""Claude Code: runs of `claude -p`, over Messages."""

import json
from typing import Any

import report
from coding_agent import CodingAgent, greet, read_notes
from report import scenario

AGENT = CodingAgent(
    "claude",
    ("--model", "demo", "--output-format", "json", "--allowedTools=Bash", "-p"),
    environment={
        "ANTHROPIC_BASE_URL": report.URL,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    },
)


def find_answer(printed: str) -> str:
    result = json.loads(printed)
    assert not result["is_error"], result
    return result["result"]


@scenario
def plain() -> Any:
    return greet(AGENT, find_answer)


@scenario
def round_trip() -> Any:
    return read_notes(AGENT, find_answer)


report.main()
