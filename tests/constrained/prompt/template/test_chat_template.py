import copy
import json
import types
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from constrained.errors import TemplateError
from constrained.prompt.messages import normalise
from constrained.prompt.template.chat_template import RESERVED, ChatTemplate, check_kwargs
from constrained.prompt.template.special_tokens import Prompt, find_free_characters, render_prompt

USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")


def call(arguments, content=None):
    function = {"name": "get_weather", "arguments": arguments}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def render(source, messages=(USER,), tools=None, **kwargs):
    return ChatTemplate(source).render(messages, tools, **kwargs)


def refusal(source, messages=(USER,), tools=None, **kwargs):
    with pytest.raises(TemplateError) as info:
        render(source, messages, tools, **kwargs)
    return info.value


def test_the_generation_prompt_is_asked_for_unless_told_otherwise():
    turn = "<|im_start|>user\nhi<|im_end|>\n"
    assert render(CHATML) == turn + "<|im_start|>assistant\n"
    assert render(CHATML, add_generation_prompt=False) == turn


def test_blocks_are_trimmed_as_in_transformers():
    assert render("  {% if true %}\nx\n  {% endif %}\ny") == "x\ny"


def test_loop_controls_and_generation_tags():
    source = (
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}"
        "{% generation %}{% set a = i %}{{ a }}{% endgeneration %}{% endfor %}{{ a }}"
    )
    assert render(source) == "01"


def test_variables_and_tokens():
    template = ChatTemplate("{{ bos_token }}{{ x }}{{ documents }}{{ eos_token }}", bos_token="<s>")
    assert template.render([USER], x=1) == "<s>1None"


def test_kwargs_reach_the_template_as_they_are():
    kwargs = {"a": True, "b": None, "c": [1.5, {"d": "é\n"}], "messages_": "", "strftime": 0}
    for name, value in kwargs.items():
        source = "{{ " + name + " is defined }} {{ " + name + " | tojson }}"
        written = "True " + json.dumps(value, ensure_ascii=False)
        assert render(source, **kwargs) == written
        assert prompt(source, [USER], **kwargs).text == written


def test_tools_are_none_if_there_are_none():
    assert render("{{ tools is none }}", tools=[]) == "True"
    assert render("{{ tools[0].function.name }}", tools=[TOOL]) == "get_weather"


def test_a_template_that_loops_over_no_tools():
    assert render("{% for t in tools %}x{% endfor %}ok") == "ok"


def test_functions_and_datetime_of_firefunction():
    source = "{{ functions }} {{ datetime }}"
    assert render(source, tools=[TOOL], datetime="now") == json.dumps([TOOL], indent=2) + " now"
    assert render(source).startswith(" ")
    assert render("{{ functions is defined }}", tools=[TOOL]) == "False"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{'a': 'é<&>'} | tojson", '{"a": "é<&>"}'),
        ("'é' | tojson(ensure_ascii=true)", '"\\u00e9"'),
        ("[1] | tojson(indent=1)", "[\n 1\n]"),
        ("{'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':'))", '{"a":2,"b":1}'),
        ("nothing | tojson", "null"),
        ("messages | map(attribute='role') | tojson", '["user"]'),
        ("messages[0].items() | tojson", '[["role", "user"], ["content", "hi"]]'),
        ("('[1, 2]' | from_json)[1]", "2"),
        ("strftime_now('%%')", "%"),
    ],
)
def test_functions_of_templates(expression, expected):
    assert render("{{ " + expression + " }}") == expected


def test_what_is_not_json_cannot_be_written():
    assert "not iterable" in refusal("{{ namespace | tojson }}").message


def test_appending_to_a_list():
    assert render("{% set l = [] %}{{ l.append(1) or l }}") == "[1]"


def test_the_data_of_the_caller_are_not_changed():
    source = (
        "{% set _ = messages.append(1), messages[0].update(a=1), tools[0].clear(),"
        " x.append(1), messages[1].tool_calls[0].function.arguments.update(a=2) %}ok"
    )
    data = [[USER, call({"a": 1})], [TOOL], [0]]
    before = copy.deepcopy(data)
    assert ChatTemplate(source).render(data[0], data[1], x=data[2]) == "ok"
    assert data == before


