"""Conversations that began at Anthropic's own service: what of them the model reads, what is named,
and what is refused."""

import json
from typing import Any

import pytest

from server.dialects.messages.conversation import read_conversation
from server.dialects.messages.signatures import sign
from server.errors import HttpError

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "Hi"}
PAGE: Json = {"type": "document", "title": "Rome", "source": {"type": "text", "data": "A city."}}
PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks]}


def use(name: str, **input: Any) -> Json:
    return {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": input}


def result(kind: str, content: Any) -> Json:
    return {"type": f"{kind}_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


FOUND: Json = {"type": "web_search_result", "title": "Rome", "url": "https://a.example/"}
FETCHED: Json = {"type": "web_fetch_result", "url": "https://a.example/", "retrieved_at": None}
RAN: Json = {"type": "code_execution_result", "stdout": "4\n", "stderr": "", "return_code": 0}
SEALED_RUN: Json = {**RAN, "type": "encrypted_code_execution_result", "encrypted_stdout": "x"}
del SEALED_RUN["stdout"]
FAILED: Json = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
FILE: Json = {"type": "bash_code_execution_output", "file_id": "file_1"}
VIEWED: Json = {"type": "text_editor_code_execution_view_result", "content": "a", "num_lines": 1}
RESULTS: list[tuple[str, Any, Any, list[str]]] = [
    ("web_search", [FOUND], [{"title": "Rome", "url": "https://a.example/"}], []),
    (
        "web_search",
        [{**FOUND, "encrypted_content": "x", "page_age": "May"}] * 2,
        [{"title": "Rome", "url": "https://a.example/", "page_age": "May"}] * 2,
        ["encrypted_content"],
    ),
    ("web_search", [], [], []),
    ("web_search", FAILED, {"error_code": "max_uses_exceeded"}, []),
    (
        "web_fetch",
        {**FETCHED, "content": PAGE},
        {"url": "https://a.example/", "content": "Title: Rome\nA city."},
        [],
    ),
    (
        "web_fetch",
        {**FETCHED, "content": {**PAGE, "source": PDF}},
        {"url": "https://a.example/", "content": {"title": "Rome"}},
        ["source"],
    ),
    ("code_execution", RAN, {"stdout": "4\n", "stderr": "", "return_code": 0}, []),
    ("code_execution", SEALED_RUN, {"stderr": "", "return_code": 0}, ["encrypted_stdout"]),
    (
        "bash_code_execution",
        {**RAN, "content": [FILE]},
        {"stdout": "4\n", "stderr": "", "return_code": 0, "content": [{"file_id": "file_1"}]},
        [],
    ),
    ("text_editor_code_execution", VIEWED, {"content": "a", "num_lines": 1}, []),
    ("advisor", {"type": "advisor_result", "text": "Try it."}, {"text": "Try it."}, []),
    (
        "of_next_year",
        {"type": "some", "deep": [{"encrypted_x": 1}]},
        {"deep": [{}]},
        ["encrypted_x"],
    ),
]


@pytest.mark.parametrize(("name", "content", "shown", "unread"), RESULTS)
def test_what_anthropics_tools_have_found_is_read(
    name: str, content: Any, shown: Any, unread: list[str]
) -> None:
    turn = assistant(text("Let me see."), use(name, query="Rome"), result(name, content), text("."))
    read = read_conversation(None, [HELLO, turn, {"role": "user", "content": "And?"}])
    call, answer = read.messages[1:3]
    assert call["content"] == "Let me see."
    assert call["tool_calls"][0]["function"] == {"name": name, "arguments": {"query": "Rome"}}
    assert (answer["role"], answer["name"], answer["tool_call_id"]) == ("tool", name, "srvtoolu_1")
    assert json.loads(answer["content"]) == shown
    assert [message["content"] for message in read.messages[3:]] == [".", "And?"]
    assert [*read.unread] == [f"messages/1/content/2 ({field})" for field in unread]


def test_a_turn_that_was_paused_goes_on() -> None:
    turn = assistant(use("web_search", query="Rome"), result("web_search", [FOUND]))
    read = read_conversation(None, [HELLO, turn])
    assert [message["role"] for message in read.messages] == ["user", "assistant", "tool"]
    assert not read.prefill


LISTING: Json = {"type": "mcp_tool_listing", "mcp_server_name": "a", "tools": []}
UPLOAD: Json = {"type": "container_upload", "file_id": "file_1"}
LEFT_OUT: list[Json] = [
    {"type": "redacted_thinking", "data": "x"},
    {"type": "fallback", "to": {"model": "m"}},
    {"type": "compaction", "content": None},
    {"type": "thinking", "thinking": "", "signature": "EqQBCgIYAg=="},
    LISTING,
    UPLOAD,
]


@pytest.mark.parametrize("block", LEFT_OUT, ids=lambda block: block["type"])
def test_what_has_nothing_to_read_is_named(block: Json) -> None:
    read = read_conversation(None, [HELLO, assistant(block, text("Yes."))])
    assert read.messages == [HELLO, {"role": "assistant", "content": "Yes."}]
    assert read.unread == (f"messages/1/content/0 ({block['type']})",)


def test_thinking_of_this_server_without_its_text_is_not_named() -> None:
    own = {"type": "thinking", "thinking": "", "signature": sign("Hm.")}
    assert read_conversation(None, [HELLO, assistant(own, text("Yes."))]).unread == ()


def test_a_message_of_nothing_but_a_file_stays_a_message() -> None:
    read = read_conversation(
        None, [HELLO, assistant(text("a")), {"role": "user", "content": [UPLOAD]}]
    )
    assert read.messages[-1] == {"role": "user", "content": ""}
    assert not read.prefill
    assert read.sources == (0, 1, 2)


COMPACTED: Json = {"type": "compaction", "content": "They said hi.", "cache_control": {"type": "a"}}


def test_a_summary_stands_for_what_is_in_front_of_it() -> None:
    system = {"role": "system", "content": "Be kind."}
    sealed = {**COMPACTED, "encrypted_content": "x", "tool_changes": [{"type": "tool_removal"}]}
    earlier = assistant({"type": "redacted_thinking", "data": "x"}, COMPACTED)
    turn = assistant(text("a"), sealed, text("b"))
    last = {"role": "user", "content": "And?"}
    read = read_conversation("Be brief.", [HELLO, system, earlier, turn, last])
    assert read.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Summary of the conversation so far:\n\nThey said hi."},
        {"role": "assistant", "content": "b"},
        last,
    ]
    assert read.sources == (None, 3, 3, 4)
    assert read.marks == (2,)
    where = "messages/3/content/1"
    assert read.unread == (f"{where} (encrypted_content)", f"{where} (tool_changes)")


def test_notes_for_one_turn_go_with_the_next() -> None:
    note = {"role": "system", "content": "It is late.", "clear_at": "next_user_message"}
    reply = assistant(text("a"))
    assert len(read_conversation(None, [HELLO, note]).messages) == 2
    assert len(read_conversation(None, [HELLO, note, reply]).messages) == 3
    again = read_conversation(None, [HELLO, note, reply, HELLO])
    assert [message["role"] for message in again.messages] == ["user", "assistant", "user"]
    never = {**note, "clear_at": "never", "output_config": {"effort": "low"}}
    kept = read_conversation(None, [HELLO, never, reply, HELLO])
    assert len(kept.messages) == 4
    assert kept.unread == ("messages/1/output_config",)
    options = {"role": "system", "output_config": {"effort": "low"}}
    alone = read_conversation(None, [HELLO, options])
    assert [message["role"] for message in alone.messages] == ["user"]
    assert alone.unread == ("messages/1/output_config",)


BAD_PAGE = assistant(result("web_fetch", {**FETCHED, "content": {**PAGE, "title": 1}}))


@pytest.mark.parametrize(
    ("message", "where", "word"),
    [
        (BAD_PAGE, "/content/0/content/content/title", "text"),
        (assistant({"type": "web_search_tool_result"}), "/content/0/tool_use_id", "text"),
        (assistant({**use("web_search"), "input": []}), "/content/0/input", "object"),
        ({"role": "user", "content": [result("web_search", [])]}, "/content/0", "web_search"),
        ({"role": "system", "content": [{"type": "tool_removal"}]}, "/content/0", "tools"),
    ],
)
def test_what_is_refused_says_where(message: Json, where: str, word: str) -> None:
    with pytest.raises(HttpError) as caught:
        read_conversation(None, [HELLO, message])
    assert caught.value.where == f"/messages/1{where}"
    assert caught.value.status == 400
    assert word in caught.value.message
