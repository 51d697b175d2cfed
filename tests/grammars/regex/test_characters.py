"""Sets of characters."""

import sys
import unicodedata
from collections import Counter

import jsonschema_rs
import pytest

from grammars.regex import characters
from grammars.regex.characters import Characters, find_category, fold_case


def test_categories_are_found_block_by_block() -> None:
    """So that no look at a million characters keeps all other threads waiting."""
    after = 0
    for _, (first, last) in characters._categories():
        assert first == after
        after = last + 1
        assert after - first <= characters._BLOCK
    assert after == sys.maxunicode + 1


def test_a_category_has_all_of_its_characters() -> None:
    counts = Counter(map(unicodedata.category, map(chr, range(sys.maxunicode + 1))))
    for name in ("Lu", "Nd", "Zs", "Cc", "Co"):
        found = find_category(name)
        assert found is not None
        for first, last in found.ranges:
            assert unicodedata.category(chr(first)) == unicodedata.category(chr(last)) == name
        count = sum(last - first + 1 for first, last in found.ranges)
        assert count == counts[name]


@pytest.mark.parametrize(
    "cases", ["Ii", "\u0130", "\u0131", "ςσΣ", "kK\u212a", "ßẞ", "ⓐⒶ", "ⅷⅧ", "ſsS"]
)
def test_cases_are_those_of_jsonschema_rs(cases: str) -> None:
    for case in cases:
        assert fold_case(Characters.of(case)) == Characters.of(cases)
    folded = jsonschema_rs.validator_for({"pattern": f"(?i)^[^{cases[0]}]*$"})
    assert not any(map(folded.is_valid, cases))
    assert folded.is_valid("".join(set("Ii\u0130\u0131ςσkßⓐⅷſ") - set(cases)))
