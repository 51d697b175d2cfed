"""Conversations as clients send them, read into the normal form."""

import json
from typing import Any

import pytest

from constrained.errors import TemplateError
from constrained.messages import check_parts, find_other_arguments, normalise


def read_arguments(given: Any) -> Any:
    """The arguments of a call in normal form."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": given}}
    (message,) = normalise([{"role": "assistant", "tool_calls": [call]}])
    return message["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize("given", [None, "", " ", "null", "None", "{}", {}, []])
def test_no_arguments(given: Any) -> None:
    assert read_arguments(given) == {}


@pytest.mark.parametrize("rest", ["", "\n", '{"a": 1}', ' {"a"'])
def test_the_first_object_counts(rest: str) -> None:
    assert read_arguments(json.dumps({"a": 1}) + rest) == {"a": 1}


@pytest.mark.parametrize("given", ['{"city": "Par', "[1]", [1], 7, '{"a": 1} and', "Paris"])
def test_other_arguments_are_kept_and_found(given: Any) -> None:
    assert read_arguments(given) == given
    call = {"function": {"name": "look", "arguments": given}}
    messages = normalise([{"role": "user"}, {"role": "assistant", "tool_calls": [call]}])
    assert find_other_arguments(messages) == "/messages/1/tool_calls/0/function/arguments"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("image_url", "image"), ("input_audio", "audio"), ("image", "image"), ("file", "file")],
)
def test_what_is_no_text_is_a_note_in_a_result_and_refused_of_the_user(
    kind: str, name: str
) -> None:
    content = [{"type": "text", "text": "Look"}, {"type": kind, kind: {}}]
    result, question = normalise([{"role": role, "content": content} for role in ("tool", "user")])
    assert result["content"][1]["text"] == f"[{name} left out: this model reads text]"
    with pytest.raises(TemplateError, match=kind) as info:
        check_parts([result, question])
    assert info.value.where == "/messages/1/content/1"
