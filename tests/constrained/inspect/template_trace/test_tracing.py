"""Traced templates write what plain ones do, and tell how they came to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.inspect.template_trace.tracing import Trace, TracedTemplate
from constrained.prompt.template.chat_template import ChatTemplate
from tests.real_templates import read_template
from tests.templates import HERMES, PAINT, QWEN3_CODER
from tests.unstable_templates import LAST_QUERY

SAMPLE = ("Qwen3.5-4B", "openai-gpt-oss-120b", "Kimi-K3", "Apertus-8B-Instruct", "MiniMax-M2")
CALL = {"id": "abcdefgh1", "type": "function", "function": {"name": "paint", "arguments": {}}}
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, st.text("a<\n", max_size=5)),
        st.builds(
            lambda text, thought, calls: {
                "role": "assistant",
                "content": text,
                "reasoning_content": thought,
                "tool_calls": calls,
            },
            st.text("b ", max_size=3),
            st.text("c", max_size=3),
            st.lists(st.just(CALL), max_size=2),
        ),
        st.just({"role": "tool", "content": "done", "tool_call_id": "abcdefgh1"}),
    ),
    min_size=1,
    max_size=6,
)
TRACED = {
    source: (ChatTemplate(source), TracedTemplate(ChatTemplate(source)))
    for source in (HERMES, QWEN3_CODER, LAST_QUERY)
}


def trace(source: str, **variables: object) -> Trace:
    template = ChatTemplate(source)
    return TracedTemplate(template).trace([{"role": "user", "content": "Hi"}], **variables)


def check_pieces(traced: Trace) -> None:
    """The pieces are the text, without gaps, and each one has a site."""
    offset = 0
    for piece in traced.pieces:
        assert piece.start == offset
        offset = piece.end
        assert 0 <= piece.site < len(traced.sites)
    assert offset == len(traced.text)


@given(source=st.sampled_from(list(TRACED)), messages=MESSAGES, opened=st.booleans())
def test_a_traced_template_writes_what_the_plain_one_does(source: str, messages, opened: bool):
    plain, traced = TRACED[source]
    expected = plain.render(messages, [PAINT], add_generation_prompt=opened)
    found = traced.trace(messages, [PAINT], add_generation_prompt=opened)
    assert found.text == expected
    check_pieces(found)


@pytest.mark.parametrize("name", SAMPLE)
def test_so_do_real_templates(name: str):
    template = ChatTemplate(read_template(name), bos_token="<s>", eos_token="</s>")
    messages = [
        {"role": "user", "content": "Paint it"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "done", "tool_call_id": "abcdefgh1", "name": "paint"},
    ]
    found = TracedTemplate(template).trace(messages, [PAINT])
    assert found.text == template.render(messages, [PAINT])
    check_pieces(found)
    assert all(all(site.tags) for site in found.sites if site.names)  # sets have their tags


def test_branches_are_recorded_pass_by_pass():
    found = trace("{% for i in range(3) %}{% if i == 1 %}a{% elif i > 1 %}b{% endif %}{% endfor %}")
    assert found.text == "ab"
    assert [(choice.passes, choice.branch) for choice in found.choices] == [
        ((0,), 2),
        ((1,), 0),
        ((2,), 1),
    ]


def test_conditional_expressions_are_branches():
    found = trace("{{ 'a' if messages|length > 1 else 'b' }}{{ 'c' if false }}")
    assert found.text == "b"
    assert [choice.branch for choice in found.choices] == [1]


def test_variables_are_told_with_their_values_and_tags():
    found = trace(
        "{% set ns = namespace(n=1) %}{%- set ns.n = 2 %}{% set a, b = 3, 'x' %}"
        "{% set c %}text{% endset %}{{ ns.n }}{{ a }}{{ b }}{{ c }}"
    )
    assert found.text == "23xtext"
    values = {name: events[-1].value for name, events in found.assignments.items()}
    assert values == {"ns": "Namespace", "ns.n": "2", "a": "3", "b": "'x'", "c": "'text'"}
    site = found.sites[found.assignments["ns.n"][-1].site]
    assert site.tags == ("{%- set ns.n = 2 %}",)


def test_what_a_macro_writes_belongs_to_the_tag_that_calls_it():
    found = trace(
        "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{% for i in [2] %}{{ i }}{% endfor %}"
    )
    told = [found.sites[piece.site].tags[0] for piece in found.pieces if piece.end > piece.start]
    assert told == ["{{ m(1) }}", "{{ i }}"]


def test_loops_that_break_off_or_call_themselves_leave_the_passes_in_order():
    found = trace(
        "{% for i in range(9) %}{% for j in range(9) %}{% if j == 1 %}{% break %}{% endif %}"
        "{% endfor %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}"
        "{% for k in [[1], [2]] recursive %}{% if k is iterable %}{{ loop(k) }}{% endif %}."
        "{% endfor %}{{ 'end' }}"
    )
    assert found.text == "01....end"
    assert found.pieces[-1].passes == ()


def test_a_template_cannot_call_the_recorder():
    found = trace("{% set recorder = 1 %}{{ recorder }}{{ environment }}")
    assert found.text == "1"
