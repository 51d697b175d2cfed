"""Words that mean the same, or something narrower: the tool has one of them, the request another.

They are of WordNet (families/thesaurus.txt, written by make_thesaurus).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from examples.demo_model.families import FOLDER
from examples.demo_model.words import Words, is_held_out

OTHERS = (
    "I want to {} {{o}}{{f}}", "time to {} {{o}}{{f}}", "I'd like to {} {{a}}{{f}}",
    "I have to {} {{o}}{{f}}", "is there a way to {} {{o}}{{f}}?", "can we {} {{o}}{{f}}?",
)  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """One meaning.

    Attributes:
        words: the most common one first.
        kinds: words for something narrower; of nouns.
        gloss: what WordNet says about it; may be empty.
    """

    words: tuple[str, ...]
    kinds: tuple[str, ...]
    gloss: str


@lru_cache(maxsize=1)
def read_meanings() -> dict[str, tuple[Meaning, ...]]:
    """The meanings of verbs and of nouns, the most common first, without the words that only
    evaluation says."""
    found: dict[str, list[Meaning]] = {"verb": [], "noun": []}
    for line in (FOLDER / "thesaurus.txt").read_text(encoding="utf-8").splitlines():
        part, words, kinds, gloss = (field.strip() for field in line.split(" :"))
        is_trained = not any(map(is_held_out, re.findall(r"\w+", gloss)))
        meaning = Meaning(_trained(words), _trained(kinds), gloss if is_trained else "")
        if len(meaning.words + meaning.kinds) > 1 and meaning.words:
            found[part].append(meaning)
    return {part: tuple(meanings) for part, meanings in found.items()}


def _trained(listed: str) -> tuple[str, ...]:
    words = (word.strip() for word in listed.split(","))
    return tuple(w for w in words if w and not any(map(is_held_out, w.split())))


def draw_meaning(part: str, words: Words) -> Meaning:
    """A meaning of a "verb" or a "noun"; more often a common one."""
    meanings = read_meanings()[part]
    return meanings[int(words.random.random() ** 2 * len(meanings))]