def test_data_may_be_any_mappings_and_sequences():
    message = types.MappingProxyType({"role": "user", "content": ({"text": "a"},)})
    assert render("{{ messages[0].content }}", (message,)) == "[{'text': 'a'}]"


def test_arguments_are_objects():
    items = "messages[0].tool_calls[0].function.arguments | items"
    source = "{% for k, v in " + items + " %}{{ k }}={{ v }}{% endfor %}"
    for arguments in ({"a": 1}, '{"a": 1}'):
        assert render(source, [call(arguments)]) == "a=1"
    for arguments in ({}, "{}", "", None):
        assert render(source, [call(arguments)]) == ""


@pytest.mark.parametrize("arguments", ["[1]", "{", "3"])
def test_arguments_that_are_no_object_stay_as_they_are(arguments):
    assert (
        render("{{ messages[0].tool_calls[0].function.arguments }}", [call(arguments)]) == arguments
    )


def test_arguments_are_text_where_an_object_fails():
    source = "{{ '>' + messages[0].tool_calls[0].function.arguments }}"
    assert render(source, [call({"a": "é"})]) == '>{"a": "é"}'
    assert render(source, [call('{"a":1}')]) == '>{"a": 1}'
    assert render(source, [call("[1]")]) == ">[1]"


def test_only_objects_are_turned_into_text():
    both = [call({"a": 1}), call("[1]")]
    arguments = [f"messages[{i}].tool_calls[0].function.arguments" for i in (0, 1)]
    assert render("{{ " + " + ".join(arguments) + " }}", both) == '{"a": 1}[1]'


def test_the_first_of_two_failures_is_reported():
    source = "{{ raise_exception(messages[0].tool_calls[0].function.arguments is mapping) }}"
    assert "True" in refusal(source, [call({"a": 1})]).message


def test_arguments_are_not_written_as_python_writes_them():
    called = "{{ messages[-1].tool_calls[0].function.arguments }}"
    assert render(called, [call({"a": "it's", "b": None})]) == """{"a": "it's", "b": null}"""
    assert render("{{ messages[0].tool_calls[0].function.arguments.a }}", [call({"a": 1})]) == "1"


def test_content_beside_tool_calls():
    written = "{{ messages[0].content }}|"
    for content in (None, ""):
        assert render(written, [call({}, content)]) == "|"
        asking = "{% if messages[0]['content'] is none %}none{% endif %}"
        assert render(asking, [call({}, content)]) == "none"
        asking = (
            "{% if messages[0].content is not none %}{{ messages[0].content + '.' }}{% endif %}"
        )
        assert render(asking, [call({}, content)]) == ""
    assert render(written, [call({}, "text")]) == "text|"
    # It asks, but only after it has used the content.
    late = "{{ messages[0].content + '.' }}{{ messages[0].content is none }}"
    assert render(late, [call({})]) == ".False"
    # It looks into the first part, or the first character, which has to be there.
    first = "{% if messages[0].content[0].thinking %}thought{% endif %}{{ messages[0].content }}|"
    assert render(first, [call({})]) == " |"
    assert render(first, [call({}, "text")]) == "text|"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_missing_content_is_empty(role):
    source = "{{ messages[0].content + '.' }}{{ 'tool_calls' in messages[0] }}"
    assert render(source, [{"role": role}]) == ".False"
    message = {"role": role, "content": None, "tool_calls": None}
    assert render(source, [message]) == ".False"


