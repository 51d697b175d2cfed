"""Ranks tools by the words of a query: Okapi BM25 over names, descriptions and parameters.

A word of the name counts more than one of a description (as in BM25F, each field has a weight).
Documents with equal scores keep their order, so the same query always gives the same result.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

SATURATION, LENGTH = 1.2, 0.75  # k1 and b of BM25
MAX_CHARACTERS = 16_384
"""The characters of a text that are read; what comes later is not found."""
_ACCENTS = range(0x300, 0x370)
_MAX_MARKS = 30
"""Marks in a row that are read, as in Unicode's Stream-Safe Text Format: the time to order them
grows with the square of their number, and other threads wait."""
_UNSPACED = (range(0x0E00, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800))  # Thai to Khmer


class WordIndex:
    """An index of documents, each given as texts with the weights of their words."""

    def __init__(self, documents: Sequence[Sequence[tuple[str, float]]]):
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._lengths: list[float] = []
        for number, fields in enumerate(documents):
            counts: dict[str, float] = defaultdict(float)
            for text, weight in fields:
                for word, count in Counter(split_words(text)).items():
                    counts[word] += weight * count
            for word, count in counts.items():
                self._postings[word].append((number, count))
            self._lengths.append(sum(counts.values()))
        self._mean_length = sum(self._lengths) / max(1, len(documents)) or 1.0

    def rank(self, query: str) -> list[int]:
        """Returns the numbers of the documents with a word of the query, the best first."""
        scores: dict[int, float] = defaultdict(float)
        for word, count in Counter(split_words(query)).items():
            postings = self._postings.get(word, [])
            others = len(self._lengths) - len(postings)
            rarity = math.log(1 + (others + 0.5) / (len(postings) + 0.5))
            for number, frequency in postings:
                length = self._lengths[number] / self._mean_length
                room = SATURATION * (1 - LENGTH + LENGTH * length)
                scores[number] += count * rarity * frequency / (frequency + room)
        return sorted(scores, key=lambda number: (-scores[number], number))


def split_words(text: str) -> list[str]:
    """Returns the words of a text in any language, without case, accents and plural endings.

    `getUserByID`, `get_user_by_id` and `get.user-by id` have the same words. Scripts that write no
    spaces between words give pairs of characters. Of a long text, only the first `MAX_CHARACTERS`
    count.
    """
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFC", _drop_accents(text))
    words: list[str] = []
    for run in _split_runs(text):
        if _is_unspaced(run[0]):
            pairs = [run[place : place + 2] for place in range(len(run) - 1)]
            words += pairs or [run]
        else:
            words.append(_drop_plural(run.casefold()))
    return words


def _drop_accents(text: str) -> str:
    """Returns the text with its characters decomposed, without accents."""
    kept: list[str] = []
    marks = 0
    for whole in text:
        for character in unicodedata.normalize("NFKD", whole):
            if ord(character) in _ACCENTS:
                continue
            marks = marks + 1 if unicodedata.combining(character) else 0
            if marks <= _MAX_MARKS:
                kept.append(character)
    return "".join(kept)


def _split_runs(text: str) -> list[str]:
    """Splits a text into words: at all but letters and digits, before a capital that begins a word,
    and between scripts with spaces and those without."""
    runs: list[str] = []
    start: int | None = None  # of the word that goes on
    for place, character in enumerate(text):
        is_part = character.isalnum() or unicodedata.category(character).startswith("M")
        if start is not None and (not is_part or _begins_word(text, place)):
            runs.append(text[start:place])
            start = None
        if is_part and start is None:
            start = place
    if start is not None:
        runs.append(text[start:])
    return runs


def _begins_word(text: str, place: int) -> bool:
    """Returns whether a word begins at a character that follows another one of a word."""
    before, character, after = text[place - 1], text[place], text[place + 1 : place + 2]
    if _is_unspaced(character) != _is_unspaced(before):
        return not unicodedata.category(character).startswith("M")
    if not character.isupper():
        return False
    return not before.isupper() or after.islower()  # userID, IDCard


def _is_unspaced(character: str) -> bool:
    if ord(character) < _UNSPACED[0].start:
        return False
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return True
    return any(ord(character) in block for block in _UNSPACED)


def _drop_plural(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word
