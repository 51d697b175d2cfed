"""Messages as they are streamed: the order of the events, pings, errors, and what is cached."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import ModelError
from constrained.prompt.template.chat_template import ChatTemplate
from server.dialects.messages.reply import fold
from server.settings import Settings
from tests.scripted_model import BYTES, TURN
from tests.server.dialects.messages.message_client import (
    BASE,
    MARK,
    PAINT,
    PATH,
    ask,
    check_order,
    count,
    same,
    total,
)
from tests.server.running_server import PATIENCE, Json, needs_own_engine, read_events, running
from tests.templates import OPEN, hermes_call

# Not BEHIND_THINKING: it also takes `\n</think>\n\n`, which may be what the model itself has said.
OPENED_TURN = TURN + rb"<think>\n"
ASKED = re.compile(rb"SAY ([0-9a-f]*)\.")


def obedient(gate: threading.Event | None = None) -> Model:
    """A model that says what the last message has told it to, see `say`."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        assert gate is None or gate.wait(PATIENCE)
        text = BYTES.text(tokens)
        start = [found.end() for found in re.finditer(OPENED_TURN, text)][-1]
        said = bytes.fromhex(ASKED.findall(text)[-1].decode()).decode()
        return scripted_logits(BYTES, said, start)(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=20_000)
    return Model(engine, ChatTemplate(OPEN))


def say(text: str) -> Json:
    """The message that asks for a text."""
    return {"role": "user", "content": f"SAY {text.encode().hex()}."}


@pytest.fixture(scope="module")
def speaker() -> Iterator[httpx.Client]:
    with running(obedient()) as client:
        yield client


words = st.text(alphabet="ab ö\n.", max_size=12)
colors = st.sampled_from(["red", "green"])
inputs = st.builds(lambda color, glossy: {"color": color, "glossy": glossy}, colors, st.booleans())


THREE: list[Json] = [
    {"color": "red", "glossy": False},
    {"color": "red", "glossy": True},
    {"color": "green", "glossy": False},
]


@settings(max_examples=60, deadline=None)
@given(words, words, st.lists(inputs, max_size=3, unique_by=str), st.integers(20, 400))
@example("\n", "\n\n", [], 20)
@example("\n", "\n\n", [{"color": "red", "glossy": False}], 400)
@example("", "", THREE, 278)  # the third call would have to repeat the second, to end in time
def test_any_turn_keeps_the_order(
    speaker: httpx.Client, thought: str, text: str, calls: list[Json], most: int
) -> None:
    written = "\n".join(hermes_call("paint", json.dumps(given)) for given in calls)
    messages = [say(f"{thought}</think>{text}{written}")]
    body: Json = {"messages": messages, "tools": [PAINT], "temperature": 0, "max_tokens": most}
    message = same(speaker, **body)  # checks the order, too
    kinds = [block["type"] for block in message["content"]]
    assert all(block["signature"] for block in message["content"] if block["type"] == "thinking")
    ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    assert len(set(ids)) == len(ids)
    if message["stop_reason"] == "max_tokens":
        return
    assert kinds.count("tool_use") == len(calls)
    used = [block["input"] for block in message["content"] if block["type"] == "tool_use"]
    assert used == calls
    said = "".join(b["text"] for b in message["content"] if b["type"] == "text")
    assert said.split() == text.split()
    assert message["stop_reason"] == ("tool_use" if calls else "end_turn")


def test_pings_come_while_nothing_else_does() -> None:
    gate = threading.Event()
    with running(obedient(gate), Settings(ping_seconds=1)) as client:
        body = {**BASE, "messages": [say("Hm.</think>Hi")], "stream": True}
        try:
            with client.stream("POST", PATH, json=body) as response:
                told = list[str]()
                for line in response.iter_lines():
                    told.append(line)
                    if told.count("event: ping") == 3:
                        gate.set()
        finally:
            gate.set()
    assert told[0] == "event: message_start"
    events = [json.loads(line.removeprefix("data: ")) for line in told if line[:5] == "data:"]
    assert [event["type"] for event in events[:4]] == ["message_start", "ping", "ping", "ping"]
    check_order(events)
    assert fold(events)["content"][-1] == {"type": "text", "text": "Hi"}


