"""A turn is accepted in every tokenisation, not only in the tokenizer's own.

The mask is narrower: where the text is forced, it has the tokenizer's own next token alone.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.engine.vocabulary.vocabulary import Vocabulary
from grammars.parse.parser import parse
from tests.agreement.case_checks import QUIET, by_name, spell
from tests.agreement.chosen_formats import EACH, SCALE
from tests.agreement.matching import Masked
from tests.agreement.real_vocabularies import spelled
from tests.agreement.sample_tools import offers
from tests.turn_strategies import cases, seeds

LONGEST = 16  # bytes; of the longer tokens hardly one occurs in a call


class Cuts:
    """Cuts text into tokens at random."""

    def __init__(self, vocabulary: Vocabulary):
        special = vocabulary.control | set(vocabulary.end)
        usable = {t: data for t, data in enumerate(vocabulary.tokens) if data and t not in special}
        self.ids = {data: token for token, data in usable.items() if len(data) <= LONGEST}

    def cut(self, text: str, rng: random.Random) -> list[int]:
        data = text.encode()
        at = 0
        tokens: list[int] = []
        while at < len(data):
            ends = range(at + 1, min(len(data), at + LONGEST) + 1)
            options = [end for end in ends if data[at:end] in self.ids]
            end = rng.choice(options)
            tokens.append(self.ids[data[at:end]])
            at = end
        return tokens


@pytest.fixture(scope="module")
def cuts() -> Cuts:
    return Cuts(spelled()[0])


@EACH
@settings(QUIET, max_examples=8 * SCALE)
@given(data=st.data())
def test_every_tokenisation_is_accepted(name: str, cuts: Cuts, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name), offers()))
    grammar = Masked(case.format, case.tools, case.policy, case.state, real=spelled())
    assert grammar.accepts(case.text), (grammar.prefix(case.text), grammar.grammar)
    rng = random.Random(data.draw(seeds()))
    own = grammar.encode(case.text)
    for _ in range(3):
        tokens = cuts.cut(case.text, rng)
        assert not case.turn.calls or tokens != own
        matcher = grammar.matcher.fork()
        for token in tokens:
            matcher.commit(token)
        assert matcher.is_complete
        written = grammar.vocabulary.text(tokens).decode()
        read = parse(written, case.format, case.tools, case.state)
        assert spell(read) == spell(case.turn)
