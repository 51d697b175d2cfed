"""Chat Completions over HTTP: what goes in, what comes out, streamed and not."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from server.dialects.chat.reply import fold
from server.dialects.chat.request import ChatRequest
from server.settings import ReasoningField, Settings
from tests.constrained.prompt.format_selection.kwargs_template import SOURCE
from tests.scripted_model import BYTES, OPENED, scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO, SHORT, ask
from tests.server.running_server import Json, needs_own_engine, running, stream
from tests.templates import HERMES, OPEN, PAINT, PING, WRITE, hermes_call

BEGUN = {"role": "assistant", "content": "Hello there"}
PING_CALL = {"id": "a", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
VARYING = ("id", "created", "timings")


def refuse(client: httpx.Client, **body: Any) -> Json:
    """The error of a request that is refused with 400."""
    response = client.post(CHAT, json={"messages": HELLO, **body})
    assert response.status_code == 400, response.text
    return response.json()["error"]


def chunks_of(client: httpx.Client, **body: Any) -> list[Json]:
    options = {"stream_options": {"include_usage": True}}
    return [data for _, data in stream(client, CHAT, {**SHORT, **options, **body})]


def lasting(body: Json) -> Json:
    """What two replies to the same request have in common."""
    kept = {key: value for key, value in body.items() if key not in VARYING}
    kept["usage"] = {k: v for k, v in kept["usage"].items() if not k.endswith("_details")}
    return kept


@needs_own_engine
def test_a_text(plain: httpx.Client) -> None:
    body = ask(plain)
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Hello there, friend."},
        "logprobs": None,
        "finish_reason": "stop",
    }
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert type(usage["prompt_tokens_details"]["cached_tokens"]) is int
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0
    assert body["timings"]["predicted_n"] == usage["completion_tokens"]
    assert "constrained" not in body


def test_a_call_is_typed(painter: httpx.Client) -> None:
    response = painter.post(CHAT, json={**SHORT, "tools": [PAINT]})
    (choice,) = response.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "I paint."
    (call,) = choice["message"]["tool_calls"]
    assert call["id"].startswith("call_")
    assert len(call["id"]) <= 40
    assert call["type"] == "function"
    assert call["function"]["name"] == "paint"
    assert json.loads(call["function"]["arguments"]) == {"color": "red", "glossy": True}
    assert response.headers["x-tool-format"] == "hermes"
    assert response.headers["x-turn-start"] == "plain"
    assert len(response.headers["x-grammar-hash"]) == 16
    assert "x-grammar-constraints" not in response.headers


@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "paint"}}]
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_stream_says_the_same(painter: httpx.Client, choice: Any, count: int) -> None:
    body: Json = {"tools": [PAINT, PING], "tool_choice": choice, "n": count}
    body |= {"temperature": 0, "max_tokens": 150}
    chunks = chunks_of(painter, **body)
    assert lasting(fold(chunks)) == lasting(ask(painter, **body))
    first = [next(c for c in chunks if c["choices"][0]["index"] == n) for n in range(count)]
    for number, chunk in enumerate(first):
        delta = {"role": "assistant", "content": ""}
        assert chunk["choices"] == [{"index": number, "delta": delta, "finish_reason": None}]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[-1]["choices"] == []
    assert "usage" in chunks[-1]
    assert not any("usage" in chunk for chunk in chunks[:-1])
    finishes = [c for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
    assert len(finishes) == count


def find_null(value: Any) -> bool:
    """Is anything null but the `finish_reason` that is not known yet?"""
    if isinstance(value, dict):
        return any(find_null(inner) for key, inner in value.items() if key != "finish_reason")
    return any(map(find_null, value)) if isinstance(value, list) else value is None


def test_chunks_have_no_null(painter: httpx.Client, thinker: httpx.Client) -> None:
    for client in (painter, thinker):
        assert not any(map(find_null, chunks_of(client, tools=[PAINT])))


def test_a_stream_ends_as_clients_expect(plain: httpx.Client) -> None:
    with plain.stream("POST", CHAT, json={"messages": HELLO, "stream": True}) as response:
        text = response.read().decode()
    assert text.endswith("data: [DONE]\n\n")
    assert "usage" not in text


def test_reasoning_has_a_field_of_its_own(thinker: httpx.Client) -> None:
    message = ask(thinker)["choices"][0]["message"]
    assert message == {"role": "assistant", "reasoning_content": "I wonder.", "content": "Hello."}
    assert ask(thinker)["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("thinking", [None, True, False])
@pytest.mark.parametrize("form", ["none", "deepseek", "auto"])
def test_forms_of_reasoning(form: str, thinking: bool | None, is_streamed: bool) -> None:
    said = "I wonder.\n</think>\n\nHello." if thinking is not False else "Hello."
    source = OPEN if thinking is not False else HERMES
    with running(scripted(said, source=source, turn=OPENED)) as client:
        body: Json = {"reasoning_format": form}
        if thinking is not None:
            body["reasoning_effort"] = "high" if thinking else "none"
        reply = fold(chunks_of(client, **body)) if is_streamed else ask(client, **body)
    message = reply["choices"][0]["message"]
    if thinking is False:
        assert "reasoning_content" not in message
        assert message["content"] == "Hello."
    elif form == "none":
        assert message["content"] == "<think>\nI wonder.\n</think>\n\nHello."
        assert "reasoning_content" not in message
    else:
        assert message["reasoning_content"] == "I wonder."
        assert message["content"] == "Hello."


def test_what_clients_send_where_nothing_is_chosen() -> None:
    with running(scripted("Hm.\n</think>\n\nHello.", source=OPEN, turn=OPENED)) as client:
        plain = lasting(ask(client, temperature=0))
        for effort in ("default", ""):
            assert lasting(ask(client, temperature=0, reasoning_effort=effort)) == plain
            assert lasting(ask(client, temperature=0, reasoning={"effort": effort})) == plain
        assert lasting(ask(client, temperature=0, stop="")) == plain


def test_a_flag_names_the_field_of_reasoning() -> None:
    settings = Settings(reasoning_field=ReasoningField.BOTH)
    with running(scripted("Hm.\n</think>\n\nHello.", source=OPEN, turn=OPENED), settings) as client:
        message = ask(client)["choices"][0]["message"]
    assert message["reasoning"] == message["reasoning_content"] == "Hm."


@needs_own_engine
def test_effort_without_a_reasoning_block_is_said_to_be_ignored() -> None:
    source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant\n"
    with running(scripted("Hello", source=source, turn=rb"\nassistant")) as client:
        response = client.post(CHAT, json={"messages": HELLO, "reasoning_effort": "high"})
    assert response.status_code == 200, response.text
    assert response.headers["x-reasoning-effort"] == "ignored"
    assert response.json()["constrained"] == {"reasoning": {"ignored": True}}


@needs_own_engine
def test_unknown_fields_are_named(plain: httpx.Client) -> None:
    response = plain.post(CHAT, json={"messages": HELLO, "frobnicate": 1, "user": "me"})
    assert response.headers["x-ignored-fields"] == "frobnicate"
    assert response.json()["constrained"] == {"ignored_fields": ["frobnicate"]}
    names = [" a", "\x7f", "\r\n", "ü" * 200, "a" * 300, ""]  # a header cannot have them all
    response = plain.post(CHAT, json={**SHORT, **dict.fromkeys(names, 1)})
    assert response.headers["x-ignored-fields"].startswith(r"a, \u007f, \r\n, \u00fc")
    assert response.json()["constrained"] == {"ignored_fields": names}


def test_a_refused_tool_is_named(painter: httpx.Client) -> None:
    broken = {"type": "function", "function": {"name": "bad", "parameters": {"type": "nothing"}}}
    response = painter.post(CHAT, json={**SHORT, "tools": [PAINT, broken]})
    assert response.headers["x-grammar-constraints"] == "downgraded"
    (refused,) = response.json()["constrained"]["refused_tools"]
    assert refused["name"] == "bad"
    assert refused["pointer"] == "/tools/1/function/parameters/type"


REFUSED: list[tuple[Json, str, str]] = [
    ({"messages": []}, "/messages", "at least 1"),
    ({"messages": [{"content": "Hi"}]}, "/messages/0/role", "no role"),
    ({"messages": "Hi"}, "/messages", "list"),
    ({"top_logprobs": 21, "logprobs": True}, "/top_logprobs", "20"),
    ({"top_logprobs": 2}, "/top_logprobs", "logprobs"),
    ({"temperature": -1}, "/temperature", "0"),
    ({"n": 1000}, "/n", "--max-choices"),
    ({"stop": [""]}, "/stop", ""),
    ({"messages": [{"role": "user", "content": {"a": 1}}]}, "/messages/0/content", "as JSON text"),
    ({"logit_bias": {"": 1}}, "/logit_bias/", "token"),
    ({"logit_bias": {"a": 1}}, "/logit_bias/a", "token"),
    ({"logit_bias": [[65, 1]]}, "/logit_bias", "dict"),
    ({"logit_bias": {"65": 1, "065": 2}}, "/logit_bias", "two biases"),
    ({"logit_bias": {"65": 1, "66": "abc"}}, "/logit_bias/66", "number"),
    (
        {"logit_bias": {"66": [1]}},
        "/logit_bias/66",
        "valid num",
    ),
    ({"logit_bias": {"99999": 1}}, "/logit_bias/99999", "token"),
    ({"logit_bias": {"12345678901": 1}}, "/logit_bias/12345678901", "token"),
    ({"tool_choice": "sometimes"}, "/tool_choice", "not known"),
    ({"tool_choice": "required"}, "/tool_choice", "no tool"),
    (
        {"tools": [PING], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "/tool_choice",
        "unknown tool",
    ),
    ({"tools": [{"type": "function"}]}, "/tools/0/name", "no name"),
    ({"functions": [PING["function"]]}, "/functions", "send tools"),
    ({"tools": [PING], "function_call": "auto"}, "/function_call", "send tools"),
    ({"messages": [{"role": "function", "content": "1"}]}, "/messages/0/role", "send tools"),
    (
        {"messages": [{"role": "assistant", "content": "", "function_call": {"name": "f"}}]},
        "/messages/0/function_call",
        "send tools",
    ),
    ({"response_format": {"type": "xml"}}, "/response_format", "not known"),
    ({"regex": "("}, "/regex", "regex"),
    ({"choice": []}, "/choice", "choice"),
    ({"grammar": "start: x"}, "/grammar", "unknown name"),
    ({"chat_template_kwargs": {"messages": 1}}, "/chat_template_kwargs/messages", "may not"),
    ({"continue_final_message": True}, "/messages/0", "leave continue_final_message out"),
    ({"messages": [{**HELLO[0], "prefix": True}]}, "/messages/0", "or leave prefix out"),
    ({"messages": [{**HELLO[0], "partial": True}]}, "/messages/0", "or leave partial out"),
    ({"messages": [{**HELLO[0], "prefix": "true"}]}, "/messages/0/prefix", "true or false"),
    (
        {"messages": [*HELLO, {**BEGUN, "partial": True}], "continue_final_message": False},
        "/continue_final_message",
        "has partial: true",
    ),
    ({"messages": [{**HELLO[0], "partial": 1}, *HELLO]}, "/messages/0/partial", "true or false"),
    (
        {"messages": [*HELLO, {**BEGUN, "partial": True}], "add_generation_prompt": True},
        "/add_generation_prompt",
        "partial and add_generation_prompt",
    ),
    (
        {"messages": [*HELLO, {**BEGUN, "prefix": True, "tool_calls": [PING_CALL]}]},
        "/messages/1/tool_calls",
        "leave prefix out",
    ),
]


@pytest.mark.parametrize(("body", "where", "word"), REFUSED)
def test_what_is_refused_says_where(plain: httpx.Client, body: Json, where: str, word: str) -> None:
    error = refuse(plain, **body)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == where
    assert word in error["message"]


def test_an_error_has_the_form_of_mistral_too(plain: httpx.Client) -> None:
    """As Mistral's API describes it: its clients show `message`, and want a text as `code`."""
    body = plain.post(CHAT, json={"messages": []}).json()
    assert body.pop("object") == "error"
    assert body.pop("error") == body
    assert body["message"]
    assert isinstance(body["code"], str)


