"""Items of Responses as a conversation, and the responses that are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialects.common.sealed_reasoning import seal, unseal
from server.dialects.responses import conversation
from server.dialects.responses.conversation import write_messages
from server.dialects.responses.items import find_unread_items, read_input
from server.dialects.responses.store import ResponseStore, StoredResponse, pack
from server.errors import HttpError
from tests.server.running_server import Json

USER: Json = {"role": "user", "content": "Hi"}


def read(*items: Json) -> list[Json]:
    return read_input(items, lambda ids: {})


def call(number: int) -> Json:
    ids = {"call_id": f"call_{number}", "name": f"tool_{number}"}
    return {"type": "function_call", **ids, "arguments": "{}"}


def output(number: int) -> Json:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": "ok"}


def said(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": text}


def thought(text: str) -> Json:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "summary": [], "content": content}


def shape(*items: Json) -> list[str]:
    """The messages, in short."""
    shapes: list[str] = []
    for message in write_messages(read(*items)):
        parts = [message["role"][0], message.get("reasoning_content"), message["content"]]
        parts += [call["function"]["name"] for call in message.get("tool_calls", ())]
        shapes.append(" ".join(part for part in parts if part))
    return shapes


def test_the_items_of_a_turn_are_one_message() -> None:
    assert shape(USER, thought("hm"), said("a"), call(1), call(2), output(1), output(2)) == [
        "u Hi",
        "a hm a tool_1 tool_2",
        "t ok",
        "t ok",
    ]
    assert shape(USER, thought("hm"), call(1), said("a"), output(1), said("b")) == [
        "u Hi",
        "a hm a tool_1",
        "t ok",
        "a b",
    ]


def test_turns_are_told_apart() -> None:
    assert shape(said("a"), said("b")) == ["a a", "a b"]
    assert shape(said("a"), thought("hm"), said("b")) == ["a a", "a hm b"]
    assert shape(call(1), output(1), call(2), output(2)) == ["a tool_1", "t ok", "a tool_2", "t ok"]


def test_no_item_of_a_turn_copies_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[Json]()
    gathered: list[dict[str, list[Any]]] = []
    find = conversation._MessageWriter._find_turn

    def note(*given: Any, **options: Any) -> Json:
        turns.append(find(*given, **options))
        gathered.append({key: turns[-1][key] for key in turns[-1] if key != "role"})
        return turns[-1]

    monkeypatch.setattr(conversation._MessageWriter, "_find_turn", note)
    given = read(thought("h"), thought("m"), call(1), said("a"), call(2), said("b"), call(3))
    (message,) = write_messages(given)
    assert message["reasoning_content"] == "hm"
    assert message["content"] == "ab"
    assert [call["id"] for call in message["tool_calls"]] == ["call_1", "call_2", "call_3"]
    assert write_messages(given) == [message]  # nothing of the first time is left in the items
    assert all(turn is turns[0] for turn in turns[: len(given)])
    last = gathered[len(given) - 1]
    for seen in gathered[: len(given)]:
        assert all(seen[key] is last[key] for key in seen)


def test_every_item_has_an_id_and_keeps_its_own() -> None:
    whole = read(USER, {**said("a"), "id": "msg_1"}, call(1), output(1), thought("x"))
    prefixes = ["msg_", "msg_1", "fc_", "fco_", "rs_"]
    assert all(item["id"].startswith(prefix) for item, prefix in zip(whole, prefixes, strict=True))
    assert read(*whole) == whole


def test_instructions_and_a_system_message_are_one() -> None:
    developer = {"role": "developer", "content": "Be kind."}
    messages = write_messages(read(developer, USER), "Be brief.")
    assert messages[0] == {"role": "system", "content": "Be brief.\n\nBe kind."}
    assert len(messages) == 2
    assert write_messages(read(developer, USER))[0]["role"] == "developer"


def test_several_parts_stay_parts() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    (message,) = write_messages(read({"role": "user", "content": parts}))
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert write_messages(read(refusal))[0]["content"] == "no"
    (result,) = write_messages(read({**output(1), "output": parts[:1]}))
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "a"}


def test_a_summary_stands_for_reasoning_that_is_not_there() -> None:
    summary = [{"type": "summary_text", "text": "in short"}]
    assert shape({"type": "reasoning", "summary": summary}, said("a")) == ["a in short a"]
    whole = {**thought("at length"), "summary": summary}
    assert shape(whole, said("a")) == ["a at length a"]


@given(st.text())
def test_sealed_text_comes_back(text: str) -> None:
    sealed = seal(text)
    assert unseal(sealed, "") == text
    for spoilt in (sealed[:-4], sealed[:-4] + "A===", sealed + "ü", None, 7):
        with pytest.raises(HttpError):
            unseal(spoilt, "")
    for foreign in ("A" * 16, "", "ü", sealed[4:]):
        assert unseal(foreign, "") is None


SEALED: Json = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo"}
SUMMARY: list[Json] = [{"type": "summary_text", "text": "in short"}]
WEB: Json = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "a"}}
FILES: Json = {"type": "file_search_call", "id": "fs_1", "queries": ["a"], "results": []}
CODE: Json = {"type": "code_interpreter_call", "id": "ci_1", "code": "2+2", "container_id": "c"}
SHELL: Json = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}
SHELL_OUTPUT: Json = {"type": "shell_call_output", "call_id": "call_1", "output": [{"stdout": "a"}]}
MCP_CALL: Json = {"type": "mcp_call", "id": "mcp_1", "server_label": "raw", "name": "echo"}
MCP_CALL |= {"arguments": "{}", "output": "hi", "error": None}
TIMED_OUT: Json = {"content": [{"type": "text", "text": "too late"}]}
FOREIGN: list[tuple[list[Json], list[str], list[str]]] = [
    ([{"type": "mcp_list_tools", "server_label": "raw", "tools": []}], [], []),
    ([MCP_CALL], ["a raw__echo", "t hi"], []),
    ([{**MCP_CALL, "output": None}], ["a raw__echo", "t"], []),
    ([{**MCP_CALL, "output": None, "error": "no"}], ["a raw__echo", 't {"error": "no"}'], []),
    ([{**MCP_CALL, "error": TIMED_OUT}], ["a raw__echo", 't {"error": "too late"}'], []),
    ([{**MCP_CALL, "error": {"code": 5}}], ["a raw__echo", 't {"error": "{\\"code\\": 5}"}'], []),
    ([SEALED], [], ["(reasoning)"]),
    ([{**SEALED, "summary": SUMMARY}], ["a in short"], ["(encrypted_content)"]),
    ([{**thought("hm"), "encrypted_content": "gAAAAABo"}], ["a hm"], []),
    ([{**SEALED, "encrypted_content": seal("hm")}], ["a hm"], []),
    ([WEB], [], ["(web_search_call)"]),
    ([{"type": "image_generation_call", "id": "ig_1"}], [], ["(image_generation_call)"]),
    ([FILES], [], ["(file_search_call)"]),
    ([CODE], [], ["(code_interpreter_call)"]),
    ([SHELL, SHELL_OUTPUT], ["a shell", 't [{"stdout": "a"}]'], []),
]


@pytest.mark.parametrize(("items", "shown", "unread"), FOREIGN)
def test_a_conversation_of_another_server_goes_on(
    items: list[Json], shown: list[str], unread: list[str]
) -> None:
    assert shape(USER, *items) == ["u Hi", *shown]
    assert [*find_unread_items([USER, *items])] == [f"input/1 {name}" for name in unread]
    whole = read(USER, *items)
    assert read(*whole) == whole


UNUSABLE: list[tuple[Json, str, str]] = [
    ({**SEALED, "encrypted_content": seal("hm")[:-4]}, "/encrypted_content", "damaged"),
    ({**SEALED, "encrypted_content": 7}, "/encrypted_content", "text"),
    ({"type": "shell_call_output", "output": "a"}, "/call_id", "text"),
    ({**SHELL, "type": "local_shell_call"}, "/type", "local_shell_call"),
    ({**call(1), "call_id": ""}, "/call_id", "empty"),
    ({**output(1), "call_id": ""}, "/call_id", "empty"),
    ({**SHELL, "call_id": ""}, "/call_id", "empty"),
    ({**SHELL, "action": "ls"}, "/action", "object"),
    ({"type": "additional_tools", "role": "developer", "tools": []}, "/type", "in tools"),
    ({"type": "tool_search_call", "call_id": None, "arguments": {}}, "/type", "in tools"),
    ({"type": "tool_search_output", "tools": []}, "/type", "in tools"),
    ({"type": "mcp_approval_request"}, "/type", "no approval"),
    ({"type": "mcp_approval_response", "approve": True}, "/type", "no approval"),
    ({"type": "program", "call_id": "call_1", "code": "f()"}, "/type", "program"),
    ({"type": "computer_call", "call_id": "call_1", "action": {}}, "/type", "computer_call"),
    ({"type": "compaction", "encrypted_content": "gAAAAABo"}, "/type", "only OpenAI"),
    ({"type": "compaction_trigger"}, "/type", "summary"),
    ({"type": "of_next_year"}, "/type", "of_next_year"),
]


@pytest.mark.parametrize(("item", "where", "word"), UNUSABLE)
def test_items_that_cannot_be_used_say_why(item: Json, where: str, word: str) -> None:
    with pytest.raises(HttpError) as caught:
        read(USER, item)
    assert (caught.value.status, caught.value.where) == (400, f"/input/1{where}")
    assert word in caught.value.message


PATCH: Json = {"type": "apply_patch_call", "call_id": "call_1", "operation": {"path": "a"}}


@pytest.mark.parametrize("item", [call(1), output(1), said("a"), SHELL, PATCH])
def test_an_item_that_was_cut_keeps_its_status(item: Json) -> None:
    for status in ("incomplete", "in_progress"):
        assert read({**item, "status": status})[0]["status"] == status
    for unknown in (None, "failed", []):
        assert read({**item, "status": unknown})[0]["status"] == "completed"


def stored(id: str, *items: str, owner: str = "", size: int = 1) -> StoredResponse:
    context = tuple({"id": item, "of": id} for item in items)
    return StoredResponse(
        {"id": id, "output": [{"id": f"{id}_out", "of": id}]}, context, owner, size
    )


def test_the_least_recently_used_response_is_forgotten() -> None:
    store = ResponseStore(2, 100)
    store.put(stored("a"))
    store.put(stored("b"))
    assert store.get("", "a") is not None
    store.put(stored("c"))
    assert store.get("", "b") is None
    assert store.find_items("", {"b_out"}) == {}
    assert store.get("", "a") is not None
    assert store.delete("", "a") is True
    assert store.delete("", "a") is False


def test_items_are_found_in_the_newest_response() -> None:
    store = ResponseStore(3, 100)
    store.put(stored("a", "x"))
    store.put(stored("b", "x", "y"))

    def find(*ids: str) -> dict[str, str]:
        return {id: item["of"] for id, item in store.find_items("", ids).items()}

    assert find("x", "a_out", "z") == {"x": "b", "a_out": "a"}
    assert find() == {}
    store.delete("", "b")
    assert find("x", "y") == {"x": "a"}
    store.put(stored("a", "y"))  # in place of the first
    assert find("x", "y") == {"y": "a"}


def test_nobody_finds_what_is_not_theirs() -> None:
    store = ResponseStore(3, 100)
    store.put(stored("a", "x", owner="A"))
    store.put(stored("b", "x", owner="B"))
    for owner, id in (("A", "a"), ("B", "b")):
        items = store.find_items(owner, {"x", "a_out", "b_out"})
        assert {name: item["of"] for name, item in items.items()} == {"x": id, f"{id}_out": id}
    assert store.get("B", "a") is None
    assert store.get("", "a") is None
    assert store.delete("B", "a") is False
    assert store.get("A", "a") is not None


def test_responses_are_forgotten_where_they_are_too_large_together() -> None:
    store = ResponseStore(10, 100)

    def find(*ids: str) -> str:
        return "".join(id for id in ids if store.find_items("", {f"{id}_out"}))

    for id in ("a", "b", "c"):
        store.put(stored(id, size=30))
    assert store.get("", "a") is not None  # "b" is the oldest now
    store.put(stored("d", size=11, owner="D"))  # 101: all owners together
    assert find("a", "b", "c") == "ac"
    store.put(stored("large", size=101))
    assert find("a", "c", "large") == "ac"  # nothing had to go for it
    store.put(stored("a", size=59))  # the first one is not counted any more
    assert find("a", "c") == "ac"
    assert store.delete("", "a") is True
    store.put(stored("e", size=59))  # neither is the second
    assert find("c", "e") == "ce"
    assert store.get("D", "d") is not None
    store.put(stored("f", size=100))
    assert find("c", "e", "f") == "f"
    store.put(stored("f", size=101))  # what it was is not what it is
    assert find("f") == ""


def test_a_request_refers_to_a_part_of_the_store() -> None:
    store = ResponseStore(10, 100)
    for id in ("a", "b", "c"):
        store.put(stored(id, size=12))
    assert len(store.find_items("", ["a_out", "b_out"])) == 2
    with pytest.raises(HttpError, match="36 bytes together, the limit is 25"):
        store.find_items("", ["a_out", "b_out", "c_out"])
    store.put(stored("d", size=60))
    assert len(store.find_items("", ["d_out"])) == 1  # as with previous_response_id


def test_they_are_kept_as_json() -> None:
    """Small values take ten times the memory of their JSON, whose bytes are counted."""
    store = ResponseStore(1, 100)
    given = stored("a", "x")
    store.put(given)
    kept = store.get("", "a")
    assert kept == given
    assert kept is not given
    assert store.find_items("", ["x"])["x"] is not given.context[0]
    assert pack({"ü": [1]}) == b'{"\xc3\xbc": [1]}'
    assert pack("\ud800") == b'"\xed\xa0\x80"'


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_pictures_of_an_output_become_notes(kind: str) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    item = {"type": kind, "call_id": "call_1", "output": [picture]}
    (read,) = read_input([item], lambda ids: {})
    assert read["output"][0]["text"] == "[image left out: this model reads text]"
    assert find_unread_items([item]) == ("input/0/output/0 (input_image)",)


def test_pictures_that_the_user_has_shown_earlier_become_notes() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    shown = {"role": "user", "content": [picture]}
    items: list[Json] = [shown, {"role": "assistant", "content": "Hm."}]
    asking = [*items, {"role": "user", "content": "So?"}]
    read = read_input(asking, lambda ids: {})
    assert read[0]["content"][0]["text"] == "[image left out: this model reads text]"
    assert find_unread_items(asking) == ("input/0/content/0 (input_image)",)
    with pytest.raises(HttpError) as caught:
        read_input([*items, shown], lambda ids: {})
    assert caught.value.where == "/input/2/content/0"


def test_a_call_without_arguments_is_read() -> None:
    item = {"type": "function_call", "call_id": "call_1", "name": "ping", "arguments": None}
    (read,) = read_input([item], lambda ids: {})
    assert read["arguments"] == "{}"
