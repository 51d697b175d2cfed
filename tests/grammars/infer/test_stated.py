"""A prompt that shows how calls are written states their format."""

import ast
from contextlib import suppress

import pytest

from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import TemplateLimitError
from grammars.errors import DetectError
from grammars.infer.detection import Origin
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from tests.agreement.matching import Masked
from tests.found_formats import find_stated
from tests.templates import tool

TEMPLATE = """
{%- if tools %}[[system]]
You have these tools: {{ tools | tojson }}
STATED
[[end]]
{% endif -%}
{%- for m in messages -%}
[[{{ m.role }}]]
{{ m.content }}[[end]]
{% endfor -%}
{%- if add_generation_prompt %}[[assistant]]
{% endif -%}
"""
TOOLS = [Tool("f", lower({"type": "object", "properties": {"a": {"type": "integer"}}}))]
ONE = ToolCall("f", {"a": 1})
TWO = ToolCall("f", {"a": 2})


def state(example: str) -> ChatTemplate:
    """A template whose instructions have the example."""
    return ChatTemplate(TEMPLATE.replace("STATED", "{% raw %}" + example + "{% endraw %}"))


@pytest.mark.parametrize(
    ("example", "one", "two"),
    [
        (
            'Answer so:\n<act>\n{"name": <tool-name>, "arguments": <args-object>}\n</act>',
            '<act>\n{"name": "f", "arguments": {"a": 1}}\n</act>',
            '<act>\n{"name": "f", "arguments": {"a": 1}}\n</act>\n'
            '<act>\n{"name": "f", "arguments": {"a": 2}}\n</act>',
        ),
        (
            'A list:\n```json\n[\n  {"tool": "NAME", "parameters": {"k": "value"}},\n  ...\n]\n```',
            '[{"tool": "f", "parameters": {"a": 1}}]',
            '[{"tool": "f", "parameters": {"a": 1}}, {"tool": "f", "parameters": {"a": 2}}]',
        ),
        (
            '[CALLS][{"name":"some_tool","args":{"x":"y"}}][/CALLS]',
            '[CALLS][{"name":"f","args":{"a":1}}][/CALLS]',
            None,
        ),
        (
            'Use {"function": "$FUNCTION", "input": {...}} and nothing else.',
            '{"function": "f", "input": {"a": 1}}',
            None,
        ),
        (
            "A JSON object in tags:\n<act>\n{'args': <args-dict>, 'tool': <tool-name>}\n</act>",
            '<act>\n{"tool": "f", "args": {"a": 1}}\n</act>',
            '<act>\n{"tool": "f", "args": {"a": 1}}\n</act>\n'
            '<act>\n{"tool": "f", "args": {"a": 2}}\n</act>',
        ),
        (
            r"Write [{\"name\": \"tool1\", \"arguments\": {\"key\": \"value\"}}, ... (more calls)]",
            '[{"name": "f", "arguments": {"a": 1}}]',
            '[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 2}}]',
        ),
        (
            "If a tool helps, write only <|act|> followed by a JSON list of tools used. Be brief.",
            '<|act|>[{"name": "f", "arguments": {"a": 1}}]',
            '<|act|>[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 2}}]',
        ),
        (
            'Each call is <act>, followed by a JSON object with "tool" and "args", and </act>.',
            '<act>{"tool": "f", "args": {"a": 1}}</act>',
            '<act>{"tool": "f", "args": {"a": 1}}</act>\n'
            '<act>{"tool": "f", "args": {"a": 2}}</act>',
        ),
        (
            'Formatted as calltools[{"name": [function name], "arguments": [object as JSON]}, ...]',
            'calltools[{"name": "f", "arguments": {"a": 1}}]',
            'calltools[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 2}}]',
        ),
        (  # a type is no marker
            'Return List[{"name": NAME, "arguments": {}}]',
            '[{"name": "f", "arguments": {"a": 1}}]',
            '[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 2}}]',
        ),
        (  # the example tells more than the sentence
            '[ACT] followed by a JSON list of calls: [ACT][{"tool": "NAME", "args": {}}][/ACT]',
            '[ACT][{"tool": "f", "args": {"a": 1}}][/ACT]',
            None,
        ),
    ],
)
def test_an_example_states_the_format(example: str, one: str, two: str | None) -> None:
    found = find_stated(state(example).render)
    for text, calls in ((one, (ONE,)), (two, (ONE, TWO))):
        if text is None:
            continue
        assert render(Turn(calls=calls), found.format) == text
        assert parse(text, found.format, TOOLS) == Turn(calls=calls)
        for choice in (Choice.AUTO, Choice.REQUIRED):
            assert Masked(found.format, TOOLS, Policy(choice), State()).accepts(text)
    assert not Masked(found.format, TOOLS, Policy(Choice.REQUIRED), State()).accepts("Well.")
    reason = found.evidence[0].conclusion
    sign = ast.literal_eval(reason.removeprefix("its prompt shows calls in the form "))
    assert sign in " ".join(example.split())


