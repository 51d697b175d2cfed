"""Conversations that began at Anthropic's own service: what of them the model reads, what is named,
and what is refused."""

from typing import Any

import pytest

from server.dialects.common.sealed_reasoning import sign
from server.dialects.messages.conversation import read_conversation
from server.errors import HttpError

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "Hi"}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks]}


UPLOAD: Json = {"type": "container_upload", "file_id": "file_1"}
LEFT_OUT: list[Json] = [
    {"type": "redacted_thinking", "data": "x"},
    {"type": "thinking", "thinking": "", "signature": "EqQBCgIYAg=="},
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


@pytest.mark.parametrize(
    "kind",
    ["server_tool_use", "web_search_tool_result", "compaction", "tool_removal", "mcp_tool_listing"],
)
def test_other_blocks_are_refused_by_name(kind: str) -> None:
    with pytest.raises(HttpError) as caught:
        read_conversation(None, [HELLO, assistant({"type": kind})])
    assert (caught.value.status, caught.value.where) == (400, "/messages/1/content/0")
    assert kind in caught.value.message
