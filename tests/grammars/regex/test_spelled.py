"""JSON strings of a pattern: all texts that match, in each spelling of the usual encoders."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.regex.automaton import compile_regexes
from grammars.regex.characters import Characters
from grammars.regex.spelled import (
    is_fully_spelled,
    spell_extra_keys,
    spell_numbers,
    write_numbers,
)
from grammars.regex.texts import FREE
from grammars.turn_grammar.ir.nodes import Pattern
from grammars.turn_grammar.terminals import match_json_strings

PATTERN = "(?s:.*)[/](?s:.*)"


def takes(pattern: str, text: str) -> bool:
    """True if the spelled pattern matches that JSON text."""
    spelled = match_json_strings(pattern)
    assert isinstance(spelled, Pattern)
    automaton = compile_regexes((spelled.regex,))
    assert automaton is not None
    return automaton.accepts(text)


@pytest.mark.parametrize(
    "begin",
    [
        *("\x7f", "\\u007f", "\\u007F", "\\u001f", "\\n", "\x80", "\u2028", "\\/", "/", "é"),
        *(
            "\\u00e9",
            "\\u00E9",
            "\\u2028",
            "\\ud83d\\ude00",
            "\\uD83D\\uDE00",
            "\\u003c",
            "\\u0022",
        ),
    ],
)
def test_encoders_are_understood(begin: str) -> None:
    text = f'"{begin}/"'
    assert takes(PATTERN, text)
    assert takes(PATTERN, text.replace("/", "\\/"))
    json.loads(text)


@pytest.mark.parametrize(
    "begin", ["\x1f", "\\u002f", "\\u0061", "\\ud83d", "\\ude00\\ud83d", '"', "\\x41", "\\a"]
)
def test_what_is_no_json_or_what_nobody_writes(begin: str) -> None:
    assert not takes(PATTERN, f'"{begin}/"')


@pytest.mark.parametrize("character", ["\x7f", "é", "<", "😀", "\\", '"', "\n"])
def test_a_character_that_the_pattern_excludes_is_excluded_however_it_is_spelled(
    character: str,
) -> None:
    pattern = f"[^\\u{{{ord(character):x}}}]"
    units = character.encode("utf-16-be").hex()
    number = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    for text in (json.dumps(character), json.dumps(character, ensure_ascii=False), f'"{number}"'):
        assert not takes(pattern, text)
    assert not takes(pattern, f'"{number.upper()}"'.replace("\\U", "\\u"))
    assert takes(pattern, '"\\u00eb"')


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)), max_size=3), st.data())
def test_numbers_in_ranges(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    ranges = [(min(pair), max(pair)) for pair in pairs]
    edges = [edge for pair in ranges for edge in (pair[0] - 1, *pair, pair[1] + 1)]
    number = data.draw(st.integers(0, 0xFFFF) | st.sampled_from(edges or [0]))
    automaton = compile_regexes((write_numbers(ranges, 4) or "x",))
    assert automaton is not None
    is_inside = any(first <= number <= last for first, last in ranges)
    assert automaton.accepts(f"{number:04x}") == automaton.accepts(f"{number:04X}")
    if 0 <= number <= 0xFFFF:
        assert automaton.accepts(f"{number:04x}") == is_inside


ASTRAL = st.integers(0x10000, 0x10FFFF)


@given(ASTRAL, ASTRAL, ASTRAL)
@example(0x10000, 0x10FFFF, 0x1F600)
@example(0x10400, 0x10BFF, 0x10C00)
@example(0x10401, 0x10401, 0x10402)
def test_characters_beyond_16_bits(first: int, last: int, code: int) -> None:
    characters = Characters.collect([(min(first, last), max(first, last))])
    automaton = compile_regexes(("|".join(spell_numbers(characters)),))
    assert automaton is not None
    for number in (code, first, last):
        units = chr(number).encode("utf-16-be").hex()
        spelled = f"u{units[:4]}\\u{units[4:]}"
        assert automaton.accepts(spelled) == (chr(number) in characters)


@pytest.mark.parametrize("declared", ["größe", "a/b", "<tag>", "😀", "it's", 'quo"te', "x" * 80])
def test_no_escape_spells_a_declared_key(declared: str) -> None:
    keys = spell_extra_keys(FREE, [declared])
    for ascii in (True, False):
        spelled = json.dumps(declared, ensure_ascii=ascii)
        for text in (spelled, spelled.replace("/", "\\/"), spelled.replace("<", "\\u003C")):
            assert not keys.accepts(text)
    for other in ("größer", "a/c", "<tag", "é", "\x01", "&", ""):
        for ascii in (True, False):
            assert keys.accepts(json.dumps(other, ensure_ascii=ascii))


def test_of_many_sets_of_letters_the_numbers_are_left_out() -> None:
    assert is_fully_spelled(r"\p{L}")
    assert takes(r"\p{L}", '"\\u00e9"')
    assert not is_fully_spelled(r"\p{L}" * 9)
    assert takes(r"\p{L}" * 9, '"' + "é" * 9 + '"')
    assert not takes(r"\p{L}" * 9, '"' + "\\u00e9" * 9 + '"')