@pytest.mark.parametrize("name", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_goes_by_the_names_that_templates_read(name):
    message = {"role": "assistant", "content": "a", name: "I think."}
    for read in ("reasoning_content", "thinking", name):
        source = "{{ messages[0]." + read + " }}{{ messages[1].reasoning_content is defined }}"
        assert prompt(source, [message, USER]).text == "I think.False"
    # The name that says most of where it comes from wins.
    both = message | {"reasoning_content": "I know."}
    assert render("{{ messages[0].reasoning_content }}", [both]) == "I know."


_ONLY_FIRST = """{% for m in messages %}{% if m.role == "system" and not loop.first %}
    {{- raise_exception("Not here.") }}{% endif %}{{ m.role }}: {{ m.content }};{% endfor %}"""


def test_system_messages_that_a_template_refuses_are_of_the_user():
    user = {"role": "user", "content": "Hi"}
    first, later = ({"role": role, "content": role} for role in ("system", "developer"))
    template = ChatTemplate(_ONLY_FIRST).with_forms()
    assert template.render([first, user]) == "system: system;user: Hi;"
    text = "system: system;user: Hi;user: <system>\ndeveloper\n</system>;user: Hi;"
    assert template.render([first, user, later, user]) == text
    parts = later | {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert template.render([user, parts]) == "user: Hi;user: <system>\na\nb\n</system>;"
    picture = later | {"content": [{"type": "image"}]}
    with pytest.raises(TemplateError, match=r"Not here\."):
        template.render([first, user, picture])
    anywhere = ChatTemplate("{% for m in messages %}{{ m.role }};{% endfor %}").with_forms()
    assert anywhere.render([first, user, later]) == "system;user;system;"


def test_reasoning_by_a_name_that_the_template_refuses():
    source = (
        "{{ raise_exception('no') if messages[0].thinking and messages[0].content }}"
        "{{ messages[0].thinking or messages[0].content }}"
    )
    message = {"role": "assistant", "reasoning_content": "I think."}
    assert render(source, [message]) == "I think."
    assert render(source, [message | {"content": "a"}]) == "a"


def test_malformed_tool_calls_are_left_to_the_template():
    messages = [{"role": "assistant", "tool_calls": [1, {"id": "a"}, {"function": None}]}]
    assert normalise(messages) == [{**messages[0], "content": None}]


def test_developer_messages_are_system_messages():
    assert render("{{ messages[0].role }}", [{"role": "developer", "content": "x"}]) == "system"


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([], "/messages"),
        ("hello", "/messages"),
        ({"role": "user"}, "/messages"),
        ([USER, "hello"], "/messages/1"),
        ([{"content": "hi"}], "/messages/0/role"),
        ([{"role": None}], "/messages/0/role"),
        ([USER, {"role": "assistant", "tool_calls": 1}], "/messages/1/tool_calls"),
        ([{"role": ""}], "/messages/0/role"),
    ],
)
def test_what_is_not_a_conversation(messages, where):
    assert refusal("x", messages).where == where


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_names(name):
    with pytest.raises(TemplateError, match=name) as info:
        check_kwargs({name: None})
    assert info.value.where == f"/chat_template_kwargs/{name}"


@pytest.mark.parametrize("name", [name for name in RESERVED if name != "add_generation_prompt"])
def test_reserved_names_are_refused_by_rendering(name):
    template = ChatTemplate("x")
    with pytest.raises(TemplateError, match=name):
        template.render([USER], None, **{name: []})
    with pytest.raises(TemplateError, match=name):
        render_prompt(template, [USER], None, markers=(), variables={name: []})


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("\n{% if x %}\n", 2, "end of template"),
        ("\n{{ x | nothing }}", 2, "nothing"),
        ("{% generation %}", 1, "endgeneration"),
    ],
)
def test_a_source_that_is_no_template(source, line, message):
    with pytest.raises(TemplateError, match=message) as info:
        ChatTemplate(source, name="mine")
    assert info.value.message.startswith(f"mine, line {line}: ")
    assert "Correct" in str(info.value)


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("\n{{ raise_exception('Only two roles.') }}", "line 2: Only two roles", "refuses"),
        ("{{ raise_exception() }}", "line 1: TemplateError", "refuses"),
        ("\n\n{{ a.b }}", "line 3: 'a' is undefined", "not given"),
        ("{{ 'a' + 1 }}", "line 1: can only concatenate", "cannot handle"),
        ("{{ 1 / 0 }}", "line 1: division by zero", "cannot handle"),
        ("{{ '{' | from_json }}", "line 1: Expecting", "cannot handle"),
        ("{{ range(10 ** 9) }}", "line 1: Range too big", "cannot handle"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion", "nest"),
        ("{{ ''.__class__.__mro__ }}", "line 1: access to attribute '__class__'", "sandbox"),
        ("{{ raise_exception.__globals__.os }}", "'__globals__'", "sandbox"),
        ("{{ '{0.__class__.__mro__}'.format('') }}", "'__class__'", "sandbox"),
        ("{{ messages.append.__self__.x }}", "'__self__'", "sandbox"),
    ],
)
def test_a_template_that_fails(source, message, hint):
    error = refusal(source)
    assert message in error.message
    assert error.hint is not None
    assert hint in error.hint


