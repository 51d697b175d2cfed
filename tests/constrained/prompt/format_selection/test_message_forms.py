"""Templates that take calls and results in messages of another form than OpenAI's."""

from typing import Any

import pytest

from constrained.inspect.replay.check import check_rows
from constrained.prompt.format_selection.message_forms import CallForm, MessageFormTemplate
from constrained.prompt.format_selection.selection import (
    SelectedFormat,
    select_format,
)
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import Origin
from tests.templates import tool

_PLAIN = "<|{{ m.role }}|>\n{{ m.content }}<|end|>"
_KNOWN = "{% elif m.role in ['user', 'assistant', 'system'] %}" + _PLAIN + "{% endif %}"


def sketch(messages: str, header: str = "<|assistant|>\n") -> str:
    """A template with tools in front; `messages` writes one message."""
    tools = "{% if tools %}<|system|>{{ tools|tojson }}<|end|>{% endif %}"
    prompt = "{% if add_generation_prompt %}" + header + "{% endif %}"
    return tools + "{% for m in messages %}" + messages + "{% endfor %}" + prompt


NAMED_IN_A_FIELD = sketch(
    "{% set role = m['role'] %}{% set meta = m.get('metadata', '') %}"
    "{% if role == 'assistant' and meta %}<|assistant|>{{ meta }}\n{{ m.content }}"
    "{% elif role == 'assistant' %}<|assistant|>\n{{ m.content }}"
    "{% elif role == 'observation' %}<|observation|>\n{{ m.content }}"
    "{% else %}<|{{ role }}|>\n{{ m.content }}{% endif %}",
    "<|assistant|>",
)
RECIPIENT = sketch(
    "{% if m.role == 'assistant' and m.recipient %}<|assistant|>\n<|to|>{{ m.recipient }}<|args|>"
    "{{ m.content }}<|end|>{% elif m.role == 'environment' %}<|env|>{{ m.content }}<|end|>" + _KNOWN
)
FUNCTION_CALL = sketch(
    "{% if m['role'] == 'assistant' and 'function_call' in m %}<|assistant|>\n{{ m['content'] }}"
    "<call>{{ m['function_call']['name'] }}:{{ m['function_call']['arguments'] }}</call><|end|>"
    "{% elif m['role'] == 'function' %}<|function|>{{ m['name'] }}={{ m.content }}<|end|>"
    "{% else %}" + _PLAIN + "{% endif %}"
)
ACTIONS = sketch(
    "{% if m.role == 'assistant' %}<|assistant|>\n{{ m.content }}"
    "{% for a in m.get('actions', []) %}"
    '<act tool="{{ a.name }}">{% for k, v in a.arguments.items() %}<p n="{{ k }}">'
    "{{ v if v is string else v|tojson }}</p>{% endfor %}</act>{% endfor %}<|end|>"
    "{% elif m.role == 'observe' %}<|observe|>{{ m.content }}<|end|>" + _KNOWN
)
CALL_ROLE = sketch(
    "{% if m.role == 'tool_call' %}<|assistant|>\n<tool_call>\n{{ m.content }}\n</tool_call><|end|>"
    "{% elif m.role == 'tool_response' %}<|user|>\n<r>{{ m.content }}</r><|end|>" + _KNOWN
)
TEMPLATES = {
    "metadata": (NAMED_IN_A_FIELD, CallForm.NAME, "metadata", "observation"),
    "recipient": (RECIPIENT, CallForm.NAME, "recipient", "environment"),
    "function_call": (FUNCTION_CALL, CallForm.CALL, "function_call", "function"),
    "actions": (ACTIONS, CallForm.CALLS, "actions", "observe"),
    "tool_call": (CALL_ROLE, CallForm.ROLE, "tool_call", "tool_response"),
}
ONLY_RESULTS = sketch(
    "{% if m.role == 'observation' %}<|observation|>\n{{ m.content }}<|end|>" + _KNOWN
)
WEATHER = tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}})
USER: dict[str, Any] = {"role": "user", "content": "How is the weather?"}
ARGUMENTS = {"city": 'Zürich "W"', "days": 3}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": ARGUMENTS},
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "It rains."}


def select(source: str) -> SelectedFormat:
    return select_format(ChatTemplate(source))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_field_and_the_role_are_found(name: str) -> None:
    source, form, word, role = TEMPLATES[name]
    selected = select(source)
    assert selected.origin is Origin.INFERRED
    assert isinstance(selected.template, MessageFormTemplate)
    message_form = selected.template.message_form
    assert (message_form.call_form, message_form.word, message_form.result_role) == (
        form,
        word,
        role,
    )
    assert repr(word) in selected.notice


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, "") for name in TEMPLATES),
        # In the others a call after content is a turn of its own.
        ("metadata", "I look it up."),
        ("actions", "I look it up."),
    ],
)
def test_what_the_template_writes_is_accepted_and_read_back(name: str, content: str) -> None:
    source = TEMPLATES[name][0]
    template = select(source).template
    asked = {"role": "assistant", "content": content, "tool_calls": [CALL]}
    prompt = template.render([USER], [WEATHER])
    whole = template.render([USER, asked], [WEATHER], add_generation_prompt=False)
    assert whole.startswith(prompt)
    row = {"template": source, "tools": [WEATHER], "messages": [USER], "text": whole[len(prompt) :]}
    (answer,) = check_rows([row])
    assert answer["accepted"], answer
    assert answer["complete"], answer
    (call,) = answer["tool_calls"]
    assert (call["name"], call["arguments"]) == ("get_weather", ARGUMENTS)
    assert answer["content"].strip() == content


@pytest.mark.parametrize("name", TEMPLATES)
def test_results_are_in_the_prompt(name: str) -> None:
    template = select(TEMPLATES[name][0]).template
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    prompt = template.render([USER, asked, RESULT], [WEATHER])
    assert "It rains." in prompt
    assert "get_weather=It rains." in prompt or name != "function_call"


def test_a_role_of_results_is_none_of_calls() -> None:
    selected = select(ONLY_RESULTS)
    assert selected.origin is Origin.GENERIC
    assert "no field or role that the template reads holds a call" in selected.notice
