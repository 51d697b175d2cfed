"""Conversations in Anthropic's form, as the model is told them."""

from typing import Any

import pytest

from server.dialects.messages.conversation import read_conversation
from server.dialects.messages.documents import has_citations
from server.errors import HttpError

Json = dict[str, Any]
MARK = {"cache_control": {"type": "ephemeral"}}
CALL: Json = {"type": "tool_use", "id": "toolu_abcdefghi", "name": "paint", "input": {"a": 1}}
WRITTEN = {
    "id": "toolu_abcdefghi",
    "type": "function",
    "function": {"name": "paint", "arguments": {"a": 1}},
}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def result(content: Any = None, id: str = "toolu_abcdefghi", **more: Any) -> Json:
    body = {} if content is None else {"content": content}
    return {"type": "tool_result", "tool_use_id": id, **body, **more}


def user(*blocks: Any) -> Json:
    return {"role": "user", "content": [*blocks]}


def assistant(*blocks: Any) -> Json:
    return {"role": "assistant", "content": [*blocks]}


def told(*messages: Json, system: Any = None) -> list[Json]:
    return read_conversation(system, messages).messages


def test_texts() -> None:
    assert told({"role": "user", "content": "Hi"}) == [{"role": "user", "content": "Hi"}]
    assert told(user(text("Hi"))) == [{"role": "user", "content": "Hi"}]
    assert told(user(text("a"), text("b", **MARK))) == [
        {"role": "user", "content": [text("a"), text("b")]}
    ]


def test_the_system_comes_first() -> None:
    hello = {"role": "user", "content": "Hi"}
    for system in ("Be brief.", [text("Be brief.", **MARK)]):
        assert told(hello, system=system) == [{"role": "system", "content": "Be brief."}, hello]
    assert told(hello, system="") == told(hello, system=[]) == [hello]
    later = {"role": "system", "content": "Be kind."}
    assert told(later, hello, system="Be brief.")[0]["content"] == [
        text("Be brief."),
        text("Be kind."),
    ]


def test_a_turn_with_thinking_and_calls() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbg=="}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    turn = assistant(thinking, redacted, text("I "), text("paint."), CALL)
    assert told(user(text("Hi")), turn)[1] == {
        "role": "assistant",
        "content": "I paint.",
        "reasoning_content": "Hm.",
        "tool_calls": [WRITTEN],
    }


def test_results_stand_in_front_of_the_text_beside_them() -> None:
    parts = [text("a"), text("b")]
    messages = told(assistant(CALL), user(result("ok"), result(parts), text("Go on.")))
    one = {"role": "tool", "tool_call_id": "toolu_abcdefghi", "name": "paint"}
    assert messages[1:] == [
        {**one, "content": "ok"},
        {**one, "content": parts},
        {"role": "user", "content": "Go on."},
    ]
    assert told(assistant(CALL), user(text("Go on."), result("ok"))) == [
        *messages[:2],
        messages[3],
    ]


def test_each_result_of_an_mcp_tool_ends_a_turn_of_the_model() -> None:
    use = {"type": "mcp_tool_use", "id": "mcptoolu_1", "server_name": "raw", "name": "echo"}
    answered = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [text("hi")]}
    failed = {**answered, "is_error": True}
    turn = assistant(text("I look."), {**use, "input": {}}, answered, failed, text("Done."))
    function = {"name": "raw__echo", "arguments": {}}
    call = {"id": "mcptoolu_1", "type": "function", "function": function}
    one = {"role": "tool", "tool_call_id": "mcptoolu_1", "name": "raw__echo"}
    assert told(turn) == [
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {**one, "content": "hi"},
        {**one, "content": '{"error": "hi"}'},
        {"role": "assistant", "content": "Done."},
    ]