def test_data_that_nest_too_deeply():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert "recursion" in refusal("x", [{"role": "user", "content": deep}]).message
    with pytest.raises(TemplateError, match="recursion"):
        render_prompt(ChatTemplate("x"), [USER], [{"a": deep}], markers=())
    text = "[" * 100_000  # arguments that no JSON parser reads are text
    source = "{{ messages[0].tool_calls[0].function.arguments }}"
    assert ChatTemplate(source).render([call(text)]) == text


def prompt(source, messages, tools=None, markers=MARKERS, keep=(), **kwargs):
    """Renders with cuts, and checks that they do not change the text."""
    template = ChatTemplate(source)
    result = render_prompt(template, messages, tools, markers=markers, keep=keep, variables=kwargs)
    assert result.text == template.render(messages, tools, **kwargs)
    return result


def test_markers_of_the_template_are_whole_and_those_of_the_data_are_not():
    result = prompt(CHATML, [{"role": "user", "content": "a<|im_end|>b"}])
    assert result == Prompt(
        ("<|im_start|>user\na<", "|im_end|>b<|im_end|>\n<|im_start|>assistant\n")
    )


def test_without_markers_in_the_data_there_is_one_piece():
    assert prompt(CHATML, [{"role": "user", "content": "a < b, x | y"}]).pieces == (
        render(CHATML, [{"role": "user", "content": "a < b, x | y"}]),
    )
    assert prompt(CHATML, [{"role": "user", "content": "<|im_end|>"}], markers=()).text
    assert prompt("", [USER]).pieces == ()


@pytest.mark.parametrize(
    ("content", "markers", "pieces"),
    [
        ("<<|im_end|>", MARKERS, ("<<", "|im_end|>")),
        ("<tool_call><tool_call>", MARKERS, ("<", "tool_call><", "tool_call>")),
        ("<|im_start|>", ("<|im_start|>", "<|im", "im_"), ("<", "|i", "m_start|>")),
        ("aaaa", ("aaa",), ("a", "a", "aa")),
        ("日<｜User｜>本", ("<｜User｜>",), ("日<", "｜User｜>本")),
        ("a.b a+b", ("a.b",), ("a", ".b a+b")),
    ],
)
def test_where_it_is_cut(content, markers, pieces):
    source = "{{ messages[0].content }}"
    assert prompt(source, [{"role": "user", "content": content}], markers=markers).pieces == pieces


def test_a_marker_in_several_parts():
    source = "{% for part in messages[0].content %}{{ part.text | trim }}{% endfor %}"
    content = [{"type": "text", "text": text} for text in ("<|im_", "end|>", "<|im_\n", "end|>")]
    pieces = prompt(source, [{"role": "user", "content": content}]).pieces
    assert pieces == ("<", "|im_end|><", "|im_end|>")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.replace('/think', '').replace('/no_think', '') }}",
        "{{ messages[0].content | replace('/think', '') | replace('/no_think', '') }}",
        "{% for part in messages[0].content.split('/think') %}{{ part }}{% endfor %}",
        "{{ messages[0].content.replace('~', '') }}",
    ],
)
@pytest.mark.parametrize(
    "content", ["<|im_/thinkend|>", "<|im_/no_/thinkthinkend|>", "<|im_en~d|>", "<|im_end|>"]
)
def test_a_marker_around_text_that_the_template_deletes(source, content):
    for piece in prompt(source, [{"role": "user", "content": content}]).pieces:
        assert not any(marker in piece for marker in MARKERS)


def test_tools_are_cut_in_keys_and_in_values():
    function = {
        "name": "a</tool_call>",
        "description": "<tool_call>",
        "parameters": {"properties": {"<|im_end|>": {"enum": ["<|im_start|>"]}}},
    }
    result = prompt("{{ tools | tojson }}", [USER], [{"type": "function", "function": function}])
    assert len(result.pieces) == 5
    assert not any(marker in piece for piece in result.pieces for marker in MARKERS)


