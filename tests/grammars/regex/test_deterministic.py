"""An automaton that is made whole matches what its expression does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.regex.automaton import Automaton
from grammars.regex.deterministic import (
    DeterministicState,
    TooManyStatesError,
    determinize,
    write_back,
)
from grammars.regex.expressions import (
    Expression,
    alternate,
    complement,
    concatenate,
    intersect,
    repeat,
)
from grammars.regex.reader import read

LEAVES = st.sampled_from(["a", "b", "[ab]", "[^a]", "", "ab", "a|bb", "(?s:.*)"]).map(read)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(concatenate, inner, inner),
        st.builds(lambda a, b: alternate((a, b)), inner, inner),
        st.builds(lambda a, b: intersect((a, b)), inner, inner),
        st.builds(complement, inner),
        st.builds(lambda a, n: repeat(a, n, n + 2), inner, st.integers(0, 2)),
        st.builds(lambda a: repeat(a, 0, None), inner),
    ),
    max_leaves=5,
)
TEXTS = st.text("abé", max_size=7)


def accepts(states: list[DeterministicState], text: str) -> bool:
    if not states:
        return False
    state = states[0]
    for character in text:
        found = [edge.target for edge in state.edges if character in edge.characters]
        if not found:
            return False
        (target,) = found
        state = states[target]
    return state.accepts


@given(EXPRESSIONS, st.lists(TEXTS, max_size=12))
def test_it_accepts_the_same_texts(expression: Expression, texts: list[str]) -> None:
    states, automaton = determinize(expression, 2_000), Automaton(expression)
    for text in ("", *texts):
        assert accepts(states, text) is automaton.accepts(text)
    written = Automaton(write_back(states, 10**9))
    for text in ("", *texts):
        assert written.accepts(text) is automaton.accepts(text)
    if states and states[0].edges:
        with pytest.raises(TooManyStatesError):
            write_back(states, 0)


@given(EXPRESSIONS)
def test_it_has_as_few_states_as_there_can_be(expression: Expression) -> None:
    states = determinize(expression, 2_000)
    again = determinize(concatenate(expression, read("")), 2_000)
    assert len(states) == len(again)
    assert len({(state.accepts, state.edges) for state in states}) == len(states)


def test_states_are_bounded() -> None:
    with pytest.raises(TooManyStatesError, match="more than 500 states"):
        determinize(read("(a|b)*a(a|b){12}"), 500)
    assert len(determinize(read("a{40}"), 50)) == 41