@pytest.mark.parametrize("fields", [{"thinking": {"type": "disabled"}}, {"enable_thinking": False}])
def test_vendors_switch_reasoning_off_in_their_own_words(
    thinker: httpx.Client, fields: Json
) -> None:
    body = ask(thinker, temperature=0, **fields)
    assert lasting(body) == lasting(ask(thinker, temperature=0, reasoning_effort="none"))
    assert lasting(body) != lasting(ask(thinker, temperature=0))
    assert "ignored_fields" not in body.get("constrained", {})


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_choice": ["yes"]},
        {"guided_regex": "yes"},
        {"guided_grammar": 'start: "yes"'},
        {"guided_json": {"const": "yes"}},
    ],
)
def test_the_older_names_of_vllm_constrain_the_reply(plain: httpx.Client, fields: Json) -> None:
    body = ask(plain, **fields)
    assert body["choices"][0]["message"]["content"].strip('" \t\r\n') == "yes"


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_what_a_text_model_cannot_read_is_refused(plain: httpx.Client, kind: str) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {"url": "data:,"}}]
    error = refuse(plain, messages=[{"role": "user", "content": parts}])
    assert error["param"] == "/messages/0/content/1"
    assert kind in error["message"]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_what_a_text_model_cannot_read_in_the_history_is_left_out(
    plain: httpx.Client, kind: str
) -> None:
    function = {"name": "look", "arguments": "null"}
    call = {"id": "c", "type": "function", "function": function}
    picture = [{"type": kind, kind: {}}]
    messages: list[Json] = [
        {"role": "user", "content": picture},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": picture},
        {"role": "user", "content": picture},  # as clients do it that have read a picture
    ]
    places = [f"messages/{number}/content/0 ({kind})" for number in (0, 2, 3)]
    for _ in range(2):  # in the next turn, and in later ones
        response = plain.post(CHAT, json={"model": "m", "messages": messages, "max_tokens": 5})
        assert response.status_code == 200, response.text
        assert response.headers["x-ignored-fields"] == ", ".join(places)
        messages += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "So?"}]


