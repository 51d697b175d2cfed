"""Custom tools, namespaces, and tools that nobody runs here, in the dialects that know them."""

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.settings import Settings
from server.turns.call_stream import _InputText
from server.turns.offered_tools import read_offered_tools
from tests.scripted_model import scripted, wishing
from tests.server.running_server import Json, running, stream
from tests.templates import hermes_call

ASK = [{"role": "user", "content": "Go on."}]
PATCH = 'start: head line+ tail\nhead: "*** Begin" LF\nline: ("+" | "-") /(.*)/ LF\n' + (
    'tail: "*** End"\n%import common.LF'
)
EDIT: Json = {
    "type": "custom",
    "name": "edit",
    "description": "Edits a file.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH},
}
NOTE: Json = {"type": "custom", "name": "note", "description": "Takes a note."}
SEARCH: Json = {"type": "web_search"}
TEXT = '*** Begin\n+say "hi" \\ \U0001f600\n*** End'
MEMBER: Json = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
SPACE: Json = {"type": "namespace", "name": "files", "description": "Files.", "tools": [MEMBER]}


def call(name: str, **arguments: Any) -> str:
    return hermes_call(name, json.dumps(arguments, ensure_ascii=False))


def post(client: httpx.Client, path: str, body: Json, status: int = 200) -> Json:
    given = {"input": "Go on."} if path == "/v1/responses" else {"messages": ASK}
    response = client.post(path, json={**given, **body})
    assert response.status_code == status, response.text
    return response.json()


def find_arguments(body: Json) -> Json:
    """Those of the one call of a reply, in any dialect."""
    if "choices" in body:
        return json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    if "output" in body:
        return json.loads(body["output"][0]["arguments"])
    return body["content"][0]["input"]


def test_a_custom_tool_in_responses() -> None:
    with running(scripted(call("edit", input=TEXT))) as client:
        body = post(client, "/v1/responses", {"tools": [EDIT, NOTE]})
        (item,) = body["output"]
        assert item["type"] == "custom_tool_call"
        assert (item["name"], item["input"], item["status"]) == ("edit", TEXT, "completed")
        assert item["call_id"].startswith("call_")
        assert body["tools"] == [EDIT, NOTE]
        events = [
            e for _, e in stream(client, "/v1/responses", {"input": "Go on.", "tools": [EDIT]})
        ]
        deltas = [e for e in events if e["type"] == "response.custom_tool_call_input.delta"]
        assert len(deltas) > 3
        assert "".join(e["delta"] for e in deltas) == TEXT
        (done,) = [e for e in events if e["type"] == "response.custom_tool_call_input.done"]
        assert done["input"] == TEXT
        history = [
            {"role": "user", "content": "Go on."},
            item,
            {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Edited."},
        ]
        again = post(client, "/v1/responses", {"input": history, "tools": [EDIT]})
        assert again["status"] == "completed"


def test_a_custom_tool_in_chat_completions() -> None:
    path = "/v1/chat/completions"
    inner = {**EDIT, "format": {"type": "grammar", "grammar": EDIT["format"]}}
    del inner["type"]
    tool = {"type": "custom", "custom": inner}
    choice = {"type": "custom", "custom": {"name": "edit"}}
    with running(scripted(call("edit", input=TEXT))) as client:
        body = post(client, path, {"tools": [tool], "tool_choice": choice})
        (made,) = body["choices"][0]["message"]["tool_calls"]
        assert (made["type"], made["custom"]) == ("custom", {"name": "edit", "input": TEXT})
        history = [
            *ASK,
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": "Edited."},
        ]
        fields = {"messages": history, "tools": [tool], "trace": True, "max_tokens": 100}
        reply = client.post(path, json=fields).json()
        prompt = reply["trace"]["prompt"]
        assert json.dumps(TEXT, ensure_ascii=False) in prompt


@pytest.mark.parametrize(
    ("format", "wanted", "given"),
    [
        (EDIT["format"], "no patch", None),
        ({"type": "grammar", "syntax": "regex", "definition": "[a-c]{2}"}, "abc", "ab"),
    ],
)
def test_the_mask_holds_the_format(format: Json, wanted: str, given: str | None) -> None:
    tool = {**EDIT, "format": format}
    options: Json = {"tools": [tool], "tool_choice": "required", "max_output_tokens": 200}
    options |= {"temperature": 0, "parallel_tool_calls": False}
    with running(wishing(call("edit", input=wanted))) as client:
        (item,) = post(client, "/v1/responses", options)["output"]
        if given is None:
            assert item["input"].startswith("*** Begin\n")
            assert re.fullmatch(r"\*\*\* Begin\n([+-].*\n)+\*\*\* End", item["input"])
        else:
            assert item["input"] == given


def test_a_namespace() -> None:
    path = "/v1/responses"
    with running(scripted(call("files__read", n=3))) as client:
        body = post(client, path, {"tools": [SPACE], "tool_choice": "required"})
        (item,) = body["output"]
        assert (item["name"], item["namespace"], item["arguments"]) == ("read", "files", '{"n": 3}')
        for choice in (
            {"type": "function", "name": "read"},
            {"type": "function", "name": "read", "namespace": "files"},
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "read"}],
            },
        ):
            (chosen,) = post(client, path, {"tools": [SPACE], "tool_choice": choice})["output"]
            assert chosen["name"] == "read"
        history = [
            item,
            {"type": "function_call_output", "call_id": item["call_id"], "output": "text"},
        ]
        assert post(client, path, {"input": history, "tools": [SPACE]})["status"] == "completed"


