"""Codex: runs of `codex exec`, over Responses."""

import json
from typing import Any

import report
from coding_agent import CodingAgent, greet, read_notes
from report import scenario

CONFIG = f"""
model = "demo"
model_provider = "local"
check_for_update_on_startup = false

[model_providers.local]
name = "local"
base_url = "{report.URL}/v1"
wire_api = "responses"

[analytics]
enabled = false
"""
AGENT = CodingAgent(
    "codex",
    # The folder is thrown away, and its sandbox needs rights that a container may lack.
    ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--json"),
    files={".codex/config.toml": CONFIG},
)


def find_answer(printed: str) -> str:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert events[-1]["type"] == "turn.completed", events[-1]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"][-1]


@scenario
def plain() -> Any:
    return greet(AGENT, find_answer)


@scenario
def round_trip() -> Any:
    return read_notes(AGENT, find_answer)


report.main()
