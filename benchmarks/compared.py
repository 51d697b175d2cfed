"""Checks what docs/comparison.md says about llama-server: the same requests to llama.cpp's server
and to this one, on the demo model at temperature 0.

    python -m benchmarks.compared FOLDER

FOLDER is a virtual environment, made if it is not there, for the package xllamacpp, which has
llama.cpp's server. The table shows, for each request, the call that came back, and whether it is
the requested one: the tool that `tool_choice` names, with arguments that fit its schema.
"""

import argparse
import json
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from benchmarks.peers import prepare
from benchmarks.processes.served import serve
from benchmarks.real import LLAMA_SERVER, start_llama_server
from constrained import embedded

PATIENCE = 120  # seconds
CONTEXT = "2048"
QUIET = ("-t", "1", "--log-level", "warning")


@dataclass(frozen=True)
class Case:
    """A request: its tool takes one argument of this schema; `named` is the tool that has to be
    called, "" where it is any."""

    title: str
    text: str
    argument: dict[str, Any]
    named: str = ""


NUMBERS = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}
CASES = (
    Case("a tool named by `tool_choice`", "Show 1 and 2", NUMBERS, named="hide"),
    Case("`pattern` of digits", "Show London", {"type": "string", "pattern": r"^\d+$"}),
    Case("`uniqueItems`", "Show 1 and 1", {**NUMBERS, "uniqueItems": True}),
    Case("`contains`", "Show 1 and 1", {**NUMBERS, "contains": {"const": 2}}),
    Case("`minimum` of a number", "Show 1.5", {"type": "number", "minimum": 100}),
    Case("`not`", "Show 1 and 1", {**NUMBERS, "not": {"const": [1, 1]}}),
)


def make_body(case: Case) -> dict[str, Any]:
    """Returns the request, in the form of Chat Completions."""
    parameters = {
        "type": "object",
        "properties": {"what": case.argument},
        "required": ["what"],
        "additionalProperties": False,
    }
    tools = [
        {"type": "function", "function": {"name": name, "parameters": parameters}}
        for name in ("show", "hide")
    ]
    choice: Any = "required"
    if case.named:
        choice = {"type": "function", "function": {"name": case.named}}
    return {
        "messages": [{"role": "user", "content": case.text}],
        "tools": tools,
        "tool_choice": choice,
        "max_tokens": 100,
        "temperature": 0,
    }


def ask(url: str, case: Case) -> str:
    """Returns the first call that comes back, with a mark: does it do what was asked for?"""
    answer = httpx.post(f"{url}/v1/chat/completions", json=make_body(case), timeout=PATIENCE)
    if answer.is_error:
        return f"status {answer.status_code}: {answer.text[:80]}"
    calls = answer.json()["choices"][0]["message"].get("tool_calls") or ()
    if not calls:
        return "✗ no call"
    function = calls[0]["function"]
    name, arguments = function["name"], json.loads(function["arguments"])
    fits = jsonschema_rs.is_valid(case.argument, arguments.get("what"))
    mark = "✗"
    if fits and case.named in ("", name):
        mark = "✓"
    return f"{mark} {name}({json.dumps(arguments)})"


def main() -> None:
    """Asks both servers, and prints a table."""
    parser = argparse.ArgumentParser(description="What the comparison says, asked of the servers.")
    parser.add_argument("folder", type=Path, help="a virtual environment for llama.cpp's server")
    options = parser.parse_args()
    python = prepare(options.folder, LLAMA_SERVER)
    path = str(embedded.PATH)
    with ExitStack() as stack:
        theirs = stack.enter_context(start_llama_server(python, path, "1", CONTEXT))
        ours = stack.enter_context(serve(["-m", path, "-c", CONTEXT, *QUIET])).url
        print(f"| request | llama-server | constrained {version('constrained-calls')} |")
        print("|---|---|---|")
        for case in CASES:
            print(f"| {case.title} | `{ask(theirs, case)}` | `{ask(ours, case)}` |", flush=True)


if __name__ == "__main__":
    main()