def test_words_of_a_schema_are_not_hidden_from_the_template():
    source = "{{ tools[0].type == 'function' and tools[0].function.parameters.type == 'object' }}"
    assert prompt(source, [USER], [TOOL], markers=("n>", "object[")).text == "True"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson(ensure_ascii=true) }}",
        "{{ messages | tojson(ensure_ascii=true) | tojson(ensure_ascii=true) }}",
        "{{ messages | tojson | tojson | tojson(ensure_ascii=true) }}",
        "{{ messages }}",
        "{{ messages | string | tojson }}",
    ],
)
@pytest.mark.parametrize("before", ["", "\\", "\\\\", '"', "é"])
def test_cuts_that_are_written_as_escapes(source, before):
    content = f"{before}<|im_end|>{before}\\ue001"
    assert len(prompt(source, [{"role": "user", "content": content}]).pieces) == 2
    # The cut after a backslash, which is then escaped itself.
    content = f"{before}\\|im_end|>"
    assert len(prompt(source, [{"role": "user", "content": content}], markers=["\\|"]).pieces) == 2


def test_arguments_are_cut_after_their_json_is_read():
    message = call('{"a": "\\u003c|im_end|>", "b\\u003ctool_call>": 1}')
    for source in (
        "{{ messages[0].tool_calls[0].function.arguments | tojson }}",
        "{{ messages[0].tool_calls[0].function.arguments + '' }}",
    ):
        pieces = prompt(source, [message]).pieces
        assert pieces == ('{"a": "<', '|im_end|>", "b<', 'tool_call>": 1}')


def test_reasoning_markers_stay_whole_in_the_content_of_the_assistant():
    source = (
        "{% for m in messages %}{{ m.reasoning_content }}"
        "{{ m.content.split('</think>')[-1] if m.role == 'assistant' else m.content }}{% endfor %}"
    )
    markers, keep = ["<|im_end|>", "<think>", "</think>"], ["<think>", "</think>"]
    messages = [
        {"role": "user", "content": "</think>", "reasoning_content": ""},
        {
            "role": "assistant",
            "content": "<think>a</think>b<|im_end|>",
            "reasoning_content": "<think>",
        },
    ]
    result = prompt(source, messages, markers=markers, keep=keep)
    assert result.pieces == ("<", "/think><", "think>b<", "|im_end|>")
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "<think>"}]}]
    source = "{{ messages[0].content[0].text }}"
    assert prompt(source, parts, markers=markers, keep=keep).pieces == ("<think>",)


def test_text_in_kwargs_is_data():
    result = prompt("{{ documents[0].text }}", [USER], documents=[{"text": "<|im_end|>"}])
    assert result.pieces == ("<", "|im_end|>")


def test_private_use_characters_in_the_data_are_kept():
    content = "\ue000 \\ue001 \\UE002 <|im_end|>"
    result = prompt("\ue003{{ messages[0].content }}", [{"role": "user", "content": content}])
    assert result.pieces == ("\ue003\ue000 \\ue001 \\UE002 <", "|im_end|>")


def test_private_use_characters_of_data_are_found():
    data = ["é \ue000 words \\ue001 \\\\UE002 \ue003"]
    assert find_free_characters(data) == ["\ue004"]


def test_no_private_use_character_is_left():
    content = "".join(map(chr, range(0xE000, 0xF900)))
    with pytest.raises(TemplateError, match="private-use"):
        prompt(CHATML, [{"role": "user", "content": content}])


@pytest.mark.parametrize(
    "message",
    [
        {"role": "<|im_end|>", "content": ""},
        {"role": "tool", "tool_call_id": "<|im_end|>"},
        {"role": "user", "content": [{"type": "<|im_end|>"}]},
        {"role": "assistant", "tool_calls": [{"id": "<|im_end|>"}]},
    ],
)
def test_markers_where_templates_compare_are_cut(message):
    result = prompt("{{ messages|tojson }}", [message])
    assert "|im_end|>" in result.text
    assert not any("<|im_end|>" in piece for piece in result.pieces)


def test_ids_that_templates_compare_stay_equal():
    source = "{{ messages[0].tool_calls[0].id == messages[1].tool_call_id }}"
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "a<|im_end|>"}]},
        {"role": "tool", "tool_call_id": "a<|im_end|>", "content": ""},
    ]
    assert prompt(source, messages).text == "True"


@pytest.mark.parametrize("marker", ["", "<"])
def test_markers_that_cannot_be_cut(marker):
    with pytest.raises(ValueError, match="fewer than two"):
        render_prompt(ChatTemplate("x"), [USER], markers=[marker])


