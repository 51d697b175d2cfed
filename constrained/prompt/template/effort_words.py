"""Finds which words for the effort of reasoning a chat template knows: it may take every word but
two for its highest effort."""

import re
from collections.abc import Callable
from dataclasses import dataclass

GRADES = ("minimal", "low", "medium", "high", "xhigh", "max")
"""Words for efforts in APIs and templates."""
_UNKNOWN = "unheard"


@dataclass(frozen=True)
class EffortWords:
    """What the words for efforts mean to a template: those with a meaning of their own (empty if it
    writes any word, or none), and those that it takes for the grade that unknown ones mean."""

    known: frozenset[str] = frozenset()
    taken_for_other: frozenset[str] = frozenset()


def read_effort_words(write: Callable[[str], str | None]) -> EffortWords:
    """Finds what the words mean; `write` renders the prompt with one, None: it is refused."""
    texts = {grade: write(grade) for grade in GRADES}
    other = write(_UNKNOWN)
    told = [grade for grade, text in texts.items() if text is not None and text != other]
    if other is None or not told:
        return EffortWords(frozenset(told))
    if _names(other, _UNKNOWN):
        return EffortWords()
    same = [grade for grade, text in texts.items() if text == other]
    told_texts = [texts[grade] or "" for grade in told]
    meant = [
        grade
        for grade in same
        if _names(other, grade) and not any(_names(text, grade) for text in told_texts)
    ]
    if len(meant) != 1:
        return EffortWords(frozenset(told))
    return EffortWords(frozenset([*told, *meant]), frozenset(same).difference(meant))


def _names(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None
