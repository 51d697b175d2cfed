"""The playground: what it loads, who may look, and what the workbench answers."""

import re
from pathlib import Path

import pytest

from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import HERMES, PING, hermes_call

CALL = hermes_call("ping")


@pytest.mark.parametrize("path", ["/playground", "/playground/trace"])
def test_the_pages_load_nothing_and_need_no_key(path: str):
    with running(scripted("Hi."), Settings(api_keys=("k",))) as client:
        page = client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(r"""(?:src|href)=["'](?!data:)[^"']*""", page.text) == []
    assert "Content-Security-Policy" in page.text
    assert page.headers["x-frame-options"] == "DENY"


def test_the_workbench_needs_a_key():
    with running(scripted("Hi."), Settings(api_keys=("k",))) as client:
        assert client.post("/playground/inspect", json={"format": "hermes"}).status_code == 401


def test_the_workbench():
    with running(scripted("Hi.")) as client:
        row = {"template": HERMES, "tools": [PING], "text": CALL}
        found = client.post("/playground/inspect", json=row).json()
        assert found["check"]["tool_calls"][0]["name"] == "ping"
        assert found["refusal"] is None
        found = client.post("/playground/inspect", json={**row, "text": CALL[:-3]}).json()
        assert found["refusal"]["forced"] == CALL[-3:]


def test_the_workbench_reads_no_file(tmp_path: Path):
    path = tmp_path / "secret.jinja"
    path.write_text("{{ messages }} secret")
    with running(scripted("Hi.")) as client:
        for row in ({"template": str(path)}, {"format": "hermes", "tool_format": str(path)}):
            answer = client.post("/playground/inspect", json=row)
            assert answer.status_code == 400
            assert "secret" not in answer.text.replace(str(path), "")
        answer = client.post("/playground/inspect", json={"model": str(path)})
        assert answer.status_code == 400


def test_a_template_that_never_ends():
    bomb = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with running(scripted("Hi.")) as client:
        answer = client.post("/playground/inspect", json={"template": bomb})
        assert answer.status_code == 400
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_trace_in_the_reply(stream: bool):
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [PING], "trace": True}
    with running(scripted(CALL)) as client:
        answer = client.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.status_code == 200
        assert answer.text.count('"masked_probability"') > 1
        refused = client.post("/v1/chat/completions", json={**body, "n": 2})
        assert refused.json()["error"]["param"] == "/trace"
