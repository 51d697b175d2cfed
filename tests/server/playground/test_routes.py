"""The playground: what it loads, who may look, and the verdicts on calls."""

import re

import pytest

from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import PING, hermes_call

CALL = hermes_call("ping")


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/", "/playground", "/playground/trace"])
def test_the_pages_load_nothing_and_need_no_key(path: str):
    with running(scripted("Hi."), Settings(api_keys=("k",))) as client:
        page = client.get(path, headers=BROWSER)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(r"""(?:src|href)=["'](?!data:)[^"']*""", page.text) == []
    assert "Content-Security-Policy" in page.text
    assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, text/html", None])
def test_the_start_is_a_page_for_browsers_only(accept: str | None):
    with running(scripted("Hi.")) as client:
        page = client.get("/", headers=BROWSER)
        assert page.text == client.get("/playground").text
        client.headers.pop("Accept")
        start = client.get("/", headers={} if accept is None else {"Accept": accept})
    assert start.json()["playground"] == "/playground"
    assert page.headers["vary"] == start.headers["vary"] == "Accept"


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_the_page_knows_whether_there_are_keys(keys: tuple[str, ...]):
    with running(scripted("Hi."), Settings(api_keys=keys)) as client:
        page = client.get("/playground").text
    assert f'<body data-needs-key="{"true" if keys else "false"}">' in page
    assert "/*" + "NEEDS_KEY" not in page


def test_verdicts_need_a_key():
    with running(scripted("Hi."), Settings(api_keys=("k",))) as client:
        asked = {"tools": [PING], "calls": []}
        assert client.post("/playground/verdicts", json=asked).status_code == 401


def test_verdicts_of_calls():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [PING, {"name": "count", "input_schema": schema}]
    calls = [
        ("ping", "{}"),
        ("count", '{"n": 2.0}'),
        ("count", '{"n": "x"}'),
        ("count", "{"),
        ("pong", "{}"),
    ]
    body = {"tools": tools, "calls": [{"name": name, "arguments": text} for name, text in calls]}
    with running(scripted("Hi.")) as client:
        verdicts = client.post("/playground/verdicts", json=body).json()["verdicts"]
        assert [verdict["valid"] for verdict in verdicts] == [True, True, False, False, False]
        places = [error["pointer"] for verdict in verdicts for error in verdict["errors"]]
        assert places == ["/arguments/n", "/arguments", "/name"]
        refused = client.post("/playground/verdicts", json={"tools": [3], "calls": []})
        assert refused.json()["error"]["param"] == "/tools/0"


@pytest.mark.parametrize("stream", [False, True])
def test_a_trace_in_the_reply(stream: bool):
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [PING], "trace": True}
    with running(scripted(CALL)) as client:
        answer = client.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.status_code == 200
        assert answer.text.count('"masked_probability"') > 1
        refused = client.post("/v1/chat/completions", json={**body, "n": 2})
        assert refused.json()["error"]["param"] == "/trace"
