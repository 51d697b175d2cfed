"""Sets of characters, as ranges of code points."""

import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, pairwise

import jsonschema_rs

from grammars.limits.byte_cache import MIB, keep_results

_SCALARS = ((0, 0xD7FF), (0xE000, sys.maxunicode))
"""All code points except the surrogates, which UTF-8 cannot encode."""
_BLOCK = 4_096  # characters; a divisor of the number of all
_PLEASANT = "a0A-_ .:/" + "".join(map(chr, range(0x21, 0x7F))) + "\n\t\r"
"""The order in which a character is chosen to represent a set, the plainest first."""
_LONG_NAMES = {
    "Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Mark": "M", "Number": "N",
    "Decimal_Number": "Nd", "Punctuation": "P", "Symbol": "S", "Separator": "Z", "Other": "C",
}  # fmt: skip


@dataclass(frozen=True)
class Characters:
    """A set of characters; `ranges` are sorted, disjoint, not adjacent, and include both ends."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def collect(cls, ranges: Iterable[tuple[int, int]]) -> "Characters":
        """Returns the union of these ranges, without surrogates."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(_cut(ranges)):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def of(cls, text: str) -> "Characters":
        return _collect_text(text)

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.ranges]

    def __contains__(self, character: str) -> bool:
        code = ord(character)
        i = bisect_right(self._firsts, code)
        return i > 0 and code <= self.ranges[i - 1][1]

    def complement(self) -> "Characters":
        gaps: list[tuple[int, int]] = []
        before = 0
        for first, last in self.ranges:
            gaps.append((before, first - 1))
            before = last + 1
        gaps.append((before, sys.maxunicode))
        return Characters(tuple(_cut(gap for gap in gaps if gap[0] <= gap[1])))

    def intersect(self, other: "Characters") -> "Characters":
        excluded = [*self.complement().ranges, *other.complement().ranges]
        return Characters.collect(excluded).complement()


EVERY = Characters(_SCALARS)


def _cut(ranges: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for first, last in ranges:
        if last <= _SCALARS[0][1]:  # as nearly all are
            yield first, last
            continue
        for low, high in _SCALARS:
            if max(first, low) <= min(last, high):
                yield max(first, low), min(last, high)


@keep_results("regexes", MIB)
def _collect_text(text: str) -> Characters:
    return Characters.collect((ord(c), ord(c)) for c in text)


@lru_cache(maxsize=64)
def find_category(name: str) -> Characters | None:
    """Returns a general category of Unicode (`L`, `Lu`, `Letter`); None: there is no such one."""
    name = _LONG_NAMES.get(name, name)
    if len(name) > 2:
        return None
    found = [part for category, part in _categories() if category.startswith(name)]
    return Characters.collect(found) if found else None


@lru_cache(maxsize=1)
def _categories() -> list[tuple[str, tuple[int, int]]]:
    """Returns all characters, cut where the category changes (150 ms) and at the ends of blocks: a
    search of a million characters at once would block all other threads."""
    runs: list[tuple[str, tuple[int, int]]] = []
    for begin in range(0, sys.maxunicode + 1, _BLOCK):
        first = begin
        block = map(chr, range(begin, begin + _BLOCK))
        for category, run in groupby(map(unicodedata.category, block)):
            after = first + len(list(run))
            runs.append((category, (first, after - 1)))
            first = after
    return runs


@keep_results("regexes", 8 * MIB)
def pick_representatives(sets: frozenset[Characters]) -> tuple[str, ...]:
    """Picks one character, the plainest, for each distinct combination of these sets."""
    borders = {border for s in sets for low, high in s.ranges for border in (low, high + 1)}
    cells = [chr(b) for b in sorted(borders) if b <= sys.maxunicode and chr(b) in EVERY]
    ordered = list(sets)
    kinds: dict[tuple[bool, ...], str] = {}
    for character in (*_PLEASANT, *cells):
        kinds.setdefault(tuple(character in s for s in ordered), character)
    return tuple(c for kind, c in kinds.items() if any(kind))


def partition(sets: Iterable[Characters]) -> list[Characters]:
    """Splits the union into disjoint sets: characters that are in the same sets stay together."""
    ordered = list(sets)
    borders = {border for s in ordered for low, high in s.ranges for border in (low, high + 1)}
    kinds: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
    for first, after in pairwise(sorted(borders)):
        if chr(first) in EVERY:
            kind = tuple([chr(first) in s for s in ordered])
            if any(kind):
                kinds.setdefault(kind, []).append((first, after - 1))
    return [Characters.collect(ranges) for ranges in kinds.values()]


@keep_results("regexes", 4 * MIB)
def find_property(name: str) -> Characters | None:
    """Returns the characters with a property of Unicode, such as `Script=Greek`, `Emoji` or a
    general category; None: there is no such property. Python only knows categories. The others are
    asked of jsonschema-rs: blocks of characters in which all or none have the property, halved
    until they are found."""
    known = find_category(name.removeprefix("General_Category=").removeprefix("gc="))
    if known is not None:
        return known
    try:
        has_all = jsonschema_rs.validator_for({"pattern": rf"^\p{{{name}}}*$"}).is_valid
        has_none = jsonschema_rs.validator_for({"pattern": rf"^\P{{{name}}}*$"}).is_valid
    except ValueError:
        return None
    found: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    for low, high in _SCALARS:
        blocks += [(first, min(first + _BLOCK - 1, high)) for first in range(low, high + 1, _BLOCK)]
    while blocks:
        first, last = blocks.pop()
        text = "".join(map(chr, range(first, last + 1)))
        if has_none(text):
            continue
        if has_all(text):
            found.append((first, last))
            continue
        middle = (first + last) // 2
        blocks += [(first, middle), (middle + 1, last)]
    return Characters.collect(found)


@keep_results("regexes", MIB)
def fold_case(characters: Characters) -> Characters:
    """Returns these characters and their other cases."""
    folded = list(characters.ranges)
    places, cases = _cases()
    for low, high in characters.ranges:
        for index in range(bisect_left(places, low), bisect_right(places, high)):
            folded += [(case, case) for case in cases[index]]
    return Characters.collect(folded)


@lru_cache(maxsize=1)
def _cases() -> tuple[list[int], list[list[int]]]:
    """Returns the characters that have other cases, in order, and for each all of its cases."""
    found: dict[str, list[int]] = {}
    for category, (first, last) in _categories():
        text = "".join(map(chr, range(first, last + 1)))
        if category[0] not in "LMNS" or text.casefold() == text:
            continue
        for character in text:
            folded = character.casefold()
            if folded != character:
                found.setdefault(folded, [ord(folded)] if len(folded) == 1 else [])
                found[folded].append(ord(character))
    groups = {case: cases for cases in found.values() if len(cases) > 1 for case in cases}
    return sorted(groups), [groups[case] for case in sorted(groups)]
