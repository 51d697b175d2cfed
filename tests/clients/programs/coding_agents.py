"""Agents: runs of `codex exec`, `claude -p`, `opencode run`, `qwen -p`, `pi -p`, `cline`,
`copilot -p`, `cn -p` and `gptme -n`. CLIENT_HOME says which: it is the folder of the agent's
packages."""

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


PI_APIS = {
    "openai-completions": f"{report.URL}/v1",
    "openai-responses": f"{report.URL}/v1",
    "anthropic-messages": report.URL,
}
"""The APIs that pi speaks and this server has, with the base URL for each."""
CLINE_APIS = {
    "openai-compatible": f"{report.URL}/v1",
    "anthropic": f"{report.URL}/v1",
    "ollama": f"{report.URL}/v1",
}
CLINE_DATA = ".cline-data"
COPILOT_APIS = {
    "completions": {"COPILOT_PROVIDER_BASE_URL": f"{report.URL}/v1"},
    "responses": {
        "COPILOT_PROVIDER_BASE_URL": f"{report.URL}/v1",
        "COPILOT_PROVIDER_WIRE_API": "responses",
    },
    "anthropic": {
        "COPILOT_PROVIDER_BASE_URL": report.URL,
        "COPILOT_PROVIDER_TYPE": "anthropic",
    },
}
CONTINUE_APIS = {"openai": f"{report.URL}/v1", "anthropic": f"{report.URL}/v1"}
CONTINUE_CONFIG = ".continue/config.yaml"


def describe_pi_providers() -> str:
    """A provider for each API, named after it."""
    providers: dict[str, Any] = {}
    for api, url in PI_APIS.items():
        model = {"id": "demo", "reasoning": True, "contextWindow": 400_000, "maxTokens": 8000}
        given = {"baseUrl": url, "api": api, "apiKey": "none"}
        providers[api] = {**given, "models": [model]}
    return json.dumps({"providers": providers})


def make_pi(api: str) -> CodingAgent:
    return CodingAgent(
        "pi",
        ("--provider", api, "--model", "demo", "-p"),
        read_text,
        files={".pi/agent/models.json": describe_pi_providers()},
    )


def make_cline(provider: str) -> CodingAgent:
    """With a folder of data of its own, it starts no server in the background."""
    url = CLINE_APIS[provider]
    settings = {"provider": provider, "apiKey": "none", "model": "demo", "baseUrl": url}
    given = {"settings": settings, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}
    kept = {"version": 1, "lastUsedProvider": provider, "modes": {}, "providers": {provider: given}}
    return CodingAgent(
        "cline",
        ("--data-dir", f"../{CLINE_DATA}", "--json", "-P", provider, "-m", "demo"),
        read_cline,
        files={f"{CLINE_DATA}/settings/providers.json": json.dumps(kept)},
    )


def make_copilot(api: str) -> CodingAgent:
    return CodingAgent(
        "copilot",
        ("--allow-all-tools", "--no-auto-update", "--silent", "-p"),
        read_text,
        environment={
            **COPILOT_APIS[api],
            "COPILOT_MODEL": "demo",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_API_KEY": "none",
        },
    )


def make_continue(provider: str) -> CodingAgent:
    model = {
        "name": "demo",
        "provider": provider,
        "model": "demo",
        "apiBase": CONTINUE_APIS[provider],
        "apiKey": "none",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    config = {"name": "local", "version": "1.0.0", "schema": "v1", "models": [model]}
    return CodingAgent(
        "cn",
        ("--config", f"../{CONTINUE_CONFIG}", "--auto", "-p"),
        read_text,
        files={CONTINUE_CONFIG: json.dumps(config)},  # JSON is YAML, too
        environment={"CONTINUE_TELEMETRY_ENABLED": "0"},
    )


def read_codex(printed: str) -> str:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert events[-1]["type"] == "turn.completed", events[-1]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"][-1]


def read_claude(printed: str) -> str:
    result = json.loads(printed)
    assert not result["is_error"], result
    return result["result"]


def read_cline(printed: str) -> str:
    result = json.loads(printed.strip().splitlines()[-1])
    assert result["type"] == "run_result" and result["finishReason"] == "completed", result
    return result["text"]


def read_gptme(printed: str) -> str:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [event["content"] for event in events if event.get("role") == "assistant"][-1]


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
    "gptme": CodingAgent(
        "gptme",
        ("-n", "--model", "local/demo", "--output-format", "json"),
        read_gptme,
        environment={"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{report.URL}/v1"},
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
VARIANTS = {
    "pi": [make_pi(api) for api in PI_APIS],
    "cline": [make_cline(provider) for provider in CLINE_APIS],
    "copilot": [make_copilot(api) for api in COPILOT_APIS],
    "continue": [make_continue(provider) for provider in CONTINUE_APIS],
}
"""Agents that speak several APIs, one after the other."""
CHOSEN = VARIANTS.get(HOME.name) or [AGENTS[HOME.name]]


def check_answers(question: str, expected: str) -> list[str]:
    answers = [agent.ask(question, HOME) for agent in CHOSEN]
    assert set(answers) == {expected}, answers
    return answers


@scenario
def plain() -> Any:
    return check_answers(agent_tasks.GREETING, agent_tasks.GREETED)


@scenario
def round_trip() -> Any:
    """The model tells the code only where it has seen the result of its call."""
    return check_answers(agent_tasks.QUESTION, agent_tasks.CODE)


report.main()
