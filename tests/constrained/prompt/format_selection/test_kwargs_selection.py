"""Templates that write turns in another way if a variable has another value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.inputs.rendered import TOOLS
from constrained.errors import RequestError, TemplateError
from constrained.prompt.format_selection import kwargs_selection
from constrained.prompt.format_selection.kwargs_selection import FormatByKwargs
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.turn import Choice, Policy, Start
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_turn
from tests.constrained.prompt.format_selection.kwargs_template import (
    BY_NAME,
    EFFORTS,
    HEAD,
    MESSAGES,
    SOURCE,
)

CALL = {"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}
USER = {"role": "user", "content": "Hello"}


def formats(source: str = SOURCE) -> FormatByKwargs:
    return FormatByKwargs(ChatTemplate(source, name="invented"), select_format)


KEPT = formats()


@pytest.mark.parametrize("depth", [None, "deep", "brief", "none", "quiet"])
@pytest.mark.parametrize("syntax", [None, "keys", "json"])
def test_what_the_template_writes_with_these_values_is_enforced(
    depth: str | None, syntax: str | None
) -> None:
    given = {"depth": depth, "syntax": syntax}
    kwargs: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    selected = KEPT.find(kwargs)
    format, template, tools = selected.format, selected.template, read_tools(TOOLS)
    opened = template.render([USER], TOOLS, **kwargs)
    state = find_state(
        opened, template.render([USER], TOOLS, add_generation_prompt=False, **kwargs), format
    )
    starts = {"brief": Start.OPEN, "none": Start.CLOSED, "quiet": Start.PLAIN}
    assert state.start is starts.get(depth or "", Start.OPEN)
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]}
    text = template.render([USER, message], TOOLS, add_generation_prompt=False, **kwargs)
    text = text.rpartition("</muse>")[2].removesuffix("<|eot|>")
    if state.start is Start.OPEN:
        closer = "</muse_brief>" if depth == "brief" else "</muse>"
        text = f"A thought.{closer}{text}"
    read = parse(text, format, tools, state)
    assert [(call.name, call.arguments) for call in read.calls] == [tuple(CALL.values())]
    assert read.reasoning.strip() == ("A thought." if state.start is Start.OPEN else "")
    grammar = build_turn(format, tools, Policy(Choice.REQUIRED), state)
    assert Completer(grammar).complete(text) == ""


def test_values_that_change_nothing_have_the_format_of_all() -> None:
    for kwargs in ({}, {"unread": "x"}, {"depth": "deep"}, {"depth": "none"}, {"syntax": "json"}):
        assert KEPT.find(kwargs) is KEPT.default
    own = KEPT.find({"depth": "brief"})
    assert own is not KEPT.default
    assert KEPT.find({"depth": "brief", "unread": [1], "messages": ()}) is own


def test_an_opener_that_nothing_explains_is_refused() -> None:
    with pytest.raises(
        RequestError, match="with depth='odd', the prompt ends with an unknown tag"
    ) as e:
        KEPT.find({"syntax": "json", "depth": "odd"})
    assert e.value.where == "/chat_template_kwargs/depth"
    assert KEPT.refuses({"depth": "odd"})
    assert not KEPT.refuses({"depth": "brief"})


def test_what_the_template_refuses_is_its_own_error() -> None:
    selected = KEPT.find({"depth": "bottomless"})
    assert selected is KEPT.default
    assert KEPT.refuses({"depth": "bottomless"})
    with pytest.raises(TemplateError, match="no such depth"):
        selected.template.render([USER], depth="bottomless")


def test_calls_that_cannot_be_read_are_refused() -> None:
    syntax = "{% if syntax == 'poem' %}Oh {{ c.function.name }}{% else %}" + BY_NAME + "{% endif %}"
    found = formats(HEAD + MESSAGES.replace("CALL", syntax) + EFFORTS)
    with pytest.raises(RequestError, match="with syntax='poem', the template writes calls") as e:
        found.find({"depth": "none", "syntax": "poem"})
    assert e.value.where == "/chat_template_kwargs/syntax"
    with pytest.raises(RequestError, match="with depth='brief', syntax='poem', the") as e:
        found.find({"depth": "brief", "syntax": "poem"})
    assert e.value.where == "/chat_template_kwargs"


def test_a_prompt_that_opens_another_block_by_default() -> None:
    source = SOURCE.replace("[undefined, 'deep']", "['deep']").replace("'brief'", "undefined")
    block = select_format(ChatTemplate(source)).format.reasoning
    assert block is not None
    assert block.markers == ("<muse_brief>", "</muse_brief>")


def test_markers_in_values_do_not_come_from_the_selection() -> None:
    template = KEPT.find({"syntax": "keys", "depth": "brief"}).template
    assert template.kwargs == {}
    assert template.render([USER], depth="none").endswith("<muse></muse>")


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())


@given(
    st.dictionaries(
        st.sampled_from(["syntax", "depth", "tools", "other"]),
        st.recursive(_VALUES, lambda values: st.lists(values), max_leaves=3),
    )
)
def test_any_value_is_taken_and_few_are_kept(kwargs: dict[str, Any]) -> None:
    first = KEPT.find(kwargs)
    assert KEPT.find(kwargs) is first
    assert len(KEPT._kept) <= kwargs_selection.MAX_KEPT  # pyright: ignore[reportPrivateUsage]


def test_the_values_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwargs_selection, "MAX_KEPT", 2)
    found = formats()
    own = found.find({"syntax": "keys"})
    for count in range(3):
        found.find({"depth": count})
        assert found.find({"syntax": "keys"}) is own
    assert not found.knows({"depth": 0})
    assert found.knows({"depth": 2})
    assert found.knows({"unread": 5})
