"""An automaton that is made whole matches what its expression does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.regex.automaton import Automaton
from grammars.regex.deterministic import (
    DeterministicState,
    TooManyStatesError,
    determinize,
    intersect_automata,
    minimize,
    stop_at_first,
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
from grammars.turn_grammar.multiples import divide

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
    lazy = determinize(expression, 2_000, lazy=True)
    assert len(minimize(stop_at_first(states))) == len(lazy)
    for text in ("", *texts):
        assert accepts(states, text) is automaton.accepts(text)
        whole = any(automaton.accepts(text[:end]) for end in range(len(text)))
        assert accepts(lazy, text) is (automaton.accepts(text) and not whole)
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


@given(EXPRESSIONS, EXPRESSIONS, st.lists(TEXTS, max_size=12))
def test_an_intersection(first: Expression, second: Expression, texts: list[str]) -> None:
    states = minimize(
        intersect_automata(determinize(first, 2_000), determinize(second, 2_000), 2_000)
    )
    expected = determinize(intersect((first, second)), 2_000)
    assert len(states) == len(expected)
    for text in texts:
        assert accepts(states, text) is accepts(expected, text)


@given(st.integers(1, 40), st.integers(-3_000, 3_000))
def test_multiples(divisor: int, number: int) -> None:
    states = divide(divisor, 2_000)
    assert accepts(states, str(number)) is (number % divisor == 0)
    assert not accepts(states, f"0{abs(number)}")


def test_states_are_bounded() -> None:
    with pytest.raises(TooManyStatesError, match="more than 500 states"):
        determinize(read("(a|b)*a(a|b){12}"), 500)
    with pytest.raises(TooManyStatesError):
        divide(700, 500)
    many = determinize(read("a{40}"), 50)
    with pytest.raises(TooManyStatesError):
        intersect_automata(determinize(read("(a{7})*"), 50), determinize(read("(a{9})*"), 50), 30)
    assert len(many) == 41
