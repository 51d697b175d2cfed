"""Grammar, parser and renderer agree also for formats that the registry does not have."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.parse.parser import Parser, collect, parse
from grammars.wire.format import (
    Format,
    JsonStyle,
    Literal,
    Marker,
    Name,
    PythonArguments,
    Reasoning,
)
from tests.agreement.chosen_formats import SCALE
from tests.agreement.test_agreement import (
    SLOW,
    assert_obeys,
    is_held_whole,
    masked,
    spell,
)
from tests.turn_strategies import cases, chunkings, mutate, seeds


def in_python(name: str, hole: PythonArguments, between: str = ", ") -> Format:
    """A format whose calls are those of Python, in a list between tags."""
    return Format(
        name,
        (Name(), Literal("("), hole, Literal(")")),
        opening=(Marker("<calls>"), Literal("[")),
        closing=(Literal("]"), Marker("</calls>")),
        between=between,
        reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    )


FORMATS = {
    format.name: format
    for format in (
        in_python("double quotes", PythonArguments(quote='"')),
        in_python("lists of JSON", PythonArguments(style=JsonStyle()), between="\n"),
        in_python("double quotes and JSON", PythonArguments(style=JsonStyle(), quote='"')),
        in_python("escapes", PythonArguments(quote="")),
        in_python("escapes of JSON", PythonArguments(style=JsonStyle(), quote="")),
    )
}
EACH = pytest.mark.parametrize("name", FORMATS)


@EACH
@settings(suppress_health_check=SLOW, max_examples=12 * SCALE)
@given(data=st.data())
def test_what_is_rendered_is_accepted_and_read_back(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(FORMATS[name]))
    if all(is_held_whole(tool, case.format) for tool in case.tools):
        for grammar in masked(case):
            assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
    assert spell(parse(case.text, case.format, case.tools, case.state)) == spell(case.turn)
    parser = Parser(case.format, case.tools, case.state)
    events = [e for piece in data.draw(chunkings(case.text)) for e in parser.feed(piece)]
    assert spell(collect([*events, *parser.close()])) == spell(case.turn)


@EACH
@settings(suppress_health_check=SLOW, max_examples=8 * SCALE)
@given(data=st.data())
def test_what_is_accepted_is_read(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(FORMATS[name]))
    rng = random.Random(data.draw(seeds()))
    for grammar in masked(case):
        texts = [mutate(case.text, rng) for _ in range(20)]
        texts = [text for text in texts if grammar.accepts(text)]
        walks = (grammar.walk(rng, case.text[: rng.randint(0, len(case.text))]) for _ in range(3))
        texts += [walk for walk in walks if walk is not None]
        for text in texts:
            assert_obeys(parse(text, case.format, case.tools, case.state), case)
