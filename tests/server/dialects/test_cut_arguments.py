"""Arguments of a call in the history that are no object, where the template writes no others: the
error has their place in the client's own request."""

import json
from typing import Any

import pytest

from tests.scripted_model import scripted
from tests.server.running_server import Json, running
from tests.templates import QWEN3_CODER

CUT = '{"city": "Par'
ASKED: Json = {"role": "user", "content": "Hi"}


def called(arguments: Any, **call: Any) -> Json:
    calls = [{**call, "function": {"name": "look", "arguments": arguments}}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def item(arguments: str, id: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": "look", "arguments": arguments}


TEXT: Json = {"type": "text", "text": "I look."}
USES: list[Json] = [
    {"type": "tool_use", "id": f"c{number}", "name": "look", "input": given}
    for number, given in enumerate(({}, CUT))
]
RESULTS: list[Json] = [{"type": "tool_result", "tool_use_id": use["id"]} for use in USES]
OUTPUTS: list[Json] = [
    {"type": "function_call_output", "call_id": f"c{number}", "output": "sunny"}
    for number in range(2)
]
REQUESTS: dict[str, tuple[Json, str]] = {
    "/v1/chat/completions": (
        {"messages": [ASKED, called(CUT, id="c1", type="function")]},
        "/messages/1/tool_calls/0/function/arguments",
    ),
    "/v1/responses": (
        {
            "instructions": "Be brief.",
            "input": [ASKED, item("{}", "c0"), item(CUT, "c1"), *OUTPUTS],
        },
        "/input/2/arguments",
    ),
    "/v1/messages": (
        {
            "system": "Be brief.",
            "messages": [
                ASKED,
                {"role": "assistant", "content": [TEXT, *USES]},
                {"role": "user", "content": RESULTS},
            ],
            "max_tokens": 9,
        },
        "/messages/1/content/2/input",
    ),
    "/api/chat": (
        {"messages": [ASKED, called(CUT), {"role": "tool", "content": "sunny"}]},
        "/messages/1/tool_calls/0/function/arguments",
    ),
}


@pytest.mark.parametrize("path", REQUESTS)
def test_the_error_has_their_place(path: str) -> None:
    body, place = REQUESTS[path]
    with running(scripted("Hi.", source=QWEN3_CODER)) as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert f"not a JSON object, and chat template writes no others (at {place})" in json.dumps(
        answer.json()
    )
