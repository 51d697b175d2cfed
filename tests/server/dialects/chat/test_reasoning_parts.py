"""Reasoning among the parts of a message of the assistant."""

from typing import Any

import pytest

from constrained.prompt.messages import REASONING_NAMES, read_reasoning
from server.dialects.chat.reasoning_parts import (
    find_unread_blocks,
    place_reasoning,
    separate_reasoning,
    take_blocks,
)
from server.errors import HttpError
from tests.server.running_server import Json

WHERE = "/messages/1/content"
TEXT = {"type": "text", "text": "Hello"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
        {"type": "reasoning", "text": "Hm."},
    ],
)
def test_reasoning_is_no_text(part: Json) -> None:
    assert separate_reasoning([part, TEXT, HIDDEN], WHERE) == ([TEXT], "Hm.")
    assert separate_reasoning([TEXT, part, part], WHERE) == ([TEXT], "Hm.Hm.")
    assert separate_reasoning([part], WHERE) == ("", "Hm.")


@pytest.mark.parametrize("content", [[], [TEXT], ["Hello"], [{"type": "text", "text": ""}]])
def test_without_reasoning_the_text_stays(content: list[Any]) -> None:
    texts = [part if isinstance(part, dict) else TEXT for part in content]
    assert separate_reasoning(content, WHERE) == (texts or "", "")


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"type": "image_url"}, "/1"),
        ({"type": "thinking", "thinking": None}, "/1"),
        ({"type": "thinking", "thinking": [TEXT, {"type": "image"}]}, "/1/thinking/1"),
        ({"type": ["thinking"], "thinking": "x"}, "/1"),
        (None, "/1"),
    ],
)
def test_what_is_neither_is_refused_at_its_place(part: Any, place: str) -> None:
    with pytest.raises(HttpError) as caught:
        separate_reasoning([{"type": "reasoning", "text": "Hm."}, part], WHERE)
    assert caught.value.where == WHERE + place


@pytest.mark.parametrize(
    "beside",
    [
        {},
        {"reasoning_content": ""},
        {"thinking": "", "reasoning": None},
        {"reasoning": "Hm."},
        {"reasoning_content": "", "reasoning": "Hm."},
    ],
)
def test_reasoning_of_parts_is_that_of_the_message(beside: Json) -> None:
    message = {"role": "assistant", **beside}
    place_reasoning(message, "Hm.", "/messages/1")
    assert read_reasoning(message) == "Hm."


@pytest.mark.parametrize("name", REASONING_NAMES)
def test_other_reasoning_beside_the_parts_is_refused(name: str) -> None:
    with pytest.raises(HttpError, match="different reasoning") as caught:
        place_reasoning({"role": "assistant", name: "Other"}, "Hm.", "/messages/1")
    assert caught.value.where == f"/messages/1/{name}"


BLOCKS = {
    "reasoning_details": [
        {"type": "reasoning.text", "text": "Hm", "index": 0},
        {"type": "reasoning.text", "signature": "x"},
        {"type": "reasoning.encrypted", "data": "x"},
        {"type": "reasoning.summary", "summary": "."},
    ],
}

THOUGHTS = {"thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]}


@pytest.mark.parametrize(
    ("message", "reasoning", "unread"),
    [
        (BLOCKS, "Hm.", ["m/reasoning_details/2 (reasoning.encrypted)"]),
        (
            {"thinking_blocks": [{"type": "thinking", "thinking": "Hm."}, HIDDEN]},
            "Hm.",
            ["m/thinking_blocks/1 (redacted_thinking)"],
        ),
        ({**BLOCKS, "reasoning": "So."}, "So.", ["m/reasoning_details/2 (reasoning.encrypted)"]),
        ({"reasoning_details": [HIDDEN, "x"]}, None, ["m/reasoning_details/0 (redacted_thinking)",
                                                      "m/reasoning_details/1 (None)"]),
        ({"reasoning_details": None, "thinking_blocks": "x"}, None, []),
        ({**BLOCKS, **THOUGHTS}, "Hm.", ["m/reasoning_details/2 (reasoning.encrypted)"]),
        ({"reasoning_details": [HIDDEN], **THOUGHTS}, "Hm.",
         ["m/reasoning_details/0 (redacted_thinking)"]),
        ({"role": "user", **THOUGHTS}, None, ["m/thinking_blocks/0 (thinking)"]),
    ],
)  # fmt: skip
def test_blocks_beside_the_content_are_read_once(
    message: Json, reasoning: str | None, unread: list[str]
) -> None:
    read = {"role": "assistant", **message}
    assert find_unread_blocks(read, "m") == unread
    take_blocks(read)
    assert read_reasoning(read) == reasoning
    assert not {"reasoning_details", "thinking_blocks"} & set(read)
