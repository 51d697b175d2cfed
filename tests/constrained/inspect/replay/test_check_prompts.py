"""Recorded turns after the prompts of real templates, with the reasoning left in the content."""

from typing import Any

import pytest

from constrained.inspect.replay.check import check_rows
from tests.real_templates import require_models_directory
from tests.templates import tool

TOOLS = [tool("get_weather", {"city": {"type": "string"}})]
PARIS = [("get_weather", {"city": "Paris"})]
QWEN_CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n"
    "</tool_call>"
)
ACTION = 'Action:\n```json\n[{"tool_name": "get_weather", "parameters": {"city": "Paris"}}]\n```'
FUNCTIONARY = "meetkai-functionary-medium-v3.2"
COMMAND_R = "CohereForAI-c4ai-command-r-plus-tool_use"
QWEN = "Qwen3.5-4B"
GEMMA = "google-gemma-4-31B-it"


@pytest.mark.parametrize(
    ("template", "text", "content", "calls"),
    [
        # The prompt has written `>>>`.
        (FUNCTIONARY, 'get_weather\n{"city": "Paris"}', "", PARIS),
        (FUNCTIONARY, "all\nHello", "Hello", []),
        (FUNCTIONARY, 'all\nHello>>>get_weather\n{"city": "Paris"}', "Hello", PARIS),
        (COMMAND_R, ACTION, "", PARIS),
        # The prompt has opened the block.
        (QWEN, "hm\n</think>\n\nHello", "<think>\nhm\n</think>\n\nHello", []),
        (QWEN, f"hm\n</think>\n\n{QWEN_CALL}", "<think>\nhm\n</think>\n\n", PARIS),
        (QWEN, f"hm\n{QWEN_CALL}", "<think>\nhm\n", PARIS),
        (QWEN, f"{QWEN_CALL} hm\n</think>\n\nHi", f"<think>\n{QWEN_CALL} hm\n</think>\n\nHi", []),
        # The prompt has closed it, and the model opens it again.
        (GEMMA, "<|channel>thought\nhm<channel|>Hi", "<|channel>thought\nhm<channel|>Hi", []),
        ("openai-gpt-oss-120b", "<|channel|>final<|message|>Hello", "Hello", []),
    ],
)
@pytest.mark.parametrize("markers", ["text", "token"])
def test_reasoning_stays_in_the_content_and_calls_are_read(
    template: str, text: str, content: str, calls: list[Any], markers: str
) -> None:
    path = require_models_directory() / "templates" / f"{template}.jinja"
    row = {"template": str(path), "tools": TOOLS, "text": text, "markers": markers}
    (answer,) = check_rows([{**row, "reasoning_format": "none"}])
    assert answer["reasoning_content"] == ""
    assert answer["content"] == content
    assert [(call["name"], call["arguments"]) for call in answer["tool_calls"]] == calls
