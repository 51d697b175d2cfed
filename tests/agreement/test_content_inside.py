"""Content inside of what opens the calls: the grammar, the parser and the renderer agree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import RenderError
from grammars.parse.parser import Parser, parse
from grammars.parse.render import render
from grammars.schema.lowering.lower import lower
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn, collect
from grammars.wire.format import ContentPlace, Format, JsonCall, Marker
from tests.agreement.matching import Masked
from tests.found_formats import infer
from tests.turn_strategies import chunkings, prose

INSIDE = Format(
    name="inside",
    call=(JsonCall(),),
    opening=(Marker("<act>"), Marker("<do>")),
    closing=(Marker("</act>"),),
    content_places=(ContentPlace.INSIDE, ContentPlace.BEFORE),
    ends=("<end>",),
)
TEMPLATE = """
{%- for m in messages -%}
<{{ m.role }}>
{%- if m.tool_calls -%}
<act>{{ m.content }}<do>
{%- for c in m.tool_calls -%}
{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}
{%- endfor -%}
</act><end>
{%- else -%}
{{ m.content }}<end>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<assistant>{% endif -%}
"""
TOOLS = (Tool("f", lower({"type": "object", "properties": {"a": {"type": "string"}}})),)
CALL = ToolCall("f", {"a": "x"})


def masked(policy: Policy | None = None, *, single: bool = False) -> Masked:
    return Masked(INSIDE, TOOLS, policy or Policy(), State(), single)


def test_it_is_inferred() -> None:
    found = infer(ChatTemplate(TEMPLATE).render)
    assert found.format.content_places == INSIDE.content_places
    assert (found.format.opening, found.format.closing) == (INSIDE.opening, INSIDE.closing)
    told = {row.probe: row.conclusion for row in found.evidence}
    assert told["content and three calls"] == "written alike"
    assert told["content and a call after the prompt, auto"] == "read back"


@settings(max_examples=40)
@given(data=st.data())
def test_content_inside_is_accepted_and_read_back(data: st.DataObject) -> None:
    content = data.draw(prose(INSIDE, before_call=True))
    turn = Turn(content, calls=(CALL,) * data.draw(st.integers(1, 2)))
    text = render(turn, INSIDE, TOOLS)
    assert text.startswith(f"<act>{content}<do>")
    assert parse(text, INSIDE, TOOLS) == turn
    parser = Parser(INSIDE, TOOLS, stream=True)
    events = [event for piece in data.draw(chunkings(text)) for event in parser.feed(piece)]
    assert collect([*events, *parser.close()]) == turn
    in_front = data.draw(prose(INSIDE, before_call=True))
    assert parse(in_front + text, INSIDE, TOOLS).content == in_front + content
    for single in (False, True):
        assert masked(single=single).accepts(text)
        assert masked(single=single).accepts(in_front + text)


def test_a_call_that_is_asked_for_has_no_content() -> None:
    required = masked(Policy(Choice.REQUIRED))
    assert required.accepts(render(Turn(calls=(CALL,)), INSIDE))
    assert not required.accepts(render(Turn("Well.", calls=(CALL,)), INSIDE))


def test_a_turn_that_was_cut_inside() -> None:
    assert parse("<act>I look it", INSIDE, TOOLS) == Turn("I look it")
    assert not masked().accepts("<act>I look it</act>")
    with pytest.raises(RenderError, match="marker <do>"):
        render(Turn("a<do>b", calls=(CALL,)), INSIDE)


def test_content_inside_needs_two_texts_around_it() -> None:
    with pytest.raises(TypeError, match="stands between two texts"):
        Format("f", (JsonCall(),), (Marker("<act>"),), content_places=(ContentPlace.INSIDE,))
