"""Agents: runs of `codex exec`, `claude -p`, `opencode run` and `qwen -p`. CLIENT_HOME says which:
it is the folder of the agent's packages."""

import json
import os
from pathlib import Path
from typing import Any

import agent_tasks
import report
from coding_agent import CodingAgent
from report import scenario

CODEX = f"""
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
OPENCODE: dict[str, Any] = {
    "autoupdate": False,
    "share": "disabled",
    "model": "local/demo",
    "small_model": "local/demo",
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",  # a part of the program
            "options": {"baseURL": f"{report.URL}/v1", "apiKey": "none"},
            "models": {"demo": {"limit": {"context": 400_000, "output": 1000}}},
        }
    },
}

# It asks proxies for this machine, too: it has none, and tells nobody.
QWEN = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}


def read_codex(printed: str) -> str:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert events[-1]["type"] == "turn.completed", events[-1]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"][-1]


def read_claude(printed: str) -> str:
    result = json.loads(printed)
    assert not result["is_error"], result
    return result["result"]


def read_text(printed: str) -> str:
    return printed.strip().splitlines()[-1]


AGENTS = {
    "codex": CodingAgent(
        "codex",
        # The folder is thrown away, and its sandbox needs rights that a container may lack.
        ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--json"),
        read_codex,
        files={".codex/config.toml": CODEX},
    ),
    "claude-code": CodingAgent(
        "claude",
        ("--model", "demo", "--output-format", "json", "--allowedTools=Bash", "-p"),
        read_claude,
        environment={
            "ANTHROPIC_BASE_URL": report.URL,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        },
    ),
    "opencode": CodingAgent(
        "opencode",
        ("run",),
        read_text,
        files={".config/opencode/opencode.json": json.dumps(OPENCODE)},
        environment={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
    ),
    "qwen-code": CodingAgent(
        "qwen",
        ("--auth-type", "openai", "--yolo", "-p"),
        read_text,
        files={".qwen/settings.json": json.dumps(QWEN)},
        environment={
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), ""),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{report.URL}/v1",
            "OPENAI_MODEL": "demo",
        },
    ),
}
HOME = Path(os.environ["CLIENT_HOME"])
AGENT = AGENTS[HOME.name]


@scenario
def plain() -> Any:
    answer = AGENT.ask(agent_tasks.GREETING, HOME)
    assert answer == agent_tasks.GREETED, answer
    return answer


@scenario
def round_trip() -> Any:
    """The model tells the code only where it has seen the result of its call."""
    answer = AGENT.ask(agent_tasks.QUESTION, HOME)
    assert answer == agent_tasks.CODE, answer
    return answer


report.main()