def test_tools_that_nobody_runs_are_named() -> None:
    ping = {"type": "function", "name": "ping"}
    with running(scripted(call("ping"))) as client:
        response = client.post(
            "/v1/responses", json={"input": "Go on.", "tools": [SEARCH, ping, {"type": "computer"}]}
        )
        assert response.headers["X-Skipped-Tools"] == "web_search, computer"
        body = response.json()
        assert body["output"][0]["name"] == "ping"
        assert body["constrained"]["skipped_tools"] == [
            {"type": "web_search", "where": "/tools/0"},
            {"type": "computer", "where": "/tools/2"},
        ]
        options = {"tools": [SEARCH, ping], "tool_choice": {"type": "web_search"}}
        error = post(client, "/v1/responses", options, 400)["error"]
        assert error["param"] == "/tool_choice"
        assert "this server cannot run" in error["message"]
        options["tool_choice"] = {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH]}
        error = post(client, "/v1/responses", options, 400)["error"]
        assert error["param"] == "/tool_choice/tools"
        hosted = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
        anthropic = {"max_tokens": 100, "tools": [hosted, {"name": "ping", "input_schema": {}}]}
        body = post(client, "/v1/messages", anthropic)
        assert body["content"][0]["name"] == "ping"
        assert body["constrained"]["skipped_tools"][0]["where"] == "/tools/0"


MCP: Json = {"type": "mcp", "server_label": "raw", "require_approval": "never"}
TOOLSET: Json = {"type": "mcp_toolset", "mcp_server_name": "raw"}
SERVER: Json = {"type": "url", "url": "http://localhost/mcp", "name": "raw"}


@pytest.mark.parametrize(
    ("path", "options", "where"),
    [
        ("/v1/responses", {"tools": [MEMBER, MCP]}, "/tools/1/type"),
        ("/v1/responses/input_tokens", {"tools": [MCP]}, "/tools/0/type"),
        ("/v1/responses", {"tools": [MEMBER], "tool_choice": MCP}, "/tool_choice"),
        ("/v1/chat/completions", {"tools": [MCP]}, "/tools/0/type"),
        ("/v1/messages", {"max_tokens": 9, "mcp_servers": [SERVER]}, "/mcp_servers"),
        ("/v1/messages/count_tokens", {"mcp_servers": [SERVER]}, "/mcp_servers"),
        ("/v1/messages", {"max_tokens": 9, "tools": [TOOLSET]}, "/tools/0/type"),
    ],
)
def test_tools_of_mcp_servers_are_refused(path: str, options: Json, where: str) -> None:
    said = {"messages": ASK} if "responses" not in path else {"input": "Go on."}
    with running(scripted("hi")) as client:
        response = client.post(path, json={**said, **options})
        assert response.status_code == 400
        error = response.json()["error"]
        assert "send its tools as functions" in error["message"]
        assert error.get("param", where) == where
        assert "messages" not in path or f"(at {where})" in error["message"]


