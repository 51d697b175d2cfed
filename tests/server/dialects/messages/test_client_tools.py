"""Tools that Anthropic describes and the client carries out."""

from typing import Any

import jsonschema
import pytest

from constrained import report_tools
from server.dialects.messages.client_tools import CLIENT_TOOLS, describe_client_tools
from tests.scripted_model import scripted
from tests.server.dialects.messages.message_client import BASE, MARK, PATH, ask
from tests.server.running_server import Json, running
from tests.templates import hermes_call

FILE = {"path": "/a"}
REPLACED = {**FILE, "command": "str_replace", "old_str": "a"}
LATEST, FIRST, MEMORY = "text_editor_20250728", "text_editor_20250124", "memory_20250818"
INPUTS: list[tuple[str, Json, bool]] = [
    ("bash_20250124", {"command": "ls"}, True),
    ("bash_20250124", {"restart": True}, True),
    ("bash_20250124", {"restart": False}, False),
    ("bash_20250124", {}, False),
    (LATEST, {**FILE, "command": "view"}, True),
    (LATEST, {**FILE, "command": "view", "view_range": [1, -1]}, True),
    (LATEST, {**FILE, "command": "view", "file_text": "a"}, False),
    (LATEST, {"command": "view"}, False),
    (LATEST, {**FILE, "command": "create", "file_text": ""}, True),
    (LATEST, {**FILE, "command": "create"}, False),
    (LATEST, REPLACED, True),
    (LATEST, {**REPLACED, "new_str": "b"}, True),
    (LATEST, {**FILE, "command": "insert", "insert_line": 0, "insert_text": "a"}, True),
    (LATEST, {**FILE, "command": "insert", "insert_line": 0, "new_str": "a"}, False),
    (LATEST, {**FILE, "command": "undo_edit"}, False),
    (FIRST, {**FILE, "command": "undo_edit"}, True),
    (FIRST, {**FILE, "command": "insert", "insert_line": 0, "new_str": "a"}, True),
    (MEMORY, REPLACED, False),
    (MEMORY, {**REPLACED, "new_str": ""}, True),
    (MEMORY, {**FILE, "command": "delete"}, True),
    (MEMORY, {"command": "rename", "old_path": "/a", "new_path": "/b"}, True),
    (MEMORY, {**FILE, "command": "rename"}, False),
]


@pytest.mark.parametrize(("kind", "input", "fits"), INPUTS)
def test_the_inputs_that_a_client_takes(kind: str, input: Json, fits: bool) -> None:
    (tool,) = describe_client_tools([{"type": kind}])
    assert jsonschema.Draft202012Validator(tool["input_schema"]).is_valid(input) is fits


@pytest.mark.parametrize("kind", CLIENT_TOOLS)
def test_the_mask_enforces_all_of_a_schema(kind: str) -> None:
    (report,) = report_tools(describe_client_tools([{"type": kind}]))
    found = report.report
    assert report.error is None
    assert [*found.checked, *found.repaired, *found.ignored] == []
    assert {one.keyword for one in found.narrowed} <= {"type"}  # integers have 64 bits


UNTOUCHED: list[Json] = [
    {"type": "bash_20990101", "name": "bash"},
    {"type": "computer_20251124", "name": "computer", "display_width_px": 10},
    {"type": "bash_20250124", "name": "bash", "input_schema": {"type": "object"}},
    {"type": ["bash_20250124"]},
    {"name": "bash"},
]


@pytest.mark.parametrize("tool", UNTOUCHED)
def test_other_tools_stay_as_they_are(tool: Any) -> None:
    assert describe_client_tools([tool]) == [tool]


def test_what_the_client_says_of_its_tool_holds() -> None:
    given = {"type": LATEST, "name": "edit", "max_characters": 10_000, "defer_loading": True}
    (tool,) = describe_client_tools([{**given, **MARK}])
    assert (tool["name"], tool["defer_loading"]) == ("edit", True)
    assert "cache_control" in tool
    assert tool["description"].endswith("at most 10,000 characters of a file.")
    assert "10,000" not in CLIENT_TOOLS[LATEST]["description"]
    odd = {"type": LATEST, "name": None, "description": 7, "max_characters": 1}
    (refused_later,) = describe_client_tools([odd])
    assert (refused_later["name"], refused_later["description"]) == (
        "str_replace_based_edit_tool",
        7,
    )


def test_a_client_gets_calls_of_its_tools_and_the_names_of_those_that_are_left_out() -> None:
    edit = {"command": "create", "path": "/a.py", "file_text": "x = 1\n"}
    called = hermes_call("edit", '{"command": "create", "path": "/a.py", "file_text": "x = 1\\n"}')
    tools = [
        {"type": LATEST, "name": "edit"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "bash_20990101", "name": "newer_bash"},
        {"type": "computer_toolset_20260801"},
    ]
    with running(scripted(called)) as client:
        choice = {"type": "tool", "name": "edit"}
        message = ask(client, tools=tools, tool_choice=choice, temperature=0)
        (block,) = message["content"]
        assert (block["type"], block["name"], block["input"]) == ("tool_use", "edit", edit)
        # Another tool of the name of one that is left out is meant by that name.
        tools.append({"type": "editor_20990101", "name": "edit"})
        response = client.post(PATH, json={**BASE, "tools": tools, "tool_choice": choice})
        assert response.json()["content"][0]["name"] == "edit"
        assert response.headers["x-skipped-tools"] == (
            "bash_20990101, computer_toolset_20260801, editor_20990101"
        )