def test_the_calls_of_the_history_are_written_in_it() -> None:
    template = state('<act>\n{"name": <tool-name>, "arguments": <args-object>}\n</act>')
    selected = select_format(template)
    assert selected.origin is Origin.SHOWN
    assert "its prompt shows calls in the form '<act> {" in selected.notice
    function = {"name": "f", "arguments": {"a": 1}}
    call = {"id": "a", "type": "function", "function": function}
    text = selected.template.render(
        [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [call]}],
        [tool("f", {"a": {"type": "integer"}})],
    )
    assert '<act>\n{"name": "f", "arguments": {"a": 1}}\n</act>[[end]]' in text


BARE_CALLS = """{%- for call in m.tool_calls or [] -%}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- if not loop.last %},{% endif %}{% endfor %}"""


@pytest.mark.parametrize(
    ("example", "call"),
    [
        (
            'calltools[{"name": [name], "arguments": [object]}, ...]',
            'calltools[{"name": "f", "arguments": {"a": 1}}]',
        ),
        (
            '<act>{"name": "x", "arguments": {}}</act>',
            '<act>{"name": "f", "arguments": {"a": 1}}</act>',
        ),
        ('{"name": "x", "arguments": {}}', '{"name": "f", "arguments": {"a": 1}}'),
        ("Use them.", '{"name": "f", "arguments": {"a": 1}}'),
    ],
)
def test_a_marker_in_the_prompt_counts_more_than_bare_calls_in_the_history(
    example: str, call: str
) -> None:
    written = state(example).source.replace("{{ m.content }}", "{{ m.content or '' }}" + BARE_CALLS)
    template = ChatTemplate(written)
    selected = select_format(template)
    is_stated = not call.startswith("{")
    assert selected.origin is (Origin.SHOWN if is_stated else Origin.INFERRED)
    assert ("without the marker" in selected.notice) == is_stated
    function = {"name": "f", "arguments": {"a": 1}}
    text = selected.template.render(
        [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]},
        ],
        [tool("f", {"a": {"type": "integer"}})],
    )
    assert f"{call}[[end]]" in text
    assert parse(call, selected.format, TOOLS) == Turn(calls=(ONE,))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("Use them well.", "shows no example of a call"),
        ('<act>{"name": "x", "arguments": {}} and so on', "shows no example of a call"),
        (
            'Either <a>{"name": "x", "arguments": {}}</a> or <b>{"name": "x", "arguments": {}}</b>',
            "in more than one form",
        ),
        (
            "Write <a> followed by a JSON list of calls. Or <b> followed by a JSON array of calls.",
            "in more than one form",
        ),
        ("Use <act>{'name': <name>, 'arguments': <args>}</act>", "shows no example of a call"),
        ("<|results|> followed by a JSON list of tool outputs", "shows no example of a call"),
        ("<|cite|> followed by a JSON list of pages", "shows no example of a call"),
        ('<act> followed by a JSON object with "what" and "how" of the call', "no example"),
        ("<act> followed by a JSON list of calls and <end>", "shows no example of a call"),
    ],
)
def test_what_states_no_format(example: str, message: str) -> None:
    with pytest.raises(DetectError, match=message):
        find_stated(state(example).render)
    assert select_format(state(example)).origin is Origin.GENERIC


def test_a_tool_or_a_message_states_nothing() -> None:
    always = '{"name": "x", "arguments": {}}'
    template = ChatTemplate("{% raw %}" + always + "{% endraw %}" + TEMPLATE)
    with pytest.raises(DetectError, match="shows no example"):
        find_stated(template.render)


@pytest.mark.parametrize(
    "filler",
    [
        "[ " * 20_000,
        '{"name": ' * 20_000,
        "{'args': {" * 20_000,
        "<a> followed by a JSON list " * 5_000,
        " " * 100_000,
        "," * 50_000,
    ],
)
def test_long_prompts_are_read_in_linear_time(filler: str) -> None:
    example = f'{filler}{{"name": "x", "arguments": {{}}}}{filler}'
    with suppress(DetectError, TemplateLimitError):  # it may be too long to be a template
        find_stated(state(example).render)
