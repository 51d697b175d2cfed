"""Tools that OpenAI describes and the client executes: shells and patches."""

import json

import jsonschema
import pytest
from openai.types.responses import Response
from pydantic import TypeAdapter

from constrained import report_tools
from server.dialects.responses.client_tools import CLIENT_TOOLS, describe_client_tools
from server.dialects.responses.conversation import write_messages
from server.dialects.responses.items import read_input
from server.errors import HttpError
from tests.scripted_model import scripted
from tests.server.dialects.responses.response_client import ask, events_of, refuse
from tests.server.running_server import Json, running
from tests.templates import hermes_call

RESPONSE = TypeAdapter(Response)
CREATE: Json = {"type": "create_file", "path": "a.py"}
UPDATE: Json = {"type": "update_file", "path": "a.py"}
DELETE: Json = {"type": "delete_file", "path": "a.py"}
ARGUMENTS: list[tuple[str, Json, bool]] = [
    ("shell", {"commands": ["ls", "pwd"], "timeout_ms": 10, "max_output_length": 100}, True),
    ("shell", {"commands": []}, False),
    ("shell", {"commands": "ls"}, False),
    ("shell", {"commands": ["ls"], "user": "root"}, False),
    ("apply_patch", {**CREATE, "diff": "+x = 1\n+\n+y = 2\n"}, True),
    ("apply_patch", {**CREATE, "diff": "x = 1"}, False),
    ("apply_patch", CREATE, False),
    ("apply_patch", {**UPDATE, "diff": "@@ def f():\n a\n-b\n+c\n"}, True),
    ("apply_patch", {**UPDATE, "diff": "+last\n*** End of File\n"}, True),
    ("apply_patch", {**UPDATE, "diff": "b\n+c"}, False),
    ("apply_patch", UPDATE, False),
    ("apply_patch", DELETE, True),
    ("apply_patch", {**DELETE, "diff": "-a"}, False),
]


@pytest.mark.parametrize(("kind", "arguments", "fits"), ARGUMENTS)
def test_the_arguments_that_a_client_takes(kind: str, arguments: Json, fits: bool) -> None:
    parameters = CLIENT_TOOLS[kind].parameters
    assert jsonschema.Draft202012Validator(parameters).is_valid(arguments) is fits


@pytest.mark.parametrize("kind", CLIENT_TOOLS)
def test_the_mask_enforces_all_of_a_schema(kind: str) -> None:
    (report,) = report_tools(describe_client_tools([{"type": kind}]))
    found = report.report
    assert report.error is None
    assert [*found.checked, *found.repaired, *found.ignored] == []
    assert {one.keyword for one in found.narrowed} <= {"type"}  # integers have 64 bits


UNTOUCHED: list[Json] = [
    {"type": "shell", "environment": {"type": "container_auto"}},
    {"type": "shell", "name": "shell", "parameters": {"type": "object"}},
    {"type": "computer_use_preview"},
    {"type": ["shell"]},
    {"type": "function", "name": "shell"},
]


@pytest.mark.parametrize("tool", UNTOUCHED)
def test_other_tools_stay_as_they_are(tool: Json) -> None:
    assert describe_client_tools([tool]) == [tool]


def test_the_model_is_told_the_skills_of_a_shell() -> None:
    skill = {"name": "csv", "description": "Reads tables", "path": "/skills/csv"}
    environment = {"type": "local", "skills": [skill]}
    (tool,) = describe_client_tools([{"type": "shell", "environment": environment}])
    assert tool["description"].endswith("\n- /skills/csv: Reads tables (csv)")


CALLS: list[tuple[str, Json, str, Json, Json]] = [
    (
        "shell",
        {"commands": ["ls"]},
        "action",
        {"commands": ["ls"]},
        {"output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    ),
    ("apply_patch", DELETE, "operation", DELETE, {"status": "completed"}),
]


@pytest.mark.parametrize(("kind", "arguments", "field", "shown", "result"), CALLS)
def test_a_call_is_an_item_of_its_own_and_goes_on_with_its_result(
    kind: str, arguments: Json, field: str, shown: Json, result: Json
) -> None:
    called = hermes_call(kind, json.dumps(arguments))
    with running(scripted(called, "Done.")) as client:
        body = ask(client, tools=[{"type": kind}], tool_choice="required")
        RESPONSE.validate_python(body)
        (item,) = body["output"]
        assert (item["type"], item["status"]) == (f"{kind}_call", "completed")
        assert item[field] == shown
        assert "skipped_tools" not in body.get("constrained", {})
        choice = {"type": kind}
        *_, added, done, last = events_of(client, tools=[{"type": kind}], tool_choice=choice)
        assert (added["item"]["status"], last["type"]) == ("in_progress", "response.completed")
        assert done["item"][field] == shown
        # The client goes on with its own copy of the conversation, or with that of the server.
        output = {"type": f"{kind}_call_output", "call_id": item["call_id"], **result}
        written_out = {**item, field: {**item[field], "timeout_ms": None}}
        whole = [{"role": "user", "content": "Hello"}, written_out, output]
        again = ask(client, whole, tools=[{"type": kind}])
        follow = ask(client, [output], tools=[{"type": kind}], previous_response_id=body["id"])
        for reply in (again, follow):
            assert reply["output"][0]["content"][0]["text"] == "Done."
        assert again["usage"]["input_tokens"] == follow["usage"]["input_tokens"]


def test_a_shell_of_openai_is_left_out_by_name() -> None:
    tool = {"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}}
    with running(scripted("Hi.")) as client:
        notes = ask(client, tools=[tool])["constrained"]
        assert notes["skipped_tools"] == [{"type": "shell", "where": "/tools/0"}]
        error = refuse(client, tools=[tool], tool_choice={"type": "shell"})
        assert error["param"] == "/tool_choice"


def test_a_failed_patch_says_so() -> None:
    call = {"type": "apply_patch_call", "call_id": "c1", "operation": DELETE}
    output = {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed"}
    texts = list[str]()
    for said in ({}, {"output": "no such file"}):
        items = read_input([call, {**output, **said}], lambda ids: {})
        *_, message = write_messages(items)
        texts.append(message["content"])
    assert texts == ["failed", "failed: no such file"]


@pytest.mark.parametrize(
    ("item", "where"),
    [
        ({"type": "shell_call", "call_id": "c1", "action": ["ls"]}, "/input/0/action"),
        ({"type": "apply_patch_call", "call_id": 7, "operation": DELETE}, "/input/0/call_id"),
    ],
)
def test_a_damaged_call_is_refused(item: Json, where: str) -> None:
    with pytest.raises(HttpError) as caught:
        read_input([item], lambda ids: {})
    assert caught.value.where == where
