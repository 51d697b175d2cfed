"""Templates whose own calls are malformed: what is meant is taken from the prompt, or refused."""

from typing import Any

import pytest

from constrained.prompt.format_selection.selection import SelectedFormat, select_format
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import Origin
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from tests.agreement.matching import Masked

SOURCE = """
{%- if tools -%}
[system]Tools: {{ tools | tojson }}. TOLD<eot>
{%- endif -%}
{%- for m in messages -%}
[{{ m.role }}]{{ m.content or '' }}
{%- for c in m.tool_calls or [] -%}
{%- set name = c.function.name -%}
{%- set arguments = c.function.arguments | tojson %}
WRITTEN
{%- endfor -%}
<eot>
{%- endfor -%}
{%- if add_generation_prompt %}[assistant]{% endif -%}
"""
TOLD = "Write <tool_call>{...}</tool_call>."
BODY = """{"name": "{{ name }}", "arguments": {{ arguments }}}"""
UNQUOTED = """{"name": "{{ name }}, "arguments": {{ arguments }}}"""
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = (Tool("f", lower(SCHEMA)),)
CALL = ToolCall("f", {"a": "x"})


def select(written: str, told: str = "") -> SelectedFormat:
    source = SOURCE.replace("TOLD", told).replace("WRITTEN", written)
    return select_format(ChatTemplate(source, name="slip"))


@pytest.mark.parametrize(
    ("written", "slip"),
    [
        (f"<tool_call>\n{BODY}\n<tool_call>", "closed with '<tool_call>', which opens it"),
        (f"<tool_call>\n{BODY}", "opens <tool_call> and never closes it"),
        (f"<tool_call>\n{UNQUOTED}\n</tool_call>", "a quote is missing"),
        (f"<tool_call>\n{BODY[:-1]}\n</tool_call>", "a bracket, '{' or '}', is missing"),
        (f"<tool_call>\n{BODY}\n</toolcall>", "opens <tool_call> and never closes it"),
        (f"<tool_call>\n{BODY}\n</tool_call", "the tag '</tool_call' has no end"),
    ],
)
def test_the_known_format_that_the_prompt_shows_is_meant(written: str, slip: str) -> None:
    selected = select(written, TOLD)
    assert (selected.format.name, selected.origin) == ("hermes", Origin.REGISTERED)
    assert slip in selected.notice
    for calls in [(CALL,), (CALL, CALL)]:
        text = render(Turn(calls=calls), selected.format, TOOLS)
        assert parse(text, selected.format, TOOLS) == Turn(calls=calls)
        for choice in (Choice.AUTO, Choice.REQUIRED):
            masked = Masked(selected.format, TOOLS, Policy(choice), State(), False)
            assert masked.accepts(text)
            assert not masked.accepts(text.removesuffix("</tool_call>"))
    assert "Write <tool_call>" in selected.template.render(ask(), [TOOL])
    assert '[assistant]<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call><eot>' in (
        selected.template.render(ask(), [TOOL])
    )


TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA}}


def ask() -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": "x"}}}
    return [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "Gone."},
    ]


@pytest.mark.parametrize(
    ("written", "told", "slip"),
    [
        (f"<act>{BODY}<act>", "", "closed with '<act>', which opens it"),
        (f"<act>{BODY}", "Write <act>...</act>.", "never closes it, but the prompt shows '</act>'"),
        (f"<act>{BODY}</acts>", "Write <act>...</act>.", "opens <act> and never closes it"),
        (f"<act>{UNQUOTED}</act>", "", "a quote is missing"),
        (f"<tool_call>\n{BODY}\n<tool_call>", "", "closed with '<tool_call>', which opens it"),
        (f"<tool_call>\n{UNQUOTED}\n</tool_call>", "", "a quote is missing"),
        (
            "<act><name>{{ name }}<args>{{ arguments }}</args></act>",
            "Write <act><name>...</name><args>...</args></act>.",
            "a call opens <name> and never closes it",
        ),
    ],
)
def test_without_such_a_prompt_the_format_is_the_generic_one(
    written: str, told: str, slip: str
) -> None:
    selected = select(written, told)
    assert selected.origin is Origin.GENERIC
    assert slip in selected.notice


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (f"<act>{BODY}", "Write <act> and the call."),  # it stands alone
        (f"<act>{BODY}</act>", "Write <act>...</act>."),
        (f"<act>{BODY}</acts>", ""),  # readable, and nothing tells otherwise
        ("<act name='{{ name }}'>{{ arguments }}</act>", ""),
        ("<act>{{ name }}<sep>{{ arguments }}</act>", ""),
    ],
)
def test_calls_without_a_slip_are_inferred(written: str, told: str) -> None:
    assert select(written, told).origin is Origin.INFERRED
