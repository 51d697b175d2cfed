"""How real templates write reasoning, and the state in which their prompts leave the model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.turn import Start, State
from grammars.wire.format import Format, Marker, Reasoning
from grammars.wire.formats import HERMES
from tests.found_formats import find_reasoning
from tests.real_templates import real_templates

FILE = Path(__file__).parents[2] / "data" / "start_states.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
SWITCHES: dict[str, dict[str, Any]] = {
    "unset": {},
    "on": {"enable_thinking": True, "thinking": True},
    "off": {"enable_thinking": False, "thinking": False},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Forecast",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Where"}},
        },
    },
}
# Neither a field, nor a prompt, nor the treatment of the history tells of reasoning.
SILENT = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "GigaChat3-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B",
    "Kimi-K2-Instruct",
    "LFM2-8B-A1B",
    "MiMo-VL",
    "MiniMax-M1",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen3-Coder",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.1",
    "meetkai-functionary-medium-v3.1",
    "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2",
    "unsloth-Apriel-1.5",  # asks for steps in words, and marks the answer
    "unsloth-mistral-Devstral-Small-2507",
}


def template_of(row: dict[str, Any]) -> ChatTemplate:
    return real_templates()[row["template"]]


def state_of(template: ChatTemplate, format: Format, text: str = "Hi", **kwargs: Any) -> State:
    """The state after a prompt that asks `text`."""
    opened, plain = (
        template.render(
            [{"role": "user", "content": text}], [TOOL], add_generation_prompt=on, **kwargs
        )
        for on in (True, False)
    )
    return find_state(opened, plain, format)


def test_the_table_is_about_all_templates() -> None:
    assert [row["template"] for row in ROWS] == list(real_templates())
    assert {row["template"] for row in ROWS if row["opener"] is None} == SILENT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["template"])
def test_the_block_and_the_state_behind_the_prompt(row: dict[str, Any]) -> None:
    template = template_of(row)
    block = find_reasoning(template.render)
    assert (block and block.opener.text) == row["opener"]
    assert (block and block.closer.text) == row["closer"]
    format = replace(HERMES, reasoning=block)
    for name, kwargs in SWITCHES.items():
        assert state_of(template, format, **kwargs).start == row[name], name
    for kwargs, state in row.get("kwargs", ()):
        assert state_of(template, format, **kwargs).start == state, kwargs


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["template"])
def test_what_the_user_says_does_not_change_the_state(row: dict[str, Any]) -> None:
    format = replace(HERMES, reasoning=find_reasoning(template_of(row).render))
    opener, closer = row["opener"] or "<think>", row["closer"] or "</think>"
    for text in (f"What is {opener}?", f"And {opener} {closer}", opener, closer):
        for name, kwargs in SWITCHES.items():
            assert state_of(template_of(row), format, text, **kwargs).start == row[name], name


def test_a_switch_in_the_text_of_the_user() -> None:
    template = real_templates()["NVIDIA-Nemotron-Nano-v2"]
    format = replace(HERMES, reasoning=find_reasoning(template.render))
    assert state_of(template, format, "/no_think").start is Start.CLOSED


@pytest.mark.parametrize(
    ("name", "pads"),
    [
        ("Qwen-Qwen3-0.6B", ("\n", "\n", "\n\n")),
        ("Qwen-QwQ-32B", ("\n", "\n", "\n\n")),  # known, not read: it drops every thought
        ("HuggingFaceTB-SmolLM3-3B", ("\n", "\n", "\n")),
        ("deepseek-ai-DeepSeek-V3.1", ("", "", "")),
        ("deepseek-ai-DeepSeek-V3.2", ("", "", "")),
        ("Bielik-11B-v3.0-Instruct", ("\n", "\n", "\n")),
        ("ByteDance-Seed-OSS", ("", "", "\n")),
        ("Apriel-1.6-15b-Thinker-fixed", ("\n", "\n", "\n")),
        ("google-gemma-4-31B-it", ("\n", "\n", "")),
        ("google-gemma-4-31B-it-interleaved", ("\n", "", "")),
        ("Kimi-K3", ("", "", "")),
    ],
)
def test_the_white_space_around_a_thought(name: str, pads: tuple[str, str, str]) -> None:
    block = find_reasoning(real_templates()[name].render)
    assert block is not None
    assert (block.pad_open, block.pad_close, block.after) == pads


def small(source: str) -> ChatTemplate:
    """A template whose assistant messages are `source`."""
    return ChatTemplate(
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}" + source + "{% else"
        " %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>"
        "{% endif %}"
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_a_block_in_any_field(field: str) -> None:
    source = "{% if m.FIELD %}<a>{{ m.FIELD }}\n</a> {% endif %}{{ m.content }}"
    block = Reasoning(Marker("<a>"), Marker("</a>"), "", "\n", " ")
    assert find_reasoning(small(source.replace("FIELD", field)).render) == block


@pytest.mark.parametrize(
    "source",
    [
        "{{ m.reasoning_content }}{{ m.content }}",  # after the header, as an answer is
        "to=me<|text|>{{ m.reasoning_content }}<|end|>to=user<|text|>{{ m.content }}",
        "Thought: {{ m.reasoning_content }} Answer: {{ m.content }}",
        "<a>{{ m.reasoning_content }} Answer: {{ m.content }}",
    ],
)
def test_a_thought_that_is_no_block(source: str) -> None:
    assert find_reasoning(small(source).render) is None


@pytest.mark.parametrize(
    ("source", "knows"),
    [
        ("{{ m.content.split('</think>')[-1] }}", True),
        ("{{ m.content if loop.last else m.content.split('</think>')[-1] }}", True),
        ("{{ m.content }}", False),
        ("", False),
    ],
)
def test_a_block_that_is_taken_out_of_the_history(source: str, knows: bool) -> None:
    block = find_reasoning(small(source).render)
    assert block == (HERMES.reasoning if knows else None)


@pytest.mark.parametrize(
    ("opened", "closer"),
    [
        ("<judge>", "</judge>"),
        ("<judge>\n", "</judge>"),
        ("[REASON]", "[/REASON]"),
        ("<|plan_start|>\n", "<|plan_end|>"),
        ("<|begin_plan|>", "<|end_plan|>"),
        ("<|START_PLAN|>", "<|END_PLAN|>"),
    ],
)
@pytest.mark.parametrize("drops", ["{{ m.content }}", "{{ m.content.split('</think>')[-1] }}"])
def test_a_block_of_any_tag_that_the_prompt_opens(opened: str, closer: str, drops: str) -> None:
    head = "{% for m in messages %}<|{{ m.role }}|>"
    tail = "{% endfor %}{% if add_generation_prompt %}<|assistant|>"
    template = ChatTemplate(head + drops + tail + opened + "{% endif %}")
    block = find_reasoning(template.render)
    assert block is not None
    assert (block.opener.text, block.closer.text) == (opened.strip(), closer)
    format = replace(HERMES, reasoning=block)
    assert state_of(template, format) == State(Start.OPEN)
    text = (
        f'Hm.{block.pad_close}{closer}{block.after}<tool_call>\n{{"name": "f", "arguments": {{}}}}'
    )
    turn = parse(f"{text}\n</tool_call>", format, [], State(Start.OPEN))
    assert (turn.reasoning, turn.content) == ("Hm.", "")
    # What the history writes in front of an answer, too, opens the answer.
    answers = ChatTemplate(head + opened + drops + tail + opened + "{% endif %}")
    assert find_reasoning(answers.render) in (None, HERMES.reasoning)


def test_kwargs_that_no_template_knows_change_nothing() -> None:
    unknown = {"an_unknown_switch": True, "another": {"a": [1, None]}}
    for name, template in real_templates().items():
        for given in (None, [TOOL]):
            messages = [{"role": "user", "content": "Hi"}]
            assert template.render(messages, given, **unknown) == template.render(
                messages, given
            ), name
