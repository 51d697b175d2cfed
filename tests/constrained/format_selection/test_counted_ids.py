"""Ids of calls in the form that the model writes, where a template writes the ids of messages."""

from typing import Any

import pytest

from constrained.format_selection.counted_ids import find_id_pattern
from constrained.format_selection.selection import select_format
from constrained.template.chat_template import ChatTemplate
from grammars.formats.hermes import HERMES
from grammars.formats.kimi_k2 import KIMI_K2

SOURCE = (
    "{% for t in tools or [] %}{{ t|tojson }}{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% if m.role == 'tool' %}of {{ m.tool_call_id }}{% endif %}"
    "{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}"
    "<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments|tojson }}"
    "<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_turn(*calls: tuple[str | None, str]) -> list[dict[str, Any]]:
    """A turn with calls of these ids and tools, and their results."""
    written: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for id, name in calls:
        named = {} if id is None else {"id": id}
        written.append({**named, "type": "function", "function": {"name": name, "arguments": {}}})
        results.append({"role": "tool", "tool_call_id": id or "", "content": "1 "})
    return [{"role": "assistant", "content": "", "tool_calls": written}, *results]


def find_ids(text: str) -> tuple[list[str], list[str]]:
    """The ids of calls and of results in a prompt."""
    calls = [part.partition("<")[0] for part in text.split("<|tool_call_begin|>")[1:]]
    return calls, [part.partition("<")[0] for part in text.split("1 of ")[1:]]


@pytest.mark.parametrize(
    ("turns", "calls"),
    [
        ([[("call_8Kx2", "f"), ("call_9Ly3", "g")], [("call_1", "f")]], "f:0 g:1 f:2"),
        ([[(None, "f")]], "f:0"),
        ([[("functions.f:0", "f")], [("call_1", "f")]], "f:0 f:1"),
        ([[("functions.f:4", "f"), ("functions.g:5", "g")]], "f:4 g:5"),  # the model's own
    ],
)
def test_calls_of_the_history_are_numbered(turns: list[Any], calls: str) -> None:
    selected = select_format(ChatTemplate(SOURCE))
    assert selected.format.name == "kimi_k2"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    for turn in turns:
        messages += write_turn(*turn)
    written, results = find_ids(selected.template.render(messages))
    assert written == [f"functions.{call}" for call in calls.split()]
    if None not in [id for turn in turns for id, _ in turn]:
        assert results == written


def test_other_spellings_of_the_model_stay() -> None:
    selected = select_format(ChatTemplate(SOURCE))
    messages = [{"role": "user", "content": "Hi"}, *write_turn(("f:0", "f"))]
    assert find_ids(selected.template.render(messages))[0] == ["f:0"]


def test_a_template_that_writes_no_ids_is_left_alone() -> None:
    source = SOURCE.replace("{{ c.id }}", "functions.{{ c.function.name }}:{{ loop.index0 }}")
    source = source.replace("of {{ m.tool_call_id }}", "")
    selected = select_format(ChatTemplate(source))
    assert type(selected.template) is ChatTemplate


def test_only_ids_that_count_calls_have_a_pattern() -> None:
    assert find_id_pattern(KIMI_K2) == "functions.{name}:{index}"
    assert find_id_pattern(HERMES) == ""
