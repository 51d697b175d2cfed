"""Asks `constrained check`, and shortens its answers."""

import json
from typing import Any

import pytest

from constrained.inspect.replay.check import check_rows
from tests.templates import HERMES, PAINT, PING, hermes_call

CALL = hermes_call("ping")
KINDS = pytest.mark.parametrize("markers", ["text", "token"])


def answer_to(text: Any = "hi", tools: Any = (PING, PAINT), **row: Any) -> dict[str, Any]:
    if not row.keys() & {"template", "format", "model"}:
        row["template"] = HERMES
    tools = list(tools) if isinstance(tools, tuple) else tools
    (answer,) = check_rows([{"id": 1, "tools": tools, "text": text, **row}])
    json.dumps(answer)
    return answer


def calls(answer: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    return [(c["name"], c["arguments"], c["valid"]) for c in answer["tool_calls"]]


def judged(answer: dict[str, Any]) -> str:
    names = ("accepted", "complete", "valid")
    return "".join(name[0] if answer[name] else "-" for name in names)
