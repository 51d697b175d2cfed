"""The traces of a server: one line for each reply, in a file of bounded size that is private."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import RequestError
from constrained.model.trace.turn_trace import TurnTrace
from constrained.prompt.job import Job
from server.observe.trace_file import TraceFile
from server.settings import MIB, Settings
from server.turns.observers import TracedRequest, name_key
from tests.scripted_model import scripted
from tests.server.running_server import running, stream
from tests.templates import PING, hermes_call

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "tools": [PING]}
TURN = scripted("").compile(Job([{"role": "user", "content": "x" * 1000}]))
EMPTY = TurnTrace(TURN, "stop")


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_reply_has_a_line_with_the_id_of_its_request(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    settings = Settings(trace=path, api_keys=("secret",))
    text = hermes_call("ping")
    with running(scripted(text, text, text, text), settings) as client:
        client.headers["authorization"] = "Bearer secret"
        reply = client.post("/v1/chat/completions", json=ASK)
        assert "trace" not in reply.json()["choices"][0]
        assert "trace" not in reply.json()
        body = {**ASK, "max_tokens": 99, "tools": [{"name": "ping", "input_schema": {}}]}
        mine = {"X-Request-Id": "mine-1"}
        message = client.post("/v1/messages", json=body, headers=mine)
        assert message.headers["request-id"] == message.headers["x-request-id"] == "mine-1"
        stream(client, "/v1/chat/completions", ASK)
        asked = client.post("/v1/chat/completions", json={**ASK, "trace": True})
        assert asked.json()["choices"][0].get("trace") or asked.json().get("trace")
    lines = read_lines(path)
    assert len(lines) == 4
    first = lines[0]
    assert first["request"]["id"] == reply.headers["x-request-id"]
    assert first["request"]["model"] == "demo"
    assert first["request"]["key"] == name_key(b"secret") == name_key("secret")
    assert first["calls"] == ["ping"]
    assert "".join(token["text"] for token in first["tokens"] if not token.get("end")) == text
    assert lines[1]["request"]["id"] == "mine-1"
    assert "secret" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_choices_are_lines_of_their_own(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    with running(scripted("one", "two"), Settings(trace=path)) as client:
        body = {"messages": ASK["messages"], "n": 2}
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    lines = read_lines(path)
    assert sorted(line["request"]["choice"] for line in lines) == [0, 1]
    assert len({line["request"]["id"] for line in lines}) == 1
    assert "key" not in lines[0]["request"]


@pytest.mark.parametrize("given", ["a b", "x" * 129, 'a"b', ""])
def test_an_id_that_is_not_fit_for_a_log_is_replaced(given: str):
    with running(scripted("Hi")) as client:
        reply = client.get("/health", headers={"X-Request-Id": given})
    assert reply.headers["x-request-id"].startswith("req_")


def test_a_full_file_takes_the_place_of_the_older_one(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    file = TraceFile(path, 5000)
    for number in range(20):
        file.note(TracedRequest(f"r{number}", "m"), EMPTY)
    file.close()
    assert sorted(os.listdir(tmp_path)) == ["turns.jsonl", "turns.jsonl.1"]
    old = tmp_path / "turns.jsonl.1"
    assert path.stat().st_size <= 5000
    assert old.stat().st_size <= 5000
    kept = [line["request"]["id"] for line in read_lines(old) + read_lines(path)]
    assert kept == [f"r{number}" for number in range(20 - len(kept), 20)]


def test_a_trace_that_is_too_large_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "turns.jsonl"
    file = TraceFile(path, 500)
    file.note(TracedRequest("large", "m"), EMPTY)
    file.close()
    assert path.read_text() == ""
    assert "the trace of large is left out" in caplog.text


def test_a_file_that_others_may_read_is_made_private(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    path.write_text("")
    path.chmod(0o644)
    TraceFile(path, MIB).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_file_of_ones_own_is_refused(tmp_path: Path):
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "", "missing/turns.jsonl"):
        with pytest.raises(RequestError, match="cannot be used for traces"):
            TraceFile(tmp_path / name, MIB)


def test_a_lone_surrogate_is_no_obstacle(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    file = TraceFile(path, MIB)
    file.note(TracedRequest("\udc80", "m"), EMPTY)
    file.close()
    assert read_lines(path)[0]["request"]["id"] == "\udc80"
