"""Conversations as clients send them, read into the normal form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import TemplateError
from constrained.prompt.messages import check_parts, find_noted, find_other_arguments, normalise


def read_arguments(said: Any) -> Any:
    """The arguments of a call in normal form."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": said}}
    (message,) = normalise([{"role": "assistant", "tool_calls": [call]}])
    return message["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize("said", [None, "", " ", "null", "None", "{}", {}, []])
def test_no_arguments(said: Any) -> None:
    assert read_arguments(said) == {}


@pytest.mark.parametrize("rest", ["", "\n", '{"a": 1}', ' {"a"'])
def test_the_first_object_counts(rest: str) -> None:
    assert read_arguments(json.dumps({"a": 1}) + rest) == {"a": 1}


@pytest.mark.parametrize("said", ['{"city": "Par', "[1]", [1], 7, '{"a": 1} and', "Paris"])
def test_other_arguments_are_kept_and_found(said: Any) -> None:
    assert read_arguments(said) == said
    call = {"function": {"name": "look", "arguments": said}}
    messages = normalise([{"role": "user"}, {"role": "assistant", "tool_calls": [call]}])
    assert find_other_arguments(messages) == "/messages/1/tool_calls/0/function/arguments"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("image_url", "image"), ("input_audio", "audio"), ("image", "image"), ("file", "file")],
)
def test_what_is_no_text_is_a_note_in_the_history_and_refused_in_a_question(
    kind: str, name: str
) -> None:
    content = [{"type": "text", "text": "Look"}, {"type": kind, kind: {}}]
    roles = ("user", "tool", "assistant", "user")
    read = normalise([{"role": role, "content": content} for role in roles])
    for message in read[:2]:
        assert message["content"][1]["text"] == f"[{name} left out: this model reads text]"
    with pytest.raises(TemplateError, match=kind) as info:
        check_parts(read)
    assert info.value.where == "/messages/3/content/1"


NOTED = {
    "user": set[int](),
    "system user user": set[int](),
    "user assistant user": {0},
    "user assistant tool": {0, 2},
    "user assistant tool user": {0, 2, 3},  # a client's message, with what the tool has read
    "user assistant tool assistant user": {0, 2},
    "user function assistant user user": {0, 1},
    "user assistant": set[int](),  # which is to go on
    "user assistant user assistant": {0},
}


@pytest.mark.parametrize("roles", NOTED)
def test_where_notes_are(roles: str) -> None:
    assert find_noted(roles.split()) == NOTED[roles]


@given(st.lists(st.sampled_from(["system", "user", "assistant", "tool"])), st.booleans())
def test_an_answer_makes_a_note_of_all_that_was_asked(roles: list[str], tells: bool) -> None:
    """No picture in a conversation refuses what the user asks after another answer."""
    later = [*roles, "assistant", "user"] if tells else [*roles, "assistant", "tool", "user"]
    asked = {i for i, role in enumerate(later) if role == "user"} - find_noted(later)
    assert asked == ({len(later) - 1} if tells else set())
    assert find_noted(roles) <= find_noted(later)
