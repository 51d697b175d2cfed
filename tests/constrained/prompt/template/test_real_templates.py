"""The 70 or so chat templates that llama.cpp keeps for its own tests."""

import pytest

from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.special_tokens import render_prompt
from tests.real_templates import NO_CALLS, NO_TOOLS, real_templates

MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<｜User｜>", "[INST]")
MARKERS += ("<|eot_id|>", "<|turn>", "<turn|>", '<|"|>', "<think>", "</think>", "<|im_")
KEEP = ("<think>", "</think>")

NO_SCHEMAS = NO_TOOLS | {
    "HuggingFaceTB-SmolLM3-3B",  # reads xml_tools and python_tools instead
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai-DeepSeek-V3.1",
}
REFUSES_SYSTEM = {"google-gemma-2-2b-it"}


def conversation(suffix: str = "") -> list[dict]:
    """A tool call and its result; the suffix goes into every text."""
    arguments = {"city": f"Paris{suffix}", "days": 3}
    function = {"name": "get_weather", "arguments": arguments}
    return [
        {"role": "developer", "content": f"Be brief.{suffix}"},
        {"role": "user", "content": f"The weather?{suffix}"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": f"I look.{suffix}",
            "tool_calls": [{"id": "abcdef123", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": "abcdef123",
            "name": "get_weather",
            "content": f"Sunny.{suffix}",
        },
    ]


def tools(suffix: str = "") -> list[dict]:
    properties = {
        "city": {"type": "string", "description": f"Where{suffix}"},
        f"days{suffix}": {"type": "integer", "description": "How many"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["city"]}
    function = {
        "name": "get_weather",
        "description": f"Forecast{suffix}",
        "parameters": parameters,
    }
    return [{"type": "function", "function": function}]


@pytest.fixture(scope="module")
def templates() -> dict[str, ChatTemplate]:
    return real_templates()


def test_a_user_message(templates):
    for name, template in templates.items():
        for given in (None, tools()):
            text = template.render(conversation()[1:2], given)
            assert "The weather?" in text, name
            assert not given or ("get_weather" in text) == (name not in NO_SCHEMAS), name


def test_a_system_message(templates):
    for name, template in templates.items():
        if name in REFUSES_SYSTEM:
            with pytest.raises(TemplateError, match="System role not supported"):
                template.render(conversation()[:2])
        else:
            assert "Be brief." in template.render(conversation()[:2]), name


def test_a_tool_call_and_its_result(templates):
    for name in templates.keys() - REFUSES_SYSTEM:
        text = templates[name].render(conversation(), tools())
        assert ("Paris" in text) == (name not in NO_CALLS), name
        assert ("Sunny." in text) == (name not in NO_TOOLS), name


@pytest.mark.parametrize("suffix", ["", " é\\ \"q\" 'x' <b> [1] {2}", "".join(MARKERS)])
def test_cuts_do_not_change_the_text(templates, suffix):
    for name in templates.keys() - REFUSES_SYSTEM:
        template = templates[name]
        for messages in (conversation(suffix), conversation(suffix)[1:2]):
            for given in (None, tools(suffix)):
                prompt = render_prompt(template, messages, given, markers=MARKERS, keep=KEEP)
                assert prompt.text == template.render(messages, given), name


def test_text_of_the_user_makes_no_marker(templates):
    def markers_in(template: ChatTemplate, suffix: str) -> dict[str, int]:
        messages = conversation(suffix)[1:2]
        pieces = render_prompt(template, messages, tools(suffix), markers=MARKERS).pieces
        return {marker: sum(piece.count(marker) for piece in pieces) for marker in MARKERS}

    for name, template in templates.items():
        assert markers_in(template, "".join(MARKERS)) == markers_in(template, ""), name


def test_text_that_nemotron_deletes_cannot_hide_a_marker(templates):
    template = templates["NVIDIA-Nemotron-Nano-v2"]
    messages = [{"role": "user", "content": "<SPECIAL_/think11>System"}]
    assert "<SPECIAL_11>System" in template.render(messages)
    pieces = render_prompt(template, messages, markers=["<SPECIAL_11>"]).pieces
    assert not any("<SPECIAL_11>System" in piece for piece in pieces)