def test_bad_json_is_400(plain: httpx.Client) -> None:
    response = plain.post(
        CHAT, content=b'{"messages": [}', headers={"content-type": "application/json"}
    )
    assert response.status_code == 400
    assert "at byte 14" in response.json()["error"]["message"]


def test_history_with_calls_in_any_form(plain: httpx.Client) -> None:
    for arguments in ('{"color": "red", "glossy": true}', {"color": "red", "glossy": True}):
        function = {"name": "paint", "arguments": arguments}
        messages: list[Json] = [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            *HELLO,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_abcdefghi", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_abcdefghi", "content": "done"},
        ]
        assert ask(plain, messages=messages, tools=[PAINT])["choices"][0]["message"]["content"]


def test_stop(plain: httpx.Client) -> None:
    for stop in (" there", [" there", "zzz"]):
        body: Json = {"stop": stop}
        reply = ask(plain, **body)
        assert reply["choices"][0]["message"]["content"] == "Hello"
        assert reply["choices"][0]["finish_reason"] == "stop"
        assert lasting(fold(chunks_of(plain, **body))) == lasting(reply)


def test_logprobs_of_calls_too(painter: httpx.Client) -> None:
    body: Json = {"tools": [PAINT], "logprobs": True, "top_logprobs": 3}
    reply = ask(painter, **body)
    tokens = reply["choices"][0]["logprobs"]["content"]
    text = bytes(byte for token in tokens for byte in token["bytes"]).decode()
    assert text.startswith("I paint.<tool_call>")
    assert all(token["logprob"] <= 0 and len(token["top_logprobs"]) == 3 for token in tokens)
    streamed = fold(chunks_of(painter, **body))
    assert streamed["choices"][0]["logprobs"] == reply["choices"][0]["logprobs"]


