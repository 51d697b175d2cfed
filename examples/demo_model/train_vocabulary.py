"""Learns the merges of the vocabulary: `python -m examples.demo_model.train_vocabulary`.

Three sorts, in this order:
1. letters within words, so that a word has the same tokens wherever it stands, and is easily
   copied: no token holds letters and a space, a quote, a digit or an underscore beside them;
2. the bytes of letters beyond ASCII;
3. the skeleton of JSON: what stands between names and values in tools and calls. These tokens begin
   with punctuation, so none of them takes the beginning of a value away.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from examples.demo_model.conversations import Conversation, draw_conversation, training_source
from examples.demo_model.dialogue import cut
from examples.demo_model.vocabulary import CONTROL, FILE
from examples.random_model.vocabulary import BYTE_LETTERS, MARKERS

SIZE = 2048
SKELETONS = 230
CONVERSATIONS = 6000
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
FOREIGN = "éèêëáàâäãåæçñíìîïóòôöõøœúùûüýßÉÖÜÄÅØÓŁłąęćśźżńřščžěůýďťňőű°€£–’“”…"
HOLE = "\0"

Word = tuple[str, ...]
Merge = tuple[str, str]


def learn(
    counts: Counter[Word], n: int, is_allowed: Callable[[Merge], bool] = lambda merge: True
) -> list[Merge]:
    """The most frequent merges, one after the other; of equals the first in Unicode order."""
    words = [(list(word), count) for word, count in sorted(counts.items())]
    merges = list[Merge]()
    pairs, places = Counter[Merge](), dict[Merge, set[int]]()
    for place in range(len(words)):
        _count(words, place, pairs, places, 1)
    while len(merges) < n:
        best = min(filter(is_allowed, pairs), key=lambda p: (-pairs[p], p), default=None)
        if best is None or pairs[best] <= 0:
            break
        merges.append(best)
        for place in sorted(places.pop(best, ())):
            _count(words, place, pairs, places, -1)
            words[place] = (apply(words[place][0], best), words[place][1])
            _count(words, place, pairs, places, 1)
    return merges


def _count(
    words: list[tuple[list[str], int]],
    place: int,
    pairs: Counter[Merge],
    places: dict[Merge, set[int]],
    sign: int,
) -> None:
    word, count = words[place]
    for pair in pairwise(word):
        pairs[pair] += sign * count
        if sign > 0:
            places.setdefault(pair, set()).add(place)


def apply(word: list[str], merge: Merge) -> list[str]:
    """A word with one merge done."""
    merged, place = list[str](), 0
    while place < len(word):
        width = 2 if tuple(word[place : place + 2]) == merge else 1
        merged.append("".join(word[place : place + width]))
        place += width
    return merged


def to_letters(text: str) -> Word:
    """Text in byte letters."""
    return tuple(BYTE_LETTERS[byte] for byte in text.encode())


def empty(value: Any) -> Any:
    """JSON with holes for what differs from tool to tool and from call to call."""
    match value:
        case dict():
            return {_key(key): empty(item) for key, item in value.items()}
        case list():
            return [empty(item) for item in value]
        case str() if value in KEYWORDS:
            return value
        case bool() | None:
            return value
        case _:
            return HOLE if isinstance(value, str) else f"{HOLE}{HOLE}"


KEYWORDS = set(
    "type function name description parameters properties required object string integer number "
    "boolean array items enum additionalProperties minimum maximum minLength maxLength format "
    "arguments".split()
)


def _key(key: str) -> str:
    return key if key in KEYWORDS else HOLE + key  # stays unique; the name is cut off below


def skeletons(conversation: Conversation) -> Iterator[str]:
    """The pieces of JSON and template between what differs."""
    texts = [f"\n{json.dumps(empty(tool))}" for tool in conversation.tools]
    for message in conversation.messages:
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(empty(call["function"]["arguments"]))
            texts.append(f'\n{{"name": "{HOLE}", "arguments": {arguments}}}\n')
        if message["role"] == "tool":
            texts.append(f"\n{message['content']}\n" if message["content"][1:2] != '"' else "\n")
    texts += ["\n\n# Tools\n<tools>\n", "\n</tools>", "user\n", "assistant\n", "system\n", "\n\n"]
    for text in texts:
        plain = re.sub(r'"\\u0000\\u0000"', HOLE, text)  # a number
        plain = re.sub(r'\\u0000[^"]*', HOLE, plain)
        yield from filter(None, plain.split(HOLE))


def train() -> list[Merge]:
    """All merges, the same ones on every run."""
    source, words, pieces = training_source(), Counter[str](), Counter[str]()
    marks = re.compile("|".join(map(re.escape, (*CONTROL, *MARKERS))))
    for seed in range(CONVERSATIONS):
        conversation = draw_conversation(source, f"vocabulary {seed}")
        text = "".join(text for text, _ in cut(conversation))
        words.update(WORD.findall(marks.sub(" ", text)))
        pieces.update(skeletons(conversation))
    foreign = [pair for letter in FOREIGN for pair in _bytes_of(letter)]
    foreign = list(dict.fromkeys(foreign))
    n_letters = SIZE - 256 - len(CONTROL) - len(MARKERS) - len(foreign) - SKELETONS
    counts = Counter({to_letters(word): count for word, count in words.items()})
    letters = learn(counts, n_letters)
    return letters + foreign + learn_skeletons(pieces, letters)


def _bytes_of(letter: str) -> Iterator[Merge]:
    first, *rest = to_letters(letter)
    for byte in rest:
        yield first, byte
        first += byte


def learn_skeletons(pieces: Counter[str], letters: list[Merge]) -> list[Merge]:
    """Merges within the skeleton, on top of those of letters."""
    counts = Counter[Word]()
    for piece, count in pieces.items():
        if any(character.isdigit() for character in piece):
            continue
        word = list(to_letters(piece))
        for merge in letters:
            word = apply(word, merge) if len(word) > 1 else word
        counts[tuple(word)] += count
    return learn(counts, SKELETONS, lambda merge: not merge[0][0].isalpha() or merge[0][0] in "ĠĊ")


if __name__ == "__main__":
    lines = [" ".join(merge) for merge in train()]
    FILE.write_text(json.dumps(lines, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