def test_a_result_of_no_call_that_is_known_has_no_name() -> None:
    (message,) = told(user(result("ok", id="toolu_other")))
    assert message == {"role": "tool", "tool_call_id": "toolu_other", "content": "ok"}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("no such file", '{"error": "no such file"}'),
        ([text("a"), text("b")], '{"error": "a\\nb"}'),
        (None, '{"error": ""}'),
    ],
)
def test_errors_are_told_as_errors(content: Any, shown: str) -> None:
    assert told(assistant(CALL), user(result(content, is_error=True)))[1]["content"] == shown
    assert told(assistant(CALL), user(result(is_error=False)))[1]["content"] == ""


def test_messages_of_one_role_are_one_turn() -> None:
    said = read_conversation(
        None,
        [
            user(text("a")),
            user(text("b")),
            assistant(text("c")),
            assistant(CALL),
            user(result("ok")),
            user(text("d", **MARK)),
        ],
    )
    assert said.messages == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": "c", "tool_calls": [WRITTEN]},
        {"role": "tool", "tool_call_id": "toolu_abcdefghi", "name": "paint", "content": "ok"},
        {"role": "user", "content": "d"},
    ]
    assert said.sources == (0, 2, 4, 5)
    assert said.marks == (4,)
    assert said.find(3) == "/messages/5"
    assert not said.prefill


def test_breakpoints_stand_behind_what_their_block_became() -> None:
    inner = result([text("ok", **MARK)])
    said = read_conversation(
        [text("s", **MARK)], [user(text("a")), assistant(CALL), user(inner, text("b"))]
    )
    assert said.marks == (1, 4)
    assert said.leading == 1
    assert said.find(0) == "/system"


def test_a_last_turn_of_the_assistant_goes_on() -> None:
    assert read_conversation(None, [user(text("a")), assistant(text("b"))]).prefill


PAGE = {"type": "document", "title": "Paris", "context": "of 1900", "citations": None}
EMPTY = {"type": "content", "content": None}
FOUND = {"type": "search_result", "source": "https://a.example/", "title": "Rome"}
DOCUMENTS: list[tuple[Json, str]] = [
    ({**PAGE, "source": {"type": "text", "data": "A city."}}, "Title: Paris\nContext: of 1900\n"),
    ({"type": "document", "source": {"type": "content", "content": "A city."}}, ""),
    ({"type": "document", "source": {"type": "content", "content": [text("A city.")]}}, ""),
    ({**FOUND, "content": [text("A city.")]}, "Title: Rome\nSource: https://a.example/\n"),
]


@pytest.mark.parametrize(("document", "head"), DOCUMENTS)
def test_documents_that_are_text_are_read(document: Json, head: str) -> None:
    shown = f"{head}A city.\n\n"
    asked = read_conversation(None, [user({**document, **MARK}, text("What is it?"))])
    assert asked.messages == [{"role": "user", "content": [text(shown), text("What is it?")]}]
    assert asked.marks == (1,)
    (answer,) = told(user(result([document])))
    assert answer["content"] == shown


@pytest.mark.parametrize("enabled", [True, False])
def test_documents_that_are_to_be_cited(enabled: bool) -> None:
    cited = {**PAGE, "citations": {"enabled": enabled}}
    assert has_citations([user("Hi"), user(text("a"), cited)]) == enabled
    assert has_citations([user(result([text("a"), cited]))]) == enabled
    assert not has_citations([user(text("a"), PAGE)])