@pytest.mark.parametrize("source", [OPEN, HERMES])
def test_the_tokens_of_a_piece_of_content_spell_it(source: str) -> None:
    """guidance puts the content together from them."""
    said = "I wonder.\n</think>\n\nHello." if source is OPEN else "Hello."
    contents = list[str]()
    with running(scripted(said, source=source, turn=OPENED)) as client:
        for chunk in chunks_of(client, logprobs=True, max_tokens=50):
            for choice in chunk["choices"]:
                if content := choice["delta"].get("content"):
                    tokens = choice["logprobs"]["content"]
                    assert "".join(token["token"] for token in tokens) == content
                    contents.append(content)
    assert "".join(contents) == "Hello."


def test_length(plain: httpx.Client) -> None:
    for name in ("max_tokens", "max_completion_tokens", "n_predict"):
        choice = ask(plain, **{"max_tokens": None, name: 5})["choices"][0]
        assert choice["finish_reason"] == "length"
        assert choice["message"]["content"] == "Hello"


ANSWERS: list[tuple[str, Json]] = [
    ('{"a": 1}', {"response_format": {"type": "json_object"}}),
    (
        "7",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "integer"}},
            }
        },
    ),
    ("ab", {"regex": "[ab]+"}),
    ("no", {"choice": ["yes", "no"]}),
    ("12", {"structured_outputs": {"grammar": "start: /[0-9]+/"}}),
    ("x", {"grammar": 'root ::= "x"'}),
]


@pytest.mark.parametrize(("text", "body"), ANSWERS)
def test_answers(text: str, body: Json) -> None:
    with running(scripted(text)) as client:
        assert ask(client, **body)["choices"][0]["message"]["content"] == text
        if "grammar" not in str(body):  # which cannot stand beside tools
            beside = ask(client, tools=[PING], **body)
            assert beside["choices"][0]["message"]["content"] == text


