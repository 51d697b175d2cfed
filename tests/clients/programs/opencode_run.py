"""opencode: runs of `opencode run`, over Chat Completions."""

import json
from typing import Any

import report
from coding_agent import CodingAgent, greet, read_notes
from report import scenario

CONFIG: dict[str, Any] = {
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
AGENT = CodingAgent(
    "opencode",
    ("run",),
    files={".config/opencode/opencode.json": json.dumps(CONFIG)},
    environment={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    },
)


def find_answer(printed: str) -> str:
    return printed.strip().splitlines()[-1]


@scenario
def plain() -> Any:
    return greet(AGENT, find_answer)


@scenario
def round_trip() -> Any:
    return read_notes(AGENT, find_answer)


report.main()