REFUSED: list[tuple[Json, str, str]] = [
    ({"content": "Hi"}, "/role", "no role"),
    ({"role": "tool", "content": "Hi"}, "/role", "'tool'"),
    ({"role": "user"}, "/content", "list of blocks"),
    (user("Hi"), "/content/0", "None"),
    (user(text("a"), {"type": "image", "source": {}}), "/content/1", "'image'"),
    (user({"type": "document", "source": {}}), "/content/0", "'document'"),
    (user({**PAGE, "source": {"type": "base64"}}), "/content/0", "'document'"),
    (user({**PAGE, "title": 1}), "/content/0/title", "text"),
    (user({**FOUND, "content": [{"type": "image"}]}), "/content/0/content/0", "'image'"),
    (user(FOUND), "/content/0/content", "no content"),
    (user({**FOUND, "content": None}), "/content/0/content", "no content"),
    (user({**PAGE, "source": {"type": "content"}}), "/content/0", "not text"),
    (user({**PAGE, "source": EMPTY}), "/content/0/source/content", "no content"),
    (user({**PAGE, "source": {"type": "base64"}}), "/content/0", "'document'"),
    (user({**PAGE, "title": 1}), "/content/0/title", "text"),
    (user({**FOUND, "content": [{"type": "image"}]}), "/content/0/content/0", "'image'"),
    (user(result([{}])), "/content/0/content/0", "None"),
    (user(result(7)), "/content/0/content", "text or a list"),
    (user({"type": "tool_result"}), "/content/0/tool_use_id", "text"),
    (user({"type": "text"}), "/content/0/text", "text"),
    (user({"type": ["text"]}), "/content/0", "type"),
    (user(CALL), "/content/0", "tool_use"),
    (assistant(result("a")), "/content/0", "tool_result"),
    (assistant({**CALL, "input": []}), "/content/0/input", "an object"),
    (assistant({"type": "thinking"}), "/content/0/thinking", "text"),
]


@pytest.mark.parametrize(("message", "where", "word"), REFUSED)
def test_what_is_refused_says_where(message: Json, where: str, word: str) -> None:
    with pytest.raises(HttpError) as caught:
        read_conversation(None, [user(text("Hi")), message])
    assert caught.value.where == f"/messages/1{where}"
    assert caught.value.status == 400
    assert word in caught.value.message


def test_an_image_of_the_system_is_refused() -> None:
    with pytest.raises(HttpError) as caught:
        read_conversation([text("a"), {"type": "image"}], [user(text("Hi"))])
    assert caught.value.where == "/system/1"


def test_what_is_no_text_in_a_result_becomes_a_note() -> None:
    picture: Json = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    file = {**PAGE, "source": {"type": "base64", "data": "aGk="}}
    scan = {**PAGE, "source": {"type": "content", "content": [picture]}}
    read = read_conversation(None, [user(result([picture])), user(result([text("a"), file, scan]))])
    first, second = (message["content"] for message in read.messages)
    assert first == "[image left out: this model reads text]"
    assert second[1]["text"] == "[document left out: this model reads text]"
    assert "[image left out" in second[2]["text"]
    assert read.unread == (
        "messages/0/content/0/content/0 (image)",
        "messages/1/content/0/content/1 (document)",
        "messages/1/content/0/content/2/source/content/0 (image)",
    )


PICTURE: Json = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
FILE: Json = {"type": "document", "source": {"type": "base64", "data": "aGk="}}


def test_a_file_beside_a_result_becomes_a_note() -> None:
    """So Claude Code 2.1 sends a PDF that it has read."""
    read = read_conversation(None, [user(text("Look")), assistant(CALL), user(result("A"), FILE)])
    assert [message["role"] for message in read.messages] == ["user", "assistant", "tool", "user"]
    assert read.messages[-1]["content"] == "[document left out: this model reads text]"
    assert read.unread == ("messages/2/content/1 (document)",)


def test_pictures_that_the_user_has_shown_earlier_become_notes() -> None:
    scan = {"type": "document", "source": {"type": "content", "content": [PICTURE]}}
    shown = [user(PICTURE, text("Look")), assistant(text("a")), user(scan), assistant(text("b"))]
    read = read_conversation(None, [*shown, user(text("So?"))])
    assert read.messages[0]["content"][0]["text"] == "[image left out: this model reads text]"
    assert "[image left out" in read.messages[2]["content"]
    assert read.unread == (
        "messages/0/content/0 (image)",
        "messages/2/content/0/source/content/0 (image)",
    )
    with pytest.raises(HttpError) as caught:
        read_conversation(None, [*shown, user(PICTURE)])
    assert caught.value.where == "/messages/4/content/0"


@pytest.mark.parametrize("given", [None, "", "null", '{"city": "Par'])
def test_arguments_as_models_write_them_are_kept(given: Any) -> None:
    message = read_conversation(None, [assistant({**CALL, "input": given})]).messages[0]
    assert message["tool_calls"][0]["function"]["arguments"] == given
