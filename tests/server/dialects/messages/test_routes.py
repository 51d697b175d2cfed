"""Messages over HTTP: what goes in, what comes out, streamed and not."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from anthropic.types import AnthropicBetaParam

from server.dialects.common.sealed_reasoning import sign
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.messages.message_client import (
    BASE,
    BEHIND_THINKING,
    COUNT,
    HELLO,
    MARK,
    PAINT,
    PATH,
    PING_TOOL,
    ask,
    count,
    events_of,
    refuse,
    same,
    total,
)
from tests.server.running_server import Json, needs_own_engine, running
from tests.templates import OPEN, hermes_call

PAINTED = {"color": "red", "glossy": True}
THOUGHT = {"type": "thinking", "thinking": "I wonder.", "signature": sign("I wonder.")}


@pytest.fixture(scope="module")
def thinker() -> Iterator[httpx.Client]:
    said = "I wonder.</think>Hello."
    with running(scripted(said, source=OPEN, turn=BEHIND_THINKING)) as client:
        yield client


@needs_own_engine
def test_a_text(plain: httpx.Client) -> None:
    message = ask(plain)
    assert message["id"].startswith("msg_")
    assert message["usage"]["output_tokens_details"] == {"thinking_tokens": 0}
    assert total(message) == count(plain)
    kept = {key: value for key, value in message.items() if key not in ("id", "usage")}
    assert kept == {
        "type": "message",
        "role": "assistant",
        "model": "demo",
        "content": [{"type": "text", "text": "Hello there, friend."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }


def test_paths_without_v1(plain: httpx.Client) -> None:
    assert plain.post("/messages", json=BASE).json()["type"] == "message"
    assert plain.post("/messages/count_tokens", json=BASE).json() == {"input_tokens": count(plain)}


def test_replies_have_an_id_of_the_request(plain: httpx.Client) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "whatever-2026-01-01"}
    responses = [plain.post(path, json=BASE, headers=headers) for path in (PATH, PATH, COUNT)]
    responses.append(plain.post(PATH, json={}))
    ids = {response.headers["request-id"] for response in responses}
    assert len(ids) == 4
    assert all(id.startswith("req_") for id in ids)
    assert [response.status_code for response in responses] == [200, 200, 200, 400]


def test_a_call_is_a_block(painter: httpx.Client) -> None:
    message = same(painter, tools=[PAINT])
    text, call = message["content"]
    assert text == {"type": "text", "text": "I paint."}
    assert call.pop("id").startswith("toolu_")
    assert call == {"type": "tool_use", "name": "paint", "input": PAINTED}
    assert message["stop_reason"] == "tool_use"


CHOICES: list[tuple[Json | None, set[str]]] = [
    (None, {"text", "tool_use"}),
    ({"type": "auto"}, {"text", "tool_use"}),
    ({"type": "auto", "disable_parallel_tool_use": True}, {"text", "tool_use"}),
    ({"type": "any"}, {"tool_use"}),
    ({"type": "any", "disable_parallel_tool_use": True}, {"tool_use"}),
    ({"type": "tool", "name": "paint"}, {"tool_use"}),
    ({"type": "none"}, {"text"}),
]


@pytest.mark.parametrize(("choice", "kinds"), CHOICES)
def test_choices(choice: Json | None, kinds: set[str]) -> None:
    wanted = hermes_call("paint", '{"color": "red", "glossy": true}')
    said = wanted if kinds == {"tool_use"} else f"I paint.{wanted}"
    said = "No." if kinds == {"text"} else said
    with running(scripted(said)) as client:
        given = {} if choice is None else {"tool_choice": choice}
        message = same(client, tools=[PING_TOOL, PAINT], temperature=0, **given)
    assert {block["type"] for block in message["content"]} == kinds
    assert message["stop_reason"] == ("tool_use" if "tool_use" in kinds else "end_turn")


def test_a_single_call_is_the_only_one() -> None:
    call = hermes_call("ping")
    with running(scripted(f"{call}\n{call}")) as client:
        for single, calls in ((False, 2), (True, 1)):
            choice = {"type": "any", "disable_parallel_tool_use": single}
            twice = {**PING_TOOL, "repeatable": True}
            message = same(client, tools=[twice], tool_choice=choice, temperature=0)
            assert [block["input"] for block in message["content"]] == [{}] * calls
            assert len({block["id"] for block in message["content"]}) == calls


def test_thinking_is_a_block_with_a_signature(thinker: httpx.Client) -> None:
    message = same(thinker)
    assert message["content"] == [THOUGHT, {"type": "text", "text": "Hello."}]
    assert len(THOUGHT["signature"]) > 40
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] > 0


def test_thinking_is_left_out_if_asked_for(thinker: httpx.Client) -> None:
    message = same(thinker, thinking={"type": "adaptive", "display": "omitted"})
    assert message["content"][0] == {**THOUGHT, "thinking": ""}


@pytest.mark.parametrize("signature", [THOUGHT["signature"], "c29tZWJvZHkgZWxzZQ=="])
def test_thinking_comes_back(thinker: httpx.Client, signature: str) -> None:
    block = {**THOUGHT, "signature": signature}
    redacted = {"type": "redacted_thinking", "data": "eA=="}
    turn = {"role": "assistant", "content": [block, redacted, {"type": "text", "text": "Hello."}]}
    assert ask(thinker, messages=[*HELLO, turn, *HELLO])["content"]


def test_thinking_can_be_turned_off() -> None:
    with running(scripted("Hello.", turn=BEHIND_THINKING)) as client:
        message = same(client, thinking={"type": "disabled"})
    assert message["content"] == [{"type": "text", "text": "Hello."}]
    assert message["usage"]["output_tokens_details"] == {"thinking_tokens": 0}


def test_effort_alone_does_not_think() -> None:
    with running(scripted("Hello.", turn=BEHIND_THINKING)) as client:
        message = same(client, output_config={"effort": "high"})
    assert message["content"] == [{"type": "text", "text": "Hello."}]


@needs_own_engine
def test_a_budget_of_thinking_holds() -> None:
    said = "I wonder and wonder.</think>Hello."
    with running(scripted(said, turn=BEHIND_THINKING)) as client:
        message = same(client, thinking={"type": "enabled", "budget_tokens": 8}, temperature=0)
    thought, *_ = message["content"]
    assert thought["type"] == "thinking"
    assert len(thought["thinking"]) <= 8  # a byte is a token
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] <= 8


@needs_own_engine
def test_thinking_without_a_block_is_said_to_be_ignored() -> None:
    source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    with running(scripted("Hello", source=source, turn=rb"assistant:")) as client:
        body = {**BASE, "thinking": {"type": "enabled", "budget_tokens": 100}}
        response = client.post(PATH, json=body)
    assert response.status_code == 200, response.text
    assert response.headers["x-reasoning-effort"] == "ignored"
    assert response.json()["constrained"] == {"reasoning": {"ignored": True}}


@needs_own_engine
def test_a_turn_goes_on(plain: httpx.Client) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Hello there"}]
    message = same(plain, messages=messages)
    assert message["content"] == [{"type": "text", "text": ", friend."}]
    assert total(message) == count(plain, messages=messages)


def test_an_empty_turn_goes_on(plain: httpx.Client) -> None:
    message = same(plain, messages=[*HELLO, {"role": "assistant", "content": ""}])
    assert message["content"] == [{"type": "text", "text": "Hello there, friend."}]


def test_a_call_does_not_go_on(painter: httpx.Client) -> None:
    call = {"type": "tool_use", "id": "toolu_abcdefghi", "name": "paint", "input": PAINTED}
    messages = [*HELLO, {"role": "assistant", "content": [call]}]
    said = refuse(painter, system="Be brief.", messages=messages, tools=[PAINT])
    assert "/messages/1" in said
    assert "/messages/2" not in said


def test_stop_sequences(plain: httpx.Client) -> None:
    message = same(plain, stop_sequences=["zzz", " there"])
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["stop_reason"] == "stop_sequence"
    assert message["stop_sequence"] == " there"
    assert same(plain, stop_sequences=["zzz"])["stop_reason"] == "end_turn"


def test_a_reply_without_any_block(plain: httpx.Client) -> None:
    message = same(plain, stop_sequences=["Hello"])
    assert message["content"] == []
    assert message["stop_reason"] == "stop_sequence"


def test_length(plain: httpx.Client) -> None:
    message = same(plain, max_tokens=5)
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["stop_reason"] == "max_tokens"
    assert message["usage"]["output_tokens"] == 5


def test_the_context_is_the_limit() -> None:
    with running(scripted("endless " * 3000)) as client:
        message = ask(
            client, max_tokens=100_000, messages=[{"role": "user", "content": "x" * 19_000}]
        )
    assert message["stop_reason"] == "model_context_window_exceeded"


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_answers(name: str) -> None:
    form: Json = {"type": "json_schema", "schema": {"type": "integer"}}
    given = {name: {"format": form} if name == "output_config" else form}
    with running(scripted("7")) as client:
        assert same(client, **given)["content"] == [{"type": "text", "text": "7"}]
        assert same(client, tools=[PING_TOOL], **given)["content"][0]["text"] == "7"


def test_the_start_of_a_stream_knows_the_prompt(plain: httpx.Client) -> None:
    ask(plain)
    start, ping, *_, last, _ = events_of(plain)
    assert ping == {"type": "ping"}
    assert start["message"]["content"] == []
    assert start["message"]["stop_reason"] is None
    usage = start["message"]["usage"]
    assert usage["cache_read_input_tokens"] > 0
    assert total(start["message"]) == count(plain)
    assert {**usage, **last["usage"], "output_tokens": 0} == usage


@needs_own_engine
def test_unknown_fields_are_named(plain: httpx.Client) -> None:
    body = {**BASE, "frobnicate": 1, "metadata": {"user_id": "me"}, "service_tier": "auto"}
    body |= {"container": None}
    response = plain.post(PATH, json=body)
    assert response.headers["x-ignored-fields"] == "frobnicate"
    assert response.json()["constrained"] == {"ignored_fields": ["frobnicate"]}
    assert plain.post(COUNT, json=body).headers["x-ignored-fields"] == "frobnicate"
    page = {"type": "document", "source": {"type": "text", "data": "A"}}
    cited = {"role": "user", "content": [{**page, "citations": {"enabled": True}}]}
    body |= {"messages": [cited]}
    assert plain.post(PATH, json=body).headers["x-ignored-fields"] == "frobnicate, citations"


@needs_own_engine
def test_what_has_no_effect_inside_of_fields_is_named(plain: httpx.Client) -> None:
    body: Json = {
        **BASE,
        "thinking": {"type": "adaptive", "display": "updates", "block_binding": {"a": 1}},
        "output_config": {"effort": "low", "task_budget": {"type": "tokens", "total": 9}},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True, "more": 1},
        "tools": [{**PING_TOOL, "input_examples": [{}], "eager_input_streaming": True}] * 2,
        "service_tier": "auto",
        "speed": "fast",
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "container": "container_1",
    }
    body["tools"][1] = {**body["tools"][1], "name": "pong"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    turn = {"role": "assistant", "content": [redacted, {"type": "text", "text": "a"}]}
    body["messages"] = [*HELLO, turn, *HELLO]
    names = "context_management container tool_choice.more thinking.block_binding "
    names += "output_config.task_budget tools.input_examples"
    told = plain.post(PATH, json=body).json()["constrained"]["ignored_fields"]
    assert told == [*names.split(), "messages/1/content/0 (redacted_thinking)"]


def test_a_refused_tool_is_named(painter: httpx.Client) -> None:
    broken = {"name": "bad", "input_schema": {"type": "nothing"}}
    response = painter.post(PATH, json={**BASE, "tools": [PAINT, broken]})
    assert response.headers["x-grammar-constraints"] == "downgraded"
    (refused,) = response.json()["constrained"]["refused_tools"]
    assert refused["name"] == "bad"
    assert refused["pointer"] == "/tools/1/input_schema/type"


def test_a_round_trip_with_a_result() -> None:
    call = hermes_call("paint", '{"color": "red", "glossy": true}')
    with running(scripted(call, "Done.")) as client:
        first = ask(client, tools=[PAINT])
        (used,) = first["content"]
        result = {"type": "tool_result", "tool_use_id": used["id"], "content": "ok"}
        messages = [
            *HELLO,
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result, {"type": "text", "text": "And?"}]},
        ]
        second = ask(client, tools=[PAINT], messages=messages)
    assert second["content"] == [{"type": "text", "text": "Done."}]
    assert second["usage"]["cache_read_input_tokens"] > 0


WEB: Json = {"type": "web_search_20250305", "name": "web"}
REFUSED: list[tuple[Json, str, str]] = [
    ({"messages": []}, "/messages", "at least 1"),
    ({"messages": "Hi"}, "/messages", "list"),
    ({"messages": [{"content": "Hi"}]}, "/messages/0/role", "no role"),
    ({"max_tokens": 0}, "/max_tokens", "1"),
    ({"max_tokens": None}, "/max_tokens", "integer"),
    ({"temperature": -1}, "/temperature", "0"),
    ({"stop_sequences": [""]}, "/stop_sequences", ""),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "/thinking/budget_tokens", "1"),
    ({"thinking": {"type": "sometimes"}}, "/thinking/type", "enabled"),
    ({"tool_choice": {"type": "sometimes"}}, "/tool_choice/type", "any"),
    ({"tool_choice": {"type": "tool"}}, "/tool_choice/name", "names no tool"),
    ({"tool_choice": {"type": "tool", "name": "x"}, "tools": [PAINT]}, "/tool_choice", "unknown"),
    (
        {"tool_choice": {"type": "tool", "name": "web"}, "tools": [WEB]},
        "/tool_choice/name",
        "web_search_20250305",
    ),
    ({"tool_choice": {"type": "any"}}, "/tool_choice", "no tool"),
    ({"tools": [{"name": "x"}]}, "/tools/0/input_schema", "input_schema"),
    ({"tools": [{"input_schema": {}}]}, "/tools/0/name", "no name"),
    ({"tools": [PAINT, {**PAINT, "description": "Another"}]}, "", "paint"),
    ({"output_config": {"effort": "huge"}}, "/output_config/effort", "low"),
    ({"output_config": {"format": {"type": "xml"}}}, "/output_config/format", "not known"),
    (
        {"output_format": {"type": "json_schema", "schema": {"type": "x"}}},
        "/output_format/schema/type",
        "x",
    ),
]


@pytest.mark.parametrize(("body", "where", "word"), REFUSED)
def test_what_is_refused_says_where(plain: httpx.Client, body: Json, where: str, word: str) -> None:
    for path in (PATH, COUNT):
        if "stop_sequences" in body and path == COUNT:
            continue  # nothing is sampled
        if body.get("max_tokens", 1) is None and path == COUNT:
            continue  # not needed
        message = refuse(plain, path, **body)
        assert where in message
        assert word in message


@pytest.mark.parametrize("kind", ["image", "document"])
def test_what_a_text_model_cannot_read_is_refused(plain: httpx.Client, kind: str) -> None:
    blocks = [{"type": "text", "text": "What is this?"}, {"type": kind, "source": {}}]
    message = refuse(plain, messages=[{"role": "user", "content": blocks}])
    assert "/messages/0/content/1" in message
    assert kind in message


def test_what_the_template_refuses_is_told_of_the_clients_message() -> None:
    check = "{% for m in messages %}{% if m.content == 'Bye' %}"
    check += "{{ raise_exception('nobody says so') }}{% endif %}{% endfor %}"
    with running(scripted("Hello", source=check + OPEN)) as client:
        message = refuse(client, messages=[*HELLO, {"role": "assistant", "content": "Bye"}, *HELLO])
        assert "nobody says so" in message


def test_a_later_system_message_goes_to_the_front_where_the_template_refuses_it() -> None:
    check = "{% for m in messages %}{% if m.role == 'system' and loop.index0 > 0 %}"
    check += "{{ raise_exception('a system message has to be first') }}{% endif %}{% endfor %}"
    with running(scripted("Hello", source=check + OPEN)) as client:
        later = [*HELLO, {"role": "system", "content": "Be brief."}, *HELLO]
        assert ask(client, messages=later)["stop_reason"] == "end_turn"


def test_errors_have_the_dialects_shape(plain: httpx.Client) -> None:
    response = plain.post(PATH, content=b"{", headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert plain.get(PATH).json()["type"] == "error"
    missing = plain.post(PATH + "/batches", json={})
    assert missing.status_code == 404
    assert missing.json()["error"]["type"] == "not_found_error"
    with running(scripted("Hi"), Settings(api_keys=("key",))) as client:
        response = client.post(PATH, json=BASE)
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "authentication_error"
        assert client.post(PATH, json=BASE, headers={"x-api-key": "key"}).status_code == 200


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue"}])
def test_threads_are_refused_so_that_the_sdk_does_without(
    plain: httpx.Client, thread: Json
) -> None:
    response = plain.post(PATH, json={**BASE, "thread": thread})
    assert response.status_code == 400
    assert response.json()["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert "x-ignored-fields" not in plain.post(PATH, json={**BASE, "thread": None}).headers


def test_a_request_to_compact_is_refused_and_its_tokens_are_counted(plain: httpx.Client) -> None:
    compaction = {"compaction": {"type": "summarize"}}
    assert "/compaction" in refuse(plain, PATH, **compaction)
    counted = plain.post(COUNT, json={**BASE, **compaction})
    assert counted.status_code == 200
    assert counted.headers["x-ignored-fields"] == "compaction"


def test_the_names_of_betas_change_nothing(plain: httpx.Client) -> None:
    names = [name for kind in get_args(AnthropicBetaParam) for name in get_args(kind)]
    assert "context-1m-2025-08-07" in names
    headers = {"anthropic-beta": ",".join([*names, "unknown-2099-01-01"])}
    reply = plain.post(PATH, json=BASE, headers=headers)
    assert reply.status_code == 200
    assert reply.json()["content"] == plain.post(PATH, json=BASE).json()["content"]
    assert "x-ignored-fields" not in reply.headers


def test_a_prompt_that_is_too_long_is_told(plain: httpx.Client) -> None:
    message = refuse(plain, messages=[{"role": "user", "content": "x" * 30_000}])
    assert "context" in message


BILLING = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={};"


def test_volatile_text_is_made_constant() -> None:
    def body(hash: str, **more: Any) -> Json:
        return {**BASE, "system": [{"type": "text", "text": BILLING.format(hash), **MARK}], **more}

    with running(scripted("Hi")) as client:
        first = client.post(PATH, json=body("11111"))
        assert first.headers["x-normalised"] == "1"
        second = client.post(PATH, json=body("22222"))
        usage = second.json()["usage"]
        assert usage["cache_read_input_tokens"] >= count(client) // 2
        assert usage["cache_creation_input_tokens"] == 0
        chat = {"messages": [{"role": "system", "content": BILLING.format("1")}, *HELLO]}
        response = client.post("/v1/chat/completions", json=chat)
        assert response.headers["x-normalised"] == "1"
        assert "x-normalised" not in client.post(PATH, json=BASE).headers
    with running(scripted("Hi"), Settings(keep_volatile=True)) as client:
        assert "x-normalised" not in client.post(PATH, json=body("11111")).headers