def test_an_empty_list_of_mcp_servers_asks_for_nothing() -> None:
    with running(scripted("hi")) as client:
        assert post(client, "/v1/messages", {"max_tokens": 9, "mcp_servers": []})["content"]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
def test_strict_false_is_enforced_all_the_same(path: str) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    key = "input_schema" if path == "/v1/messages" else "parameters"
    function: Json = {"name": "pick", key: schema, "strict": False}
    tool = {"type": "function", "function": function}
    if path != "/v1/chat/completions":
        tool = {**function, "type": "custom" if path == "/v1/messages" else "function"}
    choice = {"type": "any"} if path == "/v1/messages" else "required"
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    options = {"tools": [tool], "tool_choice": choice, limit: 100, "temperature": 0}
    with running(wishing(call("pick", n=1, other="x"))) as client:
        assert find_arguments(post(client, path, options)) == {"n": 1}
    lenient = Settings(lenient_tools=True, show_grammar=True)
    with running(wishing(call("pick", n=1, other="x")), lenient) as client:
        weakened = post(client, path, options)["constrained"]["weakened"]
        assert weakened["pick"]["strict"] is False


def test_the_place_of_a_mistake_is_that_in_the_request() -> None:
    wrong = {**MEMBER, "parameters": {"type": "object", "properties": {"n": {"type": "no"}}}}
    recursive = {"type": "grammar", "syntax": "lark", "definition": 'start: "(" start ")" | "x"'}
    space = {**SPACE, "tools": [MEMBER, {**wrong, "name": "write"}]}
    with running(scripted("hi")) as client:
        for tools, where in (
            ([SEARCH, space], "/tools/1/tools/1/parameters"),
            ([SEARCH, {**EDIT, "format": recursive}], "/tools/1/format/definition"),
            ([{**EDIT, "format": {"type": "no"}}], "/tools/0/format"),
            ([{"type": "custom"}], "/tools/0/name"),
        ):
            body: Json = {"input": "Go on.", "tools": tools, "tool_choice": "required"}
            body["max_output_tokens"] = 100
            response = client.post("/v1/responses", json=body)
            if response.status_code == 200:  # it is not offered, and the others are
                (refused,) = response.json()["constrained"]["refused_tools"]
                assert refused["pointer"].startswith(where)
            else:
                assert response.status_code == 400
                assert response.json()["error"]["param"].startswith(where)


def test_what_clients_ran_elsewhere_is_read() -> None:
    history = [
        {"role": "user", "content": "List it."},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls -l"]}},
        {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "total 0"}]},
    ]
    with running(scripted("Nothing.")) as client:
        response = client.post("/v1/responses", json={"input": history})
        assert response.json()["output"][0]["content"][0]["text"] == "Nothing."
        assert response.headers["X-Ignored-Fields"] == "input/1 (web_search_call)"


@given(st.text(), st.lists(st.integers(1, 6), min_size=1))
def test_an_input_arrives_piece_by_piece(text: str, sizes: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=len(text) % 2 == 0)
    reader = _InputText()
    sent = ""
    at = number = 0
    while at < len(arguments):
        size = sizes[number % len(sizes)]
        sent += reader.add(arguments[at : at + size])
        assert text.startswith(sent)
        at += size
        number += 1
    assert sent + reader.finish({"input": text}) == text


def test_functions_of_a_type_of_their_own_are_functions() -> None:
    tools = [{"type": "mcp_function", "name": "a", "parameters": {}}, {"name": "b"}]
    read = read_offered_tools(tools, Settings())
    assert [tool["name"] for tool in read.functions] == ["a", "b"]
    assert not read.skipped