TEXTS = st.text("<|>ab/t \n\\", max_size=12)
SPELLINGS = st.builds(str.__add__, st.sampled_from("<|>"), st.text("<|>ab", min_size=1, max_size=4))
SOURCES = (
    "{% for p in messages[0].content %}{{ p.text | trim }}{% endfor %}",
    "{% for p in messages[0].content %}{{ p.text.replace('/t', '') | trim }}{% endfor %}",
    "{{ messages[0].content | tojson(ensure_ascii=true) }}",
    "{{ messages[0].content }}",
)


@given(
    st.sampled_from(SOURCES),
    st.lists(TEXTS, max_size=3),
    st.sets(SPELLINGS, max_size=4),
)
def test_no_marker_of_the_data_is_inside_a_piece(source, texts, markers):
    content = [{"type": "text", "text": text} for text in texts]
    messages = [{"role": "user", "content": content}]
    own = ChatTemplate(source).render([{"role": "user", "content": [{"type": "text", "text": ""}]}])
    assume(not any(marker in own for marker in markers))
    for piece in prompt(source, messages, markers=markers).pieces:
        assert not any(marker in piece for marker in markers)


def test_parts_of_text_are_one_text_where_the_template_knows_no_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "user", "content": parts}]
    assert ChatTemplate("{{ messages[0].content }}").render(messages) == "a\nb"
    loop = "{% for part in messages[0].content %}<{{ part.text }}>{% endfor %}"
    assert ChatTemplate(loop).render(messages) == "<a><b>"
    assert ChatTemplate("{{ messages[0].content + '!' }}").render(messages) == "a\nb!"


def test_templates_of_one_source_share_nothing_but_what_jinja_has_read() -> None:
    source = "{{ bos_token }}{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
    source += "{{ messages[0].content.nothing.at_all }}"
    first = ChatTemplate(source[: source.index("{{ messages")], bos_token="<a>")
    other = ChatTemplate(first.source, bos_token="<b>")
    message = [{"role": "user", "content": "Hi."}]
    assert [first.render(message), other.render(message)] == ["<a>1", "<b>1"]
    assert first.render(message) == "<a>1"
    for name in ("one", "two"):
        with pytest.raises(TemplateError, match=f"{name}, line 1: "):
            ChatTemplate(source, name=name).render(message)
    for name in ("one", "two"):
        with pytest.raises(TemplateError, match=f"{name}, line 1: "):
            ChatTemplate("{% if %}", name=name)


def test_a_template_that_needs_a_system_message_gets_an_empty_one() -> None:
    source = (
        "{% if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif %}"
        "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
    )
    template = ChatTemplate(source)
    question = {"role": "user", "content": "Hello"}
    assert template.render([question]) == "[system:][user:Hello]"
    told = {"role": "developer", "content": "Be brief."}
    assert template.render([told, question]) == "[system:Be brief.][user:Hello]"


def test_no_system_message_is_added_where_it_is_not_what_is_missing() -> None:
    refuses = "{% if messages[-1].content == 'no' %}{{ raise_exception('no') }}{% endif %}"
    template = ChatTemplate(refuses + "{{ messages|length }}{{ messages[-1].content }}")
    with pytest.raises(TemplateError, match="no"):
        template.render([{"role": "user", "content": "no"}])


def test_calls_that_a_template_writes_only_without_content_get_a_message_of_their_own() -> None:
    either = (
        "{% for m in messages %}<{{ m.role }}>{% if m.content %}{{ m.content }}"
        "{% else %}{{ m.tool_calls | map(attribute='function') | list | tojson }}{% endif %}"
        "{% endfor %}"
    )
    messages = [USER, {**call({"city": "Rome"}, "I look."), "reasoning_content": "Hm"}]
    text = ChatTemplate(either).with_forms().render(messages)
    assert text.startswith("<user>hi<assistant>I look.<assistant>[{")
    assert '"Rome"' in text
    both = either.replace("{% else %}", "{% endif %}{% if m.tool_calls %}")
    assert render(both, messages).startswith("<user>hi<assistant>I look.[{")


