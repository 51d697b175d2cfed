"""Templates of models that do not exist: each is served in the format that it teaches, and the
turns that it writes are accepted and read back."""

from dataclasses import dataclass

import pytest

from benchmarks.inputs.rendered import TOOLS, Rendered, find_start, render_turns
from constrained.prompt.format_selection.selection import SelectedFormat, select_format
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.infer.detection import Origin
from grammars.parse.parser import parse
from grammars.turn import Choice, Policy, State
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn

_JSON = '{"name": "{{ f.name }}", "arguments": {{ f.arguments|tojson }}}'
_PYTHON = (
    "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v|tojson }}"
    "{% if not loop.last %}, {% endif %}{% endfor %})"
)


def each(call: str, between: str = "") -> str:
    """The text of all calls of a message; `f` is the function of one."""
    separator = "{% if not loop.last %}" + between + "{% endif %}"
    loop = "{% for c in m.tool_calls %}{% set f = c.function %}"
    return loop + call + separator + "{% endfor %}"


def sketch(calls: str, *, told: str = "", content: str = "{{ m.content or '' }}") -> str:
    """A template with tools in front, and a header and an end for each message.

    Args:
        calls: writes the calls of a message.
        told: what the prompt says of them.
        content: writes the text of a message.
    """
    tools = "{% if tools %}<|tools|>" + told + "{{ tools|tojson }}<|eot|>{% endif %}"
    message = "<|{{ m.role }}|>" + content + "{% if m.tool_calls %}" + calls + "{% endif %}<|eot|>"
    prompt = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    return tools + "{% for m in messages %}" + message + "{% endfor %}" + prompt


HEADER_GOES_ON = (
    "{% if tools %}<|im_start|>tools\n{{ tools|tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}{% if m.content %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% if m.tool_calls %}<|im_start|>assistant to=functions\n["
    + each(_JSON, ", ")
    + "]<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
)
RECIPIENT = (
    "{% if tools %}<|system|>{{ tools|tojson }}<|end|>{% endif %}{% for m in messages %}"
    "{% if m.tool_calls %}"
    + each("<|assistant|>to={{ f.name }}\n{{ f.arguments|tojson }}<|end|>")
    + "{% else %}<|{{ m.role }}|>\n{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
INFERRED = {
    "arguments first, and spaces": sketch(
        each('<do>{ "arguments": {{ f.arguments|tojson }}, "name": "{{ f.name }}" }</do>')
    ),
    "spaces around colons": sketch(
        each('<do>{ "tool" : "{{ f.name }}", "input" : {{ f.arguments|tojson }} }</do>', "\n")
    ),
    "calls that are indented": sketch(" " * 20 + each("<do>" + _JSON + "</do>", "\n" + " " * 20)),
    "calls that are indented, without content": sketch(
        " " * 20 + each("<do>" + _JSON + "</do>"),
        content="{% if not m.tool_calls %}{{ m.content or '' }}{% endif %}",
    ),
    "calls dumped as they come": sketch("<|do|>{{ m.tool_calls|tojson }}<|/do|>"),
    "calls dumped in front of nothing": sketch("{{ m.tool_calls|tojson }}"),
    "the id behind a function": sketch(
        each('<do>{"function": ' + _JSON + ', "id": "{{ c.id }}"}</do>')
    ),
    "the name in a tag": sketch(
        each(
            "<act {{ f.name }}>{% for k, v in f.arguments.items() %}\n  - {{ k }} <- {{ v|tojson }}"
            "{% endfor %}\n</act>"
        )
    ),
    "arguments in a string": sketch(
        each('<do>{"name": "{{ f.name }}", "arguments": {{ f.arguments|tojson|tojson }}}</do>')
    ),
    "lines of keys": sketch(
        each("<do>\nname: {{ f.name }}\narguments: {{ f.arguments|tojson }}\n</do>\n")
    ),
    "attributes": sketch(
        "<dos>\n"
        + each(
            '<do name="{{ f.name }}">{% for k, v in f.arguments.items() %}<arg key="{{ k }}">'
            "{{ v if v is string else v|tojson }}</arg>{% endfor %}</do>\n"
        )
        + "</dos>"
    ),
    "a list in Python": sketch("[" + each(_PYTHON, ", ") + "]", content="{{ m.content }}"),
    "lines of Python": sketch("<|py|>" + each(_PYTHON, "\n") + "<|/py|>"),
    "the header goes on": HEADER_GOES_ON,
    "a header for each call": RECIPIENT,
}
BROKEN = {
    "Python without quotes": (
        sketch(
            "[" + each(_PYTHON.replace("v|tojson", "v"), ", ") + "]",
            told="Write [function(key1=value1, key2=value2), other(key=value)]. ",
        ),
        Origin.SHOWN,
        "[get_weather(city='Zürich', days=1), get_weather(city='Rome', days=2)]",
    ),
    "only the first is opened": (
        sketch("<do>\n" + each(_JSON + "\n</do>", " ")),
        Origin.INFERRED,
        '<do>\n{"name": "get_weather", "arguments": {"city": "Zürich", "days": 1}}\n</do> '
        '<do>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}\n</do>',
    ),
}


@dataclass(frozen=True)
class Teaching:
    """A format after the prompt of its template."""

    selected: SelectedFormat
    state: State

    def check(self, turn: Rendered) -> None:
        """The grammar takes the turn, and reading gives what the template has written."""
        format = self.selected.format
        tools = read_tools(TOOLS)
        text = turn.text.rstrip()
        for end in format.ends:
            text = text.removesuffix(end)
        functions = [call["function"] for call in turn.message.get("tool_calls", ())]
        read = parse(text, format, tools, self.state)
        assert [(call.name, call.arguments) for call in read.calls] == [
            (function["name"], function["arguments"]) for function in functions
        ]
        wanted = "" if "content" in turn.lost else turn.message["content"]
        assert read.content.strip() == wanted
        for choice in (Choice.AUTO, Choice.REQUIRED):
            if choice is Choice.AUTO or (functions and not wanted):
                grammar = build_turn(format, tools, Policy(choice), self.state)
                assert Completer(grammar).complete(text) == ""


def select(source: str) -> Teaching:
    selected = select_format(ChatTemplate(source, name="invented"))
    state = find_start(selected)
    assert state is not None
    return Teaching(selected, state)


@pytest.mark.parametrize("name", INFERRED)
def test_what_the_template_writes_is_enforced(name: str) -> None:
    teaching = select(INFERRED[name])
    assert teaching.selected.origin is Origin.INFERRED
    is_bare = teaching.selected.format.bare is not None
    turns = [t for t in render_turns(teaching.selected) if not (is_bare and "and" in t.kind)]
    assert len(turns) >= 3
    for turn in turns:
        teaching.check(turn)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_meant_is_enforced_where_calls_are_malformed(name: str) -> None:
    source, origin, calls = BROKEN[name]
    teaching = select(source)
    assert teaching.selected.origin is origin
    turns = {turn.kind: turn for turn in render_turns(teaching.selected)}
    assert calls in turns["two calls"].text
    for kind in ("content", "one call", "two calls"):
        teaching.check(turns[kind])


def test_white_space_in_front_of_a_block_is_bounded_by_what_the_template_writes() -> None:
    for name, most in (("calls that are indented", 20), ("spaces around colons", 4)):
        teaching = select(INFERRED[name])
        tools = read_tools(TOOLS)
        grammar = build_turn(teaching.selected.format, tools, Policy(Choice.REQUIRED), State())
        completer = Completer(grammar)
        assert completer.complete(" " * most) is not None
        assert completer.complete(" " * (most + 1)) is None
