"""What a request may have how many of."""

from typing import Any

import pytest

from server.errors import HttpError
from server.settings import Settings
from server.turns.request_checks import check_echoed
from server.turns.request_limits import (
    MAX_FIELDS,
    MAX_NAME_LENGTH,
    MAX_TOOL_CHOICE_LENGTH,
    check_lengths,
)

SMALL = Settings(max_messages=3, max_parts=4, max_tools=2, max_template_kwargs=20, max_values=9)
LISTS = {"arguments": '{"a": [[[], []], "[,,,,,,,,"]}'}  # of six or seven values
PART = {"type": "text", "text": "a"}


def say(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*parts], **more}


@pytest.mark.parametrize(
    ("body", "where", "option"),
    [
        ({"messages": [{}] * 4}, "/messages", "--max-messages"),
        ({"messages": [1] * 4}, "/messages", "--max-messages"),
        ({"input": [{}] * 4}, "/input", "--max-messages"),
        ({"tools": [{}] * 3}, "/tools", "--max-tools"),
        ({"stop": ["a"] * 17}, "/stop", "limit is 16"),
        ({"stop_sequences": ["a"] * 17}, "/stop_sequences", "limit is 16"),
        ({"messages": [say(*[PART] * 5)]}, "/messages/0/content", "--max-parts"),
        ({"messages": [say(*[PART] * 3)] * 2}, "/messages/1/content", "--max-parts"),
        ({"system": [PART] * 5}, "/system", "--max-parts"),
        ({"messages": [{"tool_calls": [{}] * 5}]}, "/messages/0/tool_calls", "--max-parts"),
        (
            {"messages": [say({"type": "tool_result", "content": [PART] * 4})]},
            "/messages/0/content/0/content",
            "--max-parts",
        ),
        ({"input": [{"summary": [PART] * 5}]}, "/input/0/summary", "--max-parts"),
        ({"input": [{"output": [PART] * 5}]}, "/input/0/output", "--max-parts"),
        (
            {"messages": [{"tool_calls": [{"function": LISTS}] * 2}]},
            "/messages/0/tool_calls/1/function/arguments",
            "--max-values",
        ),
        ({"input": [LISTS, LISTS]}, "/input/1/arguments", "--max-values"),
        (
            {"chat_template_kwargs": {"a": "x" * 20}},
            "/chat_template_kwargs",
            "--max-template-kwargs",
        ),
        ({f"f{number}": 1 for number in range(MAX_FIELDS + 1)}, "", f"limit is {MAX_FIELDS}"),
    ],
)
def test_too_many(body: dict[str, Any], where: str, option: str) -> None:
    with pytest.raises(HttpError) as caught:
        check_lengths(body, SMALL)
    assert caught.value.status == 400
    assert caught.value.where == where
    assert option in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [say(PART), say(PART), say(PART)], "tools": [{}, {}]},
        {"messages": "text", "tools": None, "stop": "x" * 100, "system": 1},
        {"messages": [1, None, {"content": [None, {"content": 1}]}]},
        {"input": "a long text", "chat_template_kwargs": {}},
    ],
)
def test_what_is_not_too_many_is_left_to_the_validation(body: dict[str, Any]) -> None:
    check_lengths(body, SMALL)


LONG = "x" * (MAX_NAME_LENGTH + 1)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({LONG: 1}, ""),
        ({"model": LONG}, "/model"),
        ({"messages": [{"role": LONG}]}, "/messages/0/role"),
        ({"messages": [say({"type": LONG})]}, "/messages/0/content/0/type"),
        ({"messages": [{"tool_calls": [{"id": LONG}]}]}, "/messages/0/tool_calls/0/id"),
        ({"input": [{"call_id": LONG}]}, "/input/0/call_id"),
        ({"tools": [{"function": {"name": LONG}}]}, "/tools/0/function/name"),
        ({"tools": [1, {"type": LONG}]}, "/tools/1/type"),
        ({"tool_choice": {"name": "x" * MAX_TOOL_CHOICE_LENGTH}}, "/tool_choice"),
    ],
)
def test_names_are_short(body: dict[str, Any], where: str) -> None:
    with pytest.raises(HttpError) as caught:
        check_lengths(body, SMALL)
    assert caught.value.where == where
    assert len(caught.value.message) < 200


def test_texts_are_as_long_as_they_like() -> None:
    texts = {"prompt": LONG, "input": LONG, "instructions": LONG, "grammar": LONG}
    check_lengths({**texts, "messages": [say({"type": "text", "text": LONG})]}, SMALL)


def test_what_only_comes_back_is_short() -> None:
    settings = Settings(max_echoed=20)
    check_echoed({"user": "x" * 18, "metadata": None}, settings)
    with pytest.raises(HttpError, match="--max-echoed") as caught:
        check_echoed({"user": "x", "metadata": {"a": "x" * 18}}, settings)
    assert caught.value.where == "/metadata"