@pytest.mark.parametrize(
    ("variable", "written"),
    [
        ("{% for t in xml_tools or [] %}{{ t.function.name }}{% endfor %}", "get_weather"),
        ("{{ tools_json }}", json.dumps([TOOL], indent=2)),
        ("{% for t in tools or my_tools %}{{ t.function.name }}{% endfor %}", "get_weather"),
    ],
)
def test_tools_may_have_another_name(variable: str, written: str) -> None:
    assert render(f"{variable}|{CHATML}", tools=[TOOL]).startswith(f"{written}|<|im_start|>")


def test_a_cut_call_that_a_template_writes_as_it_is_is_not_refused() -> None:
    """Nemotron-Nano-v2 leaves a last call out where the turn of the model begins."""
    source = (
        "{% for m in messages %}{% if not (loop.last and add_generation_prompt and m.tool_calls) %}"
        "<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ SPELLED }}{% endfor %}{% endif %}{% endfor %}"
    )
    cut = normalise([USER, call('{"city": "Par'), {"role": "tool", "content": "failed"}])
    as_it_is = "'[' + c.function.arguments + ']'"
    ChatTemplate(source.replace("SPELLED", as_it_is)).check_arguments(cut)
    doubled = source.replace("SPELLED", "'{' + c.function.arguments + '}'")
    with pytest.raises(TemplateError) as info:
        ChatTemplate(doubled).check_arguments(cut)
    assert info.value.where == "/messages/1/tool_calls/0/function/arguments"


PHI_4_MINI = (
    "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and "
    "message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + "
    "'<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LISTED = (
    "{% for t in messages[0].get('functions', []) %}<tool>{{ t.function.name }}</tool>{% endfor %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "head"),
    [
        (PHI_4_MINI, f"<|system|>TOLD<|tool|>{json.dumps([TOOL])}<|/tool|><|end|><|user|>hi"),
        (LISTED, "<tool>get_weather</tool>[system]TOLD[user]hi"),
    ],
)
def test_tools_may_be_a_field_of_the_system_message(source: str, head: str) -> None:
    told = {"role": "system", "content": "Be brief."}
    assert render(source, [USER], [TOOL]).startswith(head.replace("TOLD", ""))
    assert render(source, [told, USER], [TOOL]).startswith(head.replace("TOLD", "Be brief."))
    assert "get_weather" not in render(source, [told, USER])


def test_a_field_with_tools_that_the_client_has_set_stays() -> None:
    own = {"role": "system", "content": "", "tools": "mine"}
    assert "<|tool|>mine<|/tool|>" in render(PHI_4_MINI, [own, USER], [TOOL])


def test_tools_are_no_field_where_any_field_is_written() -> None:
    dumped = "{% if messages[0].role == 'tool' %}x{% endif %}{{ messages | tojson }}"
    assert render(dumped, tools=[TOOL]) == json.dumps([USER])


NAMED = "{% for t in my_tools or [] %}{{ t.function.name }}{% endfor %}|"


@pytest.mark.parametrize(
    ("variable", "kwargs", "written"),
    [
        ("{% if tool_choice %}{{ tool_choice | tojson }}{% endif %}", {}, "get_weather|"),
        ("{{ tool_hint }}", {"tool_hint": "Look. "}, "Look. get_weather|"),
        ("{{ own_tools | tojson if own_tools }}", {"own_tools": ["a"]}, '["a"]|'),
    ],
)
def test_tools_are_not_put_where_the_request_puts_something_else(
    variable: str, kwargs: dict[str, Any], written: str
) -> None:
    template = ChatTemplate(variable + NAMED + CHATML)
    assert template.render([USER], [TOOL], **kwargs).startswith(f"{written}<|im_start|>")


def test_a_tag_that_a_template_splits_at_stays_in_calls_and_results() -> None:
    source = (
        "{% for m in messages %}{{ (m.content or '').split('</plan>')[-1] }}"
        "{% for c in m.tool_calls or [] %}"
        "{{ (c.function.arguments|tojson).split('</plan>')[-1] }}{% endfor %}{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "1</plan>2"}}}
    messages = [
        {"role": "assistant", "content": "3</plan>4", "tool_calls": [call]},
        {"role": "tool", "content": "5</plan>6"},
    ]
    prompt = render_prompt(ChatTemplate(source), messages, markers=())
    assert prompt.text == '4{"a": "1</plan>2"}5</plan>6'
