"""The grammar, the parser and the renderer agree, whatever the tools and the turn."""

import random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from grammars.parse.parser import parse
from tests.agreement.case_checks import SLOW, assert_obeys, by_name, is_held_whole, masked, spell
from tests.agreement.chosen_formats import EACH, SCALE
from tests.turn_strategies import cases, mutate, seeds


@EACH
@settings(suppress_health_check=SLOW, max_examples=9 * SCALE)
@given(data=st.data())
def test_grammar_parser_and_renderer_agree(name: str, data: st.DataObject) -> None:
    """What is rendered is accepted and read back, and whatever else is accepted is read: of one
    case, since to draw it and to compile its grammars takes most of the time."""
    case = data.draw(cases(by_name(name)))
    grammars = masked(case)
    if all(is_held_whole(tool, case.format) for tool in case.tools):
        for grammar in grammars:
            assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
    read = parse(case.text, case.format, case.tools, case.state)
    assert spell(read) == spell(case.turn)
    assert_obeys(read, case)
    rng = random.Random(data.draw(seeds()))
    for grammar in grammars:
        texts = [mutate(case.text, rng) for _ in range(30)]
        texts = [text for text in texts if grammar.accepts(text)]
        event("mutants accepted" if texts else "no mutant accepted")
        walks = (grammar.walk(rng, case.text[: rng.randint(0, len(case.text))]) for _ in range(4))
        texts += [walk for walk in walks if walk is not None]
        for text in texts:
            assert_obeys(parse(text, case.format, case.tools, case.state), case)
