"""`--timeout` ends a request in every stage, whatever a thread is busy with."""

import threading
import time
from typing import Any

import pytest

from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.running_server import running

SECONDS = 0.5
SLACK = 3  # seconds that a busy machine may take
HELD = 8.0  # seconds of a stage
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
STAGES = {
    "reading the JSON": "server.dialects.common.reading.read_object",
    "reading the fields": "server.dialects.common.reading.validate_fields",
    "compiling": "constrained.model.compile.compiler.Compiler.compile",
    "the template": "constrained.prompt.template.chat_template.ChatTemplate.render",
}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_stage_that_is_held_up_does_not_hold_up_its_client(
    monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    released = threading.Event()
    with running(scripted("Hi."), Settings(timeout=SECONDS)) as client:
        assert client.post("/v1/chat/completions", json=BODY).status_code == 200

        def wait(*arguments: Any, **named: Any) -> None:
            released.wait(HELD)

        monkeypatch.setattr(stage, wait)
        began = time.monotonic()
        answer = client.post("/v1/chat/completions", json=BODY)
        took = time.monotonic() - began
        released.set()
    assert answer.status_code == 504
    assert took < SECONDS + SLACK


def test_a_turn_that_is_written_slowly_ends() -> None:
    with running(scripted(" ".join(map(str, range(4_000)))), Settings(timeout=SECONDS)) as client:
        began = time.monotonic()
        body = {**BODY, "max_tokens": 15_000}
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 504
    assert time.monotonic() - began < SECONDS + SLACK
