"""The automaton agrees with Python's `re`, and its extensions are the shortest there are."""

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.characters import Characters
from grammars.regex.expressions import ANYTHING, EMPTY_SET, complement, concatenate, intersect
from grammars.regex.reader import UnreadableError, read
from grammars.regex.string_formats import FORMATS
from tests.text_strategies import texts_of_format

ALPHABET = "ab0-"
TEXTS = ["".join(letters) for n in range(5) for letters in product(ALPHABET, repeat=n)]
ATOMS = ["a", "b", "0", r"\-", ".", "[ab]", "[^a]", "[a-b0]", "[^b-]", r"\x61", "(?:)"]
TIMES = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}", "*?", "{2,}?"]

REGEXES = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
        | st.builds(lambda body, times: f"(?:{body}){times}", inner, st.sampled_from(TIMES))
    ),
    max_leaves=6,
)


def matching(regex: str) -> set[str]:
    return {text for text in TEXTS if re.fullmatch(regex, text)}


@given(regex=REGEXES)
def test_it_accepts_what_re_does(regex: str) -> None:
    automaton = Automaton(read(regex))
    assert {text for text in TEXTS if automaton.accepts(text)} == matching(regex)


@given(
    start=st.sampled_from(["", "^", "]", "^]"]),
    members=st.lists(st.sampled_from(["a", "b-d", r"\]", r"\\", r"\x{5b}", "^", "é"]), min_size=1),
)
def test_a_set_with_its_members_many_times_is_the_same(start: str, members: list[str]) -> None:
    inner = "".join(members)
    long, short = f"[{start}a{inner * 100}]0", f"[{start}a{inner}]0"
    assert read(long) == read(short)
    assert read(f"{long}[a{inner}]") == read(f"{short}[a{inner}]")


@given(
    first=REGEXES,
    second=REGEXES,
    third=REGEXES,
    start=st.sampled_from([text for text in TEXTS if len(text) < 3]),
    fewest=st.integers(0, 2),
)
def test_the_extension_is_the_shortest(
    first: str, second: str, third: str, start: str, fewest: int
) -> None:
    automaton = compile_regexes((first, second), (third,))
    assert automaton is not None
    found = automaton.extend(start, fewest, 6)
    fitting = matching(first) & matching(second) - matching(third)
    known = [len(t) - len(start) for t in fitting if t.startswith(start)]
    known = [length for length in known if length >= fewest]
    if found is None:
        assert not known
        return
    assert automaton.accepts(start + found)
    assert re.fullmatch(first, start + found)
    assert re.fullmatch(second, start + found)
    assert not re.fullmatch(third, start + found)
    assert fewest <= len(found) <= min([6, *known])


@cache
def compile_format(name: str) -> Automaton | None:
    return compile_regexes((FORMATS[name],))


@given(start=st.integers(0, 40), name=st.sampled_from(sorted(FORMATS)), data=st.data())
def test_formats_are_completed(start: int, name: str, data: st.DataObject) -> None:
    automaton = compile_format(name)
    assert automaton is not None
    text = data.draw(texts_of_format(name))
    rest = automaton.extend(text[:start])
    assert rest is not None
    assert len(rest) <= len(text[start:])
    assert re.fullmatch(FORMATS[name], text[:start] + rest)


@given(st.lists(st.tuples(st.characters(), st.characters())), st.characters())
def test_sets_of_characters(pairs: list[tuple[str, str]], character: str) -> None:
    ranges = [(ord(min(pair)), ord(max(pair))) for pair in pairs]
    found = Characters.collect(ranges)
    assert (character in found) == any(low <= ord(character) <= high for low, high in ranges)
    assert (character in found.complement()) != (character in found)
    assert found.complement().complement() == found


@pytest.mark.parametrize(
    ("regex", "good", "bad"),
    [
        (r"\u{1F642}\u00e9\x{3042}", "🙂éあ", "🙂e"),
        (r"\p{Letter}\p{Number}", "é5", "55"),
        (r"[^\n\r\u{2028}\u{2029}]", " ", "\u2028"),
        (r"[[0-9][a-c]_]", "b", "d"),
        (r"[^[0-9]]", "é", "5"),
        (r"[]a]", "]", "b"),
        (r"\p{Lu}\p{^L}\pN", "É-5", "éa5"),
        (r"(?s:.)(?P<x>.)(?<y>a)", "\nba", "b\na"),
        (r"\/\.\t", "/.\t", "/a\t"),
    ],
)
def test_the_syntax_of_rust(regex: str, good: str, bad: str) -> None:
    automaton = Automaton(read(regex))
    assert automaton.accepts(good)
    assert not automaton.accepts(bad)


@pytest.mark.parametrize(
    "regex",
    [
        *("(a", "a)", "[a", "*", "a{1,2", "^a", "(?=a)", r"\bx", r"\p{Greek}", "a\\", "[a-"),
        *("a{" + "9" * 5_000 + "}", r"\u{110000}", r"\x{FFFFFFFF}", r"\u{" + "F" * 5_000 + "}"),
    ],
)
def test_what_cannot_be_read(regex: str) -> None:
    with pytest.raises(UnreadableError):
        read(regex)
    assert compile_regexes((regex,)) is None


def test_long_texts_need_no_deep_stack() -> None:
    automaton = compile_regexes(("ab?" * 3_000,))
    assert automaton is not None
    assert automaton.accepts("a" * 3_000)
    assert automaton.extend("ab") == "a" * 2_999
    assert compile_regexes(("(" * 5_000 + "a" + ")" * 5_000,)) is None


def test_long_counts_and_many_states_cost_little() -> None:
    long = compile_regexes(("[a-z]{1500}",))
    assert long is not None
    assert long.extend("abc") == "a" * 1497
    both_sides = intersect([read("(a|b)*a(a|b){10}"), complement(read(".*bb.*"))])
    automaton = Automaton(both_sides)
    assert automaton.extend("b") == "a" * 11
    assert automaton.extend("bb") is None
    assert len(automaton.extend("", 500) or "") == 500


def test_it_forgets_its_states_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grammars.regex.automaton.MAX_STATES", 50)
    automaton = Automaton(read("[a-z]{200}x"))
    for length in (100, 200, 3):
        assert automaton.extend("b" * length) == "a" * (200 - length) + "x"


def test_what_no_character_matches_and_all_else() -> None:
    empty = read(r"[^\x{0}-\x{10ffff}]")
    assert empty == EMPTY_SET
    assert complement(empty) == ANYTHING
    begun = Automaton(
        intersect([read("(?s:.*)"), complement(concatenate(read("(?s:.*)ab"), complement(empty)))])
    )
    state = begun.start
    for character in "xab":
        assert not state.is_dead
        state = begun.step(state, character)
    assert state.is_dead  # known at once: a lexeme that can go on is not given up
