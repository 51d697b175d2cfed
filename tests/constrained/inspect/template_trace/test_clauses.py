"""The clause that makes two prompts differ."""

from typing import Any

import pytest

from constrained.inspect.template_trace.clauses import Cause, Clause, find_clause, shorten
from constrained.inspect.template_trace.tracing import TracedTemplate
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.format import count_common

USER, ANSWER = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
LOOP = "{% for m in messages %}"


def compare(source: str, first: list[Any], second: list[Any], **kwargs: Any) -> Clause:
    """The clause after the first difference between two conversations."""
    template = TracedTemplate(ChatTemplate(source))
    one, other = template.trace(first, **kwargs), template.trace(second, **kwargs)
    offset = count_common(one.text, other.text)
    assert offset < len(one.text), "the first prompt is a prefix of the other"
    clause = find_clause(one, other, offset)
    assert clause is not None
    return clause


@pytest.mark.parametrize(
    ("source", "tag", "cause"),
    [
        (
            LOOP + "{{ m.content }}{% if loop.last %}!{% endif %} {% endfor %}",
            "{% if loop.last %}",
            Cause.FOLLOWING,
        ),
        (
            LOOP + "{{ m.content }}{{ '!' if loop.nextitem is undefined else '?' }}{% endfor %}",
            "{{ '!' if loop.nextitem is undefined else '?' }}",
            Cause.FOLLOWING,
        ),
        (
            "{% set n = messages|length %}Of {{ n }}: " + LOOP + "{{ m.content }}{% endfor %}",
            "{% set n = messages|length %}",
            Cause.FOLLOWING,
        ),
        (
            LOOP + "{{ m.content }}{% if messages[loop.index] is defined and "
            "messages[loop.index].role == 'assistant' %}>{% endif %} {% endfor %}",
            "{% if messages[loop.index] is defined and messages[loop.index].role == 'assistant' %}",
            Cause.FOLLOWING,
        ),
        (
            "{% set asked = messages|selectattr('role', 'equalto', 'user')|list %}" + LOOP + "{{ "
            "m.content }}{% if m == asked[-1] and asked|length == 1 %}!{% endif %} {% endfor %}",
            "{% if m == asked[-1] and asked|length == 1 %}",
            Cause.LAST_QUERY,
        ),
        (
            "{% set ns = namespace(i=0) %}" + LOOP + "{% if m.role == 'user' %}"
            "{% set ns.i = loop.index0 %}{% endif %}{% endfor %}"
            + LOOP
            + "{% if loop.index0 < ns.i"
            " %}-{% endif %}{{ m.content }}{% endfor %}",
            "{% if loop.index0 < ns.i %}",
            Cause.LAST_QUERY,
        ),
        (
            "{% macro w(m, last) %}{% if last %}!{% endif %}{{ m.content }}{% endmacro %}"
            + LOOP
            + "{{ w(m, loop.last) }}{% endfor %}",
            "{% if last %}",
            Cause.OTHER,
        ),
        (
            "{% set old = messages[:-1] %}{% set new = messages[-1:] %}{% for m in old %}({{ "
            "m.content }}){% endfor %}{% for m in new %}[{{ m.content }}]{% endfor %}",
            "{% for m in old %}",
            Cause.FOLLOWING,
        ),
    ],
)
def test_what_follows_changes_what_was_written(source: str, tag: str, cause: Cause):
    clause = compare(source, [USER], [USER, ANSWER, USER])
    assert (clause.tag, clause.cause) == (tag, cause)


def test_values_on_both_sides_and_what_set_them_are_told():
    source = (
        "{% set ns = namespace(i=0) %}\n" + LOOP + "{% if m.role == 'user' %}\n"
        "{% set ns.i = loop.index0 %}{% endif %}{% endfor %}\n"
        + LOOP
        + "{% if loop.index0 < ns.i %}-{% endif %}{{ m.content }}{% endfor %}"
    )
    clause = compare(source, [USER], [USER, ANSWER, USER])
    (changed,) = clause.changes
    assert (changed.name, changed.values, changed.line) == ("ns.i", ("0", "2"), 3)
    assert clause.describe() == (
        "line 4: {% if loop.index0 < ns.i %}, where ns.i is 0, then 2 "
        "(line 3: {% set ns.i = loop.index0 %})"
    )


def test_the_same_question_in_an_elif_is_told_by_its_own_tag():
    source = LOOP + "{% if m.role == 'x' %}{% elif loop.last %}!{% else %}?{% endif %}{% endfor %}"
    assert compare(source, [USER], [USER, ANSWER]).tag == "{% elif loop.last %}"


def test_reasoning_is_named_as_the_cause():
    source = (
        LOOP + "{% if m.thinking %}<think>{{ m.thinking }}{% endif %}{{ m.content }}{% endfor %}"
    )
    thoughtful = {**ANSWER, "thinking": "Hm"}
    clause = compare(source, [USER, ANSWER, USER], [USER, thoughtful, USER])
    assert (clause.tag, clause.cause) == ("{% if m.thinking %}", Cause.REASONING)


def test_no_clause_where_the_first_prompt_is_the_beginning_of_the_other():
    template = TracedTemplate(ChatTemplate(LOOP + "{{ m.content }}{% endfor %}"))
    one, other = template.trace([USER]), template.trace([USER, ANSWER])
    assert find_clause(one, other, len(one.text)) is None


def test_long_tags_are_cut_in_the_middle():
    assert shorten("a  b\nc") == "a b c"
    assert len(shorten("x" * 1000)) < 200