@needs_own_engine
def test_a_turn_goes_on(plain: httpx.Client) -> None:
    messages = [*HELLO, BEGUN]
    body: Json = {"messages": messages, "continue_final_message": True}
    reply = ask(plain, **body, add_generation_prompt=False)
    assert reply["choices"][0]["message"]["content"] == ", friend."
    assert lasting(fold(chunks_of(plain, **body)))["choices"] == reply["choices"]


@needs_own_engine
@pytest.mark.parametrize("field", ["prefix", "partial"])
def test_a_turn_goes_on_in_the_forms_of_other_services(plain: httpx.Client, field: str) -> None:
    begun = {**BEGUN, field: True}
    reply = ask(plain, messages=[*HELLO, begun])
    assert reply["choices"][0]["message"]["content"] == ", friend."
    whole = ask(plain, messages=[*HELLO, begun, *HELLO])  # of an earlier message, it means nothing
    assert whole["choices"][0]["message"]["content"] == "Hello there, friend."


def test_write_tool_round_trip() -> None:
    with running(scripted(hermes_call("write", '{"text": "a"}'), "Done.")) as client:
        first = ask(client, tools=[WRITE])["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "ok"}
        second = ask(client, tools=[WRITE], messages=[*HELLO, first, result])
    assert second["choices"][0]["message"]["content"] == "Done."
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_the_grammar_is_shown_if_asked_for() -> None:
    with running(scripted("Hi"), Settings(show_grammar=True)) as client:
        shown = ask(client, tools=[PING])["constrained"]
    assert "start" in shown["grammar"]
    assert shown["format"] == "hermes"
    assert shown["start"] == "plain"


@pytest.mark.parametrize(
    ("fields", "count"),
    [({}, 1), ({"max_calls": 2, "max_identical_calls": 3}, 2), ({"max_identical_calls": None}, 4)],
)
def test_a_turn_ends_behind_its_last_call(fields: Json, count: int) -> None:
    ping = hermes_call("ping")
    body = {"tools": [PING], "tool_choice": "required", "max_tokens": 400, **fields}
    with running(scripted("\n".join([ping] * 4), turn=OPENED)) as client:
        (choice,) = ask(client, **body)["choices"]
        deltas = [
            choice["delta"] for data in chunks_of(client, **body) for choice in data["choices"]
        ]
    assert len(choice["message"]["tool_calls"]) == count
    assert choice["finish_reason"] == "tool_calls"
    begun = [call for delta in deltas for call in delta.get("tool_calls", []) if "id" in call]
    assert len(begun) == count


def test_the_tokens_of_a_prompt_are_counted(plain: httpx.Client) -> None:
    body = {"messages": HELLO, "tools": [PAINT]}
    for path in (f"{CHAT}/input_tokens", "/chat/completions/input_tokens"):
        counted = plain.post(path, json=body).json()
        assert counted["object"] == "response.input_tokens"
        assert counted["input_tokens"] == ask(plain, tools=[PAINT])["usage"]["prompt_tokens"]
    refused = plain.post(f"{CHAT}/input_tokens", json={"messages": []})
    assert refused.status_code == 400


def test_a_bias_names_tokens_by_id() -> None:
    model = scripted("x")
    for given, expected in (({"65": -1, "66": 2}, {65: -1, 66: 2}), ({}, {})):
        asked = ChatRequest.model_validate({"messages": HELLO, "logit_bias": given})
        expected_sampling = replace(model.sampling, logit_bias=expected)
        assert asked.read_sampling_with(model) == expected_sampling


def test_the_format_of_a_turn_is_that_of_its_effort():
    source = SOURCE.replace("depth", "reasoning_effort")
    source = source.replace("'brief'", "'low'").replace("'deep'", "'high'")
    said = "hm</muse_brief>Sunny."
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, said), context_length=20_000)
    with running(Model(engine, ChatTemplate(source))) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
        for given in ({"reasoning_effort": "low"}, {"reasoning_effort": "medium"}):
            reply = client.post("/v1/chat/completions", json={**body, **given}).json()
            message = reply["choices"][0]["message"]
            assert (message["reasoning_content"], message["content"]) == ("hm", "Sunny.")
        odd = {"chat_template_kwargs": {"reasoning_effort": "odd"}}
        refused = client.post("/v1/chat/completions", json={**body, **odd})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "/chat_template_kwargs/reasoning_effort"
