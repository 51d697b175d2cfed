"""Trains the small vocabulary: `python -m examples.random_model.train_vocabulary OUT.json`.

A byte-level BPE with 256 bytes and 700 merges, trained on text made up here: sentences about
tools, JSON and XML tool calls, and some letters beyond ASCII, so that there are tokens that end
in the middle of a character. The result is the same on every run.
"""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from examples.random_model.vocabulary import BYTE_LETTERS

N_MERGES = 700
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# Qwen2's pre-tokenizer in Python's syntax. Both agree on the text below: `\w` without digits and
# underscore is "letter" there.
PIECES = re.compile(
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
    r"|(?:[^\r\n\w]|_)?[^\W\d_]+"
    r"|\d"
    r"| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SUBJECTS = (
    "the user|the assistant|the model|this function|the tool|a request|the answer|the weather|"
    "my calendar|our server|the city|your message|each result|the list|every document|I|you|we"
)
VERBS = (
    "returns|needs|calls|checks|finds|shows|sends|reads|writes|creates|deletes|updates|searches|"
    "converts|translates|opens|wants|uses|would like|should know|can help with|is about"
)
OBJECTS = (
    "the current temperature|a short description|the number of days|an email address|the file|"
    "a list of names|the time zone|all parameters|the location|some information|the first line|"
    "a new event|the price in euros|the next question|the following arguments|the output|"
    "café à la carte|ein schönes Gespräch|naïve Übung|déjà vu|日本語の文字|中文信息|"
    "привет мир|😀🎉👍"
)
TAILS = ".|,|?|!| for today.| in Paris.| in New York, please.|: thinking, then doing.|; it's done."
FUNCTIONS = (
    "get_weather|search_files|send_email|create_event|convert_units|translate_text|run_query|"
    "set_alarm|list_items|read_document|book_flight|calculate_sum"
)
KEYS = (
    "location|unit|city|query|path|limit|subject|body|date|start_time|recipients|language|count|"
    "text|amount|enabled|items|value|name|type|description"
)
VALUES = (
    '"celsius"|"fahrenheit"|"Berlin, Germany"|"San Francisco, CA"|"/home/user/notes.txt"|12|-3.5|'
    '2024|true|false|null|["a", "b"]|[1, 2, 3]|{"id": 7, "tags": []}|"Hello, world!"|""|"10:30"|'
    '"a \\"quoted\\" word\\n"|{"type": "string", "required": true}|"Zürich"|"東京"|"❤️"'
)


def training_text() -> Iterator[str]:
    """Yields the same documents on every run: sentences and tool calls in several formats."""
    source = random.Random(20240607)

    def pick(choices: str) -> str:
        return source.choice(choices.split("|"))

    for _ in range(400):
        yield f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)}{pick(TAILS)} ".capitalize()
        name = pick(FUNCTIONS)
        pairs = {pick(KEYS): pick(VALUES) for _ in range(source.randint(1, 3))}
        spaced = ", ".join(f'"{key}": {value}' for key, value in pairs.items())
        dense = ",".join(f'"{key}":{value}' for key, value in pairs.items())
        lines = ",\n".join(f'    "{key}": {value}' for key, value in pairs.items())
        tags = "".join(
            f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in pairs.items()
        )
        yield f'<tool_call>\n{{"name": "{name}", "arguments": {{{spaced}}}}}\n</tool_call>\n'
        yield f'[TOOL_CALLS][{{"name":"{name}","arguments":{{{dense}}}}}]'
        yield f'```json\n{{\n  "name": "{name}",\n  "parameters": {{\n{lines}\n  }}\n}}\n```\n'
        yield f"<tool_call>\n<function={name}>\n{tags}</function>\n</tool_call>\n\n"
        yield f"<think>\n{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)}.\n</think>\n\n"
        yield f"{name}({', '.join(f'{key}={value}' for key, value in pairs.items())})\n"


def train(n_merges: int) -> list[tuple[str, str]]:
    """Returns the merges, in byte letters, in the order in which they were found.

    The most frequent pair is merged first; of equally frequent ones, the first in Unicode order.
    """
    counts = Counter(piece for text in training_text() for piece in PIECES.findall(text))
    words = [
        ([BYTE_LETTERS[byte] for byte in piece.encode()], count)
        for piece, count in sorted(counts.items())
    ]
    pairs = Counter[tuple[str, str]]()
    for word, count in words:
        _count(pairs, word, count)
    merges: list[tuple[str, str]] = []
    while len(merges) < n_merges:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for place, (word, count) in enumerate(words):
            merged = _merge(word, best)
            if len(merged) < len(word):
                _count(pairs, word, -count)
                _count(pairs, merged, count)
                words[place] = (merged, count)
    return merges


def _count(pairs: Counter[tuple[str, str]], word: list[str], count: int) -> None:
    for pair in pairwise(word):
        pairs[pair] += count


def _merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    place = 0
    while place < len(word):
        width = 2 if tuple(word[place : place + 2]) == pair else 1
        merged.append("".join(word[place : place + width]))
        place += width
    return merged


def main(arguments: list[str]) -> None:
    """Trains, and writes the vocabulary as JSON to the one path in `arguments`."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m examples.random_model.train_vocabulary OUT.json")
    merges = train(N_MERGES)
    vocabulary = {
        "pre": "qwen2",
        "control": CONTROL,
        "tokens": [*BYTE_LETTERS.values(), *(left + right for left, right in merges)],
        "merges": [f"{left} {right}" for left, right in merges],
    }
    text = json.dumps(vocabulary, ensure_ascii=False, indent=0)
    Path(arguments[0]).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
