"""Ids of calls in the form that the model writes, where a template writes the ids of messages."""

from typing import Any

import pytest

from constrained.errors import TemplateError
from constrained.prompt.format_selection.counted_ids import find_id_pattern
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.formats import HERMES, KIMI_K2

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
        ([[(None, "f"), ("", "g"), ("call_1", "h")]], "f:0 g:1 h:2"),
        ([[("call_1", "f"), ("call_1", "g")], [("call_1", "f")]], "f:0 g:1 f:2"),
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
    assert results == written


def test_messages_after_calls_without_ids() -> None:
    template = select_format(ChatTemplate(SOURCE)).template
    question = {"role": "user", "content": "Hi"}
    messages = [question, *write_turn((None, "f"), (None, "g")), question]
    for message in messages:
        message.pop("tool_call_id", None)
    assert find_ids(template.render(messages))[1] == ["functions.f:0", "functions.g:1"]


def test_results_in_another_order_keep_their_calls() -> None:
    template = select_format(ChatTemplate(SOURCE)).template
    turn, first, second = write_turn(("call_1", "f"), ("call_2", "g"))
    written = template.render([{"role": "user", "content": "Hi"}, turn, second, first])
    assert find_ids(written)[1] == ["functions.g:1", "functions.f:0"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"tool_calls": ["f"]}, "/messages/1/tool_calls/0"),
        ({"tool_calls": [{"id": [1], "function": {"name": "f"}}]}, "/messages/1/tool_calls/0/id"),
        ({"role": "tool", "tool_call_id": [1]}, "/messages/1/tool_call_id"),
    ],
)
def test_calls_and_ids_of_another_type_are_refused(change: Any, pointer: str) -> None:
    template = select_format(ChatTemplate(SOURCE)).template
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", **change}]
    with pytest.raises(TemplateError) as caught:
        template.render(messages)
    assert caught.value.where == pointer


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
