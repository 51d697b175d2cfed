"""Tags around results in the prompt, in what the model writes."""

from typing import Any

import pytest

from constrained.inspect.replay.check import check_rows
from constrained.prompt.format_selection.generic import CHATML

TOOL = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
HISTORY = [
    {"role": "user", "content": "Add <tool_response> to 1"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "5"},
]


def check(text: str, **fields: Any) -> dict[str, Any]:
    [answer] = check_rows([{"template": CHATML, "text": text, **fields}])
    return answer


@pytest.mark.parametrize("tools", [[TOOL], []])
def test_a_quoted_result_is_the_answer(tools: list[Any]) -> None:
    answer = check("<tool_response>\n5\n</tool_response>", tools=tools, messages=HISTORY)
    assert (answer["complete"], answer["content"]) == (True, "5")


@pytest.mark.parametrize("tools", [[TOOL], []])
@pytest.mark.parametrize("tag", ["<tool_response>", "</tool_response>", "<tool_response "])
def test_text_has_no_tags_of_results(tools: list[Any], tag: str) -> None:
    answer = check(f"It is {tag}", tools=tools, messages=HISTORY)
    assert not answer["accepted"]
    assert check("It is <b>5</b>, a < b", tools=tools, messages=HISTORY)["complete"]


def test_without_tools_and_results_any_text_may_come() -> None:
    text = "<tool_response>\n5\n</tool_response> and <tools>"
    answer = check(text)
    assert answer["content"] == text


def test_tags_of_tools_are_no_text_where_the_prompt_has_them() -> None:
    assert not check("<tools>", tools=[TOOL])["accepted"]


def test_special_tokens_are_a_list_of_texts() -> None:
    assert check("Hi", special_tokens=["<|im_end|>"])["error"] is None
    assert "/special_tokens" in check("Hi", special_tokens="<|im_end|>")["error"]
