"""Templates that fail on legal schemas get simpler ones; all others get what they got before."""

import copy
from typing import Any

import pytest

from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import TemplateError
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from constrained.prompt.template import chat_template as templates
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.simplify import simplify_tools
from constrained.prompt.template.special_tokens import render_prompt
from tests.real_templates import real_templates
from tests.templates import tool

USER = [{"role": "user", "content": "Hi"}]
HERMES_2 = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"
HERMES_3 = "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"
COMMAND_R = "CohereForAI-c4ai-command-r-plus-tool_use"
NULLABLE = {"type": ["string", "null"], "description": "D."}
REF = {"$ref": "#/$defs/A"}
DEFS = {"$defs": {"A": {"type": "object", "properties": {"next": REF}}}}
RICH = {
    "list": tool("f", {"a": NULLABLE}),
    "null": tool("f", {"a": {"type": "null"}}),
    "any": tool("f", {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}),
    "one": tool("f", {"a": {"oneOf": [NULLABLE, {"type": "integer"}]}}),
    "all": tool("f", {"a": {"allOf": [NULLABLE, {"minLength": 1}]}}),
    "enum": tool("f", {"a": {"enum": ["x", 1, None]}}),
    "const": tool("f", {"a": {"const": "x"}}),
    "ref": tool("f", {"a": REF}, **DEFS),
    "broken ref": tool("f", {"a": {"$ref": "#/nowhere"}, "b": {"$ref": "other.json"}}),
    "nested": tool("f", {"a": {"type": "object", "properties": {"b": NULLABLE}}}),
    "items": tool("f", {"a": {"type": "array", "items": NULLABLE}, "b": {"type": "array"}}),
    "true": tool("f", {"a": True}),
    "bare": {"type": "function", "function": {"name": "f"}},
}


def of(tools: list[Any]) -> list[dict[str, Any]]:
    """The schema of the parameter `a`, in each step."""
    return [step[0]["function"]["parameters"]["properties"]["a"] for step in simplify_tools(tools)]


@pytest.mark.parametrize("name", [HERMES_2, HERMES_3, COMMAND_R])
@pytest.mark.parametrize("case", RICH)
def test_legal_schemas_are_rendered(name: str, case: str) -> None:
    template, given = real_templates()[name], [copy.deepcopy(RICH[case])]
    text = template.render(USER, given)
    assert "f" in text
    assert given == [RICH[case]]  # the caller's data stay as they are
    assert render_prompt(template, USER, given, markers=["<|im_end|>"]).text == text


@pytest.mark.parametrize("keyword", ["additionalProperties", "minProperties", "examples"])
def test_keywords_are_not_taken_for_properties(keyword: str) -> None:
    source = """{% macro show(properties) %}{% for key, value in properties | dictsort %}
        {%- if key not in ["type", "properties", "description"] %}
            {{- key }} {{ value.get("type") }};{{ show(value.get("properties", value)) }}
        {%- endif %}{% endfor %}{% endmacro %}
        {{- show(tools[0].function.parameters.properties) }}"""
    open_object = {"type": "object", "description": "D.", keyword: 1}
    text = ChatTemplate(source).render(USER, [tool("f", {"a": open_object})])
    assert text == "a object;"


def test_the_prompt_shows_the_first_type() -> None:
    for name in (HERMES_2, HERMES_3):
        text = real_templates()[name].render(USER, [RICH["list"]])
        assert "a(str): D." in text
    text = real_templates()[COMMAND_R].render(USER, [RICH["list"]])
    assert "def f(a: str)" in text


def test_no_prompt_changes_that_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [[case] for case in RICH.values()]
    after = {n: [_try(t, given) for given in cases] for n, t in real_templates().items()}
    monkeypatch.setattr(templates, "simplify_tools", lambda _: iter(()))
    for name, template in real_templates().items():
        before = [_try(template, given) for given in cases]
        assert [b in (None, a) for b, a in zip(before, after[name], strict=True)] == [True] * 13
        assert None not in after[name], name


def _try(template: ChatTemplate, tools: list[Any]) -> str | None:
    try:
        return template.render(USER, tools)
    except TemplateError:
        return None


def test_the_first_error_is_told() -> None:
    source = "{{ tools[0].function.parameters.properties.a.nothing.at_all }}"
    with pytest.raises(TemplateError, match="no attribute 'nothing'"):
        ChatTemplate(source).render(USER, [RICH["list"]])


def test_a_template_is_not_asked_twice_for_nothing() -> None:
    described = {"type": "string", "description": "D."}
    plain = tool("f", {"a": described})
    plain["function"]["description"] = "F."
    assert list(simplify_tools([plain])) == []


@pytest.mark.parametrize(
    ("case", "last"),
    [
        ("list", {"type": "string", "description": "D."}),
        ("null", {"description": ""}),
        ("any", {"type": "integer", "description": ""}),
        ("one", {"type": "string", "description": ""}),
        ("all", {"type": "string", "minLength": 1, "description": ""}),
        ("enum", {"description": '(one of: "x", 1, null)'}),
        ("const", {"description": '(one of: "x")'}),
        ("true", {"description": ""}),
    ],
)
def test_the_simplest(case: str, last: Any) -> None:
    assert of([RICH[case]])[-1] == last


def test_references_are_followed_once() -> None:
    found = of([RICH["ref"]])[-1]
    inner = {"type": "object", "description": "", "additionalProperties": {}, "properties": {}}
    assert found["properties"] == {"next": inner}
    parameters = list(simplify_tools([RICH["ref"]]))[-1][0]["function"]["parameters"]
    assert "$defs" not in parameters
    assert of([RICH["broken ref"]])[-1]["type"] == "object"


def test_the_grammar_holds_the_schema_itself() -> None:
    compiler = Compiler(byte_vocabulary(), real_templates()[HERMES_3])
    turn = compiler.compile(Job(USER, [RICH["list"]], tool_choice="required"))
    assert turn.matcher
    for value in ('"x"', "null"):
        call = f'<tool_call>\n{{"name": "f", "arguments": {{"a": {value}}}}}\n</tool_call>'
        assert turn.matcher.fork().try_commit(list(call.encode())), value


@pytest.mark.parametrize("tools", [[1], [{"function": 1}], [{"function": {"parameters": 1}}]])
def test_what_is_no_tool(tools: list[Any]) -> None:
    list(simplify_tools(tools))
