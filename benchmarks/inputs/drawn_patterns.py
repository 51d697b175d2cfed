"""Regular expressions of ECMA 262, drawn at random, and texts for any of them: some that match,
some that almost do. They are read with Python's own parser, without our automata."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from re import _constants as code  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

_ATOMS = ("a", "b", "c", "A", "1", "-", "_", " ", "é", "x", "\\.", "\\/", ".", "foo", "ab")
_ATOMS += ("\\t", "\\u0061", "\\x41", "\\$", "\\-")
_CLASSES = ("\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "[a-c]", "[^a-c]", "[\\w-]", "[A-Za-z0-9]")
_CLASSES += ("[^\\s@]", "[^\\d\\n]", "[.]", "[a\\-\\]]", "[\\b]", "[^]", "[-a]", "[$^|]", "[\\da]")
_REPEATS = ("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{0}")
_PROPERTIES = ("\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{Script=Greek}", "[\\p{L}\\d]", "\\p{Nd}")
FEATURES: Mapping[str, str] = {
    "look-ahead": r"\(\?=",
    "negative look-ahead": r"\(\?!",
    "look-behind": r"\(\?<=",
    "negative look-behind": r"\(\?<!",
    "word boundary": r"\\b",
    "no word boundary": r"\\B",
    "lazy quantifier": r"[*+?}]\?",
    "named group": r"\(\?<[a-z]",
    "property": r"\\[pP]\{",
    "back reference": r"\\[1-9]|\\k<",
    "anchor inside": r"(?<=.)(?<![\\[])\^|(?<!\\)\$(?=.)",
    "lone bracket": r"^[^\[]*\]|^[^{]*\}|\{(?![0-9])",
}
"""The features of a pattern by name, each with an expression that finds most of its uses."""
_LOOKS = {"look-ahead": "=", "negative look-ahead": "!", "look-behind": "<="}
_LOOKS |= {"negative look-behind": "<!"}
_COMMON = "abAZ019 _-.@é\u03b1\n"
_CATEGORIES = {
    code.CATEGORY_DIGIT: ("0", "5", "9"),
    code.CATEGORY_NOT_DIGIT: ("a", " ", "é"),
    code.CATEGORY_WORD: ("a", "Z", "0", "_"),
    code.CATEGORY_NOT_WORD: (" ", "-", "é", "\n"),
    code.CATEGORY_SPACE: (" ", "\t", "\n", "\u00a0", "\ufeff"),
    code.CATEGORY_NOT_SPACE: ("a", "0", "é"),
}
_LONGEST = 300  # characters of a text
_MOST = 4  # repetitions beyond the least
_ASSERTED = 0.5  # how often a text has, at its place, what is asserted
_TRANSLATED = (
    (r"\\p\{[^}]*\}", "a-zA-Zé"),
    (r"\(\?<(?=[A-Za-z])", "(?P<"),
    (r"\\k<(\w+)>", r"(?P=\1)"),
)


def draw_pattern(rng: random.Random) -> str:
    """Returns a pattern with a few features. It may be none that ECMA 262 knows."""
    chosen = rng.sample([*FEATURES], rng.choice((0, 1, 1, 2, 2, 3)))
    drawn = _PatternDraw(rng, chosen)
    body = drawn.alternatives(depth=0)
    if rng.random() < 0.6:
        body = f"^{body}"
    return f"{body}$" if rng.random() < 0.6 else body


class _PatternDraw:
    """A pattern under way; `chosen` are the features that it may have."""

    def __init__(self, rng: random.Random, chosen: Sequence[str]):
        self._rng = rng
        self._chosen = chosen
        self._groups = 0

    def alternatives(self, depth: int) -> str:
        """Returns a few sequences with `|` between them."""
        count = 1 if self._rng.random() < 0.75 else 2
        return "|".join(self._sequence(depth) for _ in range(count))

    def _sequence(self, depth: int) -> str:
        return "".join(self._term(depth) for _ in range(self._rng.randint(1, 4 - min(depth, 2))))

    def _term(self, depth: int) -> str:
        if self._chosen and self._rng.random() < 0.4:
            return self._feature(self._rng.choice(self._chosen), depth)
        draw = self._rng.random()
        if draw < 0.2 and depth < 3:
            opening = "(" if self._rng.random() < 0.4 else "(?:"
            self._groups += opening == "("
            atom = f"{opening}{self.alternatives(depth + 1)})"
        else:
            atom = self._rng.choice(_CLASSES if draw < 0.5 else _ATOMS)
            atom = f"(?:{atom})" if len(atom) > 1 and atom.isalpha() else atom
        return atom + (self._rng.choice(_REPEATS) if self._rng.random() < 0.4 else "")

    def _feature(self, name: str, depth: int) -> str:
        inner = self.alternatives(depth + 1) if depth < 3 else self._rng.choice(_ATOMS)
        match name:
            case "word boundary":
                return "\\b"
            case "no word boundary":
                return "\\B"
            case "lazy quantifier":
                return f"(?:{inner}){self._rng.choice(_REPEATS)}?"
            case "named group":
                self._groups += 1
                return f"(?<n{self._groups}>{inner})"
            case "property":
                return self._rng.choice(_PROPERTIES)
            case "back reference":
                return f"\\{self._rng.randint(1, self._groups)}" if self._groups else f"({inner})"
            case "anchor inside":
                return self._rng.choice("^$")
            case "lone bracket":
                return self._rng.choice("]{}")
            case _:
                look = f"(?{_LOOKS[name]}{inner})"
                return (
                    f"(?:{look}{self._rng.choice(_ATOMS)})+" if self._rng.random() < 0.2 else look
                )


def draw_text(pattern: str, rng: random.Random) -> str:
    """Returns a text that is made to match; a random one where Python cannot read the pattern."""
    alphabet = sorted(set(_COMMON) | {c for c in pattern if c.isprintable()})
    parsed = _parse(pattern)
    if parsed is None:
        return "".join(rng.choices(alphabet, k=rng.randint(0, 8)))
    text = _TextDraw(rng, alphabet).draw(parsed)
    if rng.random() < 0.2:
        text = rng.choice(alphabet) + text + rng.choice(alphabet)
    return text[:_LONGEST]


def draw_texts(pattern: str, count: int, rng: random.Random) -> list[str]:
    """Returns texts, no two alike, at most so many: half are made to match, the others are those
    with a character or two changed, or random."""
    alphabet = sorted(set(_COMMON) | {c for c in pattern if c.isprintable()})
    texts = {"": None}
    for number in range(count - 1):
        if number % 8 == 0:
            text = "".join(rng.choices(alphabet, k=rng.randint(0, 8)))
        else:
            text = draw_text(pattern, rng)
        texts[text if number % 2 else _edit(text, alphabet, rng)] = None
    return [*texts]


def _edit(text: str, alphabet: Sequence[str], rng: random.Random) -> str:
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(["", *alphabet]) + text[at + rng.randint(0, 1) :]
    return text


def _parse(pattern: str) -> Any:
    for found, replacement in _TRANSLATED:
        pattern = re.sub(found, replacement, pattern)
    try:
        return parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


class _TextDraw:
    """A text under way, for what Python's parser has read."""

    def __init__(self, rng: random.Random, alphabet: Sequence[str]):
        self._rng = rng
        self._alphabet = alphabet
        self._groups: dict[int, str] = {}

    def draw(self, parsed: Any) -> str:
        """Returns a text for a sequence."""
        return "".join(self._draw_part(*part) for part in parsed)

    def _draw_part(self, kind: Any, value: Any) -> str:
        match str(kind):
            case "LITERAL":
                return chr(value)
            case "NOT_LITERAL":
                return self._draw_class([(code.NEGATE, None), (code.LITERAL, value)])
            case "ANY":
                return self._rng.choice(self._alphabet)
            case "IN":
                return self._draw_class(value)
            case "BRANCH":
                return self.draw(self._rng.choice(value[1]))
            case "SUBPATTERN":
                self._groups[value[0]] = text = self.draw(value[3])
                return text
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = value
                most = min(int(most), least + _MOST)
                return "".join(self.draw(inner) for _ in range(self._rng.randint(least, most)))
            case "ASSERT" | "ASSERT_NOT":
                return self.draw(value[1]) if self._rng.random() < _ASSERTED else ""
            case "GROUPREF":
                return self._groups.get(value, "")
            case _:
                return ""

    def _draw_class(self, members: Sequence[tuple[Any, Any]]) -> str:
        if members[0][0] is not code.NEGATE:
            return self._rng.choice([*_list_members(self._rng.choice(members), self._rng)])
        excluded: set[str] = set()
        for member in members[1:]:
            excluded |= {c for c in self._alphabet if _has(member, c)}
        return self._rng.choice([*(set(self._alphabet) - excluded)] or ["a"])


def _list_members(member: tuple[Any, Any], rng: random.Random) -> Iterator[str]:
    kind, value = member
    if kind is code.LITERAL:
        yield chr(value)
    elif kind is code.RANGE:
        yield from map(chr, (*value, rng.randint(*value)))
    else:
        yield from _CATEGORIES[value]


def _has(member: tuple[Any, Any], character: str) -> bool:
    kind, value = member
    if kind is code.LITERAL:
        return ord(character) == value
    if kind is code.RANGE:
        return value[0] <= ord(character) <= value[1]
    return character in _CATEGORIES[value] or {
        code.CATEGORY_DIGIT: character.isdigit(),
        code.CATEGORY_WORD: character.isalnum() and character.isascii(),
        code.CATEGORY_SPACE: character.isspace(),
    }.get(value, False)
