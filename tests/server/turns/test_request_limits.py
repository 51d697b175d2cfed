"""What a request may have how many of."""

from typing import Any

import pytest

from server.errors import HttpError
from server.settings import Settings
from server.turns.request_checks import check_echoed
from server.turns.request_limits import MAX_FIELDS, check_lengths

SMALL = Settings(max_tools=2, max_template_kwargs=20, max_values=9)
LISTS = {"arguments": '{"a": [[[], []], "[,,,,,,,,"]}'}  # of six or seven values
PART = {"type": "text", "text": "a"}


def say(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*parts], **more}


@pytest.mark.parametrize(
    ("body", "where", "option"),
    [
        ({"tools": [{}] * 3}, "/tools", "--max-tools"),
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


def test_what_only_comes_back_is_short() -> None:
    settings = Settings(max_echoed=20)
    check_echoed({"user": "x" * 18, "metadata": None}, settings)
    with pytest.raises(HttpError, match="--max-echoed") as caught:
        check_echoed({"user": "x", "metadata": {"a": "x" * 18}}, settings)
    assert caught.value.where == "/metadata"