@needs_own_engine
def test_an_error_ends_the_stream_in_the_dialects_shape() -> None:
    starts = list[int]()

    def fail(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        starts.append(len(tokens))
        if len(tokens) > starts[0] + 3:
            raise ModelError("the device is gone")
        return scripted_logits(BYTES, "Hello.", starts[0])(sequence, tokens)

    model = Model(ScriptedEngine(BYTES, fail, context_length=20_000), ChatTemplate(OPEN))
    with running(model) as client:
        with client.stream("POST", PATH, json={**BASE, "stream": True}) as response:
            events = read_events(response)
        whole = client.post(PATH, json=BASE)
    assert [name for name, _ in events][:2] == ["message_start", "ping"]
    assert events[-1][1]["type"] == "error"
    assert events[-1][1]["error"]["type"] == "overloaded_error"
    assert "the device is gone" in events[-1][1]["error"]["message"]
    assert whole.status_code == 503
    assert whole.json() == events[-1][1]


@needs_own_engine
def test_what_fails_before_there_is_an_event_has_its_status_in_a_stream_too() -> None:
    def fail(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        raise ModelError("the device is gone")

    model = Model(ScriptedEngine(BYTES, fail, context_length=20_000), ChatTemplate(OPEN))
    with running(model) as client:
        streamed = client.post(PATH, json={**BASE, "stream": True})
        whole = client.post(PATH, json=BASE)
    assert streamed.status_code == whole.status_code == 503
    assert streamed.headers["Retry-After"] == whole.headers["Retry-After"]
    assert streamed.json() == whole.json()


def test_numbers_of_the_cache_over_a_growing_conversation() -> None:
    system = [{"type": "text", "text": "You are brief, and you are kind. " * 4, **MARK}]
    body: Json = {"system": system, "tools": [PAINT], "temperature": 0}

    def turn(*messages: Json) -> tuple[Json, Json]:
        *old, last = messages
        marked = {"type": "text", "text": last["content"], **MARK}
        asked = {**body, "messages": [*old, {"role": "user", "content": [marked]}]}
        tokens = count(client, **asked)
        message = ask(client, **asked)
        assert total(message) == tokens
        return message["usage"], {"role": "assistant", "content": message["content"]}

    with running(obedient()) as client:
        one = say("Hm.</think>One.")
        first, said = turn(one)
        assert first["cache_read_input_tokens"] == 0
        assert first["cache_creation_input_tokens"] > first["input_tokens"] > 0
        two = say("Hm.</think>Two.")
        second, said_too = turn(one, said, two)
        assert second["cache_read_input_tokens"] >= first["cache_creation_input_tokens"]
        assert second["cache_creation_input_tokens"] > 0
        third, _ = turn(one, said, two, said_too, say("Hm.</think>Three."))
        assert third["cache_read_input_tokens"] > second["cache_read_input_tokens"]
        assert third["cache_creation_input_tokens"] > 0


def test_without_breakpoints_nothing_is_counted_as_created(speaker: httpx.Client) -> None:
    usage = ask(speaker, messages=[say("Hm.</think>Hi")])["usage"]
    assert usage["cache_creation_input_tokens"] == 0


def test_a_breakpoint_on_the_tools_stands_behind_the_system(speaker: httpx.Client) -> None:
    def created(**more: Any) -> int:
        body: Json = {"messages": [say("Hm.</think>Hi")], **more}
        usage = ask(speaker, **body)["usage"]
        return usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]

    system = [{"type": "text", "text": "Behind tools."}]
    whole = count(speaker, messages=[say("Hm.</think>Hi")], system=system, tools=[PAINT])
    on_tools = created(system=system, tools=[{**PAINT, **MARK}])
    assert 0 < on_tools < whole
    assert created(system=system, tools=[PAINT], cache_control=MARK["cache_control"]) > on_tools
