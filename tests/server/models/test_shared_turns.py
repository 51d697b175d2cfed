"""Generated turns: a front goes on from the tokens of turns that another one has seen."""

from pathlib import Path
from typing import Any

import pytest

from constrained import Model
from constrained.prompt.job import Job
from server.models.shared_values import SharedTurns
from server.store.store_address import open_store
from tests.scripted_model import scripted

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def make_front(address: str, *scripts: str) -> Model:
    model = scripted(*scripts)
    turns = SharedTurns(open_store(address), model.compiler.fingerprint)
    model.compiler.prompts.share_turns(turns)
    return model


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'store.db'}"


def test_a_conversation_goes_on_at_another_front_with_the_tokens_of_its_turns(address: str) -> None:
    script = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    one, other = make_front(address, script), make_front(address, script)
    alone = scripted(script)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What's the weather in Oslo?"}]
    for turn in range(3):
        front = (one, other)[turn % 2]
        compiled = front.compile(Job(messages, [TOOL]))
        assert compiled.tokens == alone.compile(Job(messages, [TOOL])).tokens
        reused = compiled.prompt.reuse
        assert (reused.turn is not None) == (turn > 0)
        (reply,) = front.complete([compiled], max_tokens=200)
        alone.complete([alone.compile(Job(messages, [TOOL]))], max_tokens=200)
        messages += [reply.message(), {"role": "tool", "content": f"{turn} degrees"}]


def test_turns_of_another_salt_are_not_found(address: str) -> None:
    one, other = make_front(address, "Hello."), make_front(address, "Hello.")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    (reply,) = one.complete([one.compile(Job(messages, cache_salt="a"))])
    messages += [reply.message(), {"role": "user", "content": "Again"}]
    assert other.compile(Job(messages, cache_salt="a")).prompt.reuse.turn is not None
    assert other.compile(Job(messages, cache_salt="b")).prompt.reuse.turn is None


def test_a_turn_whose_beginning_is_gone_is_not_found(address: str) -> None:
    one = make_front(address, "Hello.")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    keys: list[bytes] = []
    for _ in range(2):
        compiled = one.compile(Job(messages))
        keys.append(compiled.prompt.key)
        (reply,) = one.complete([compiled])
        messages += [reply.message(), {"role": "user", "content": "Again"}]
    open_store(address).delete(f"turn/{one.compiler.fingerprint}", keys[0].hex())
    other = make_front(address, "Hello.")
    assert other.compile(Job(messages)).prompt.reuse.turn is None
