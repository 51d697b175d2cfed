"""Where a raw string ends among arguments by keyword, such as those of a call in Python.

Such a string escapes nothing, not even its quote. So a quote ends it only in front of what can
follow: the key of another argument, another call, or what closes all calls.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from grammars.regex.texts import ANY, SPACES, Texts, match_words
from grammars.regex.writing import escape_regex
from grammars.schema.nodes import Schema
from grammars.wire.format import LONGEST_NAME, Fixed, Format, KeywordArguments, Name, Node

_CHARACTER = rf"""[^\x00-\x20{SPACES}=,()\[\]{{}}'"<>]"""
WORD = f"{_CHARACTER}{{1,{LONGEST_NAME}}}"
"""A regular expression for a key or name."""


def is_word(text: str) -> bool:
    """Can a key or name be written so?"""
    return re.fullmatch(WORD, text) is not None


def is_key(key: str, hole: KeywordArguments) -> bool:
    """Can the key of an argument be written so? Not if it has what ends a key."""
    return is_word(key) and (key + hole.after_key).find(hole.after_key) == len(key)


@dataclass(frozen=True)
class Around:
    """What a format writes around the arguments of a call, whether there are any or not.

    Args:
        opener: what stands between name and arguments.
        closer: what stands behind the arguments of every call.
        between: what stands between that and the next name.
        closing: what stands behind the last `closer`.
    """

    opener: str
    closer: str
    between: str
    closing: str

    def next(self, name: str) -> str:
        """What follows the arguments where another call does."""
        return self.closer + self.between + name + self.opener

    @property
    def end(self) -> str:
        """What follows the last arguments."""
        return self.closer + self.closing


def find_around(format: Format) -> Around:
    """What the format writes around arguments."""
    nodes = format.call
    name = nodes.index(Name())
    hole = next(i for i, node in enumerate(nodes) if isinstance(node, KeywordArguments))
    between = format.between + spell_fixed(nodes[:name])
    closing = spell_fixed(format.closing)
    return Around(
        spell_fixed(nodes[name + 1 : hole]), spell_fixed(nodes[hole + 1 :]), between, closing
    )


def list_starts(format: Format, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The texts that bare calls of these tools begin with; see `Format.bare_start`. In Python the
    name is one of them, for a bracket could stand in front of any text."""
    if not isinstance(format.bare, KeywordArguments):
        return (format.bare_start,)
    opener = find_around(format).opener
    return tuple((*format.bare_start, name + opener) for name in names)


def spell_fixed(nodes: Sequence[Node]) -> str:
    """The texts of these nodes."""
    return "".join(node.text for node in nodes if isinstance(node, Fixed))


@dataclass(frozen=True)
class Ends:
    """What can stand behind a string.

    Args:
        texts: these.
        closer: what stands behind the arguments.
        words: and any key or name between these two.
    """

    texts: tuple[str, ...]
    closer: str
    words: tuple[tuple[str, str], ...] = ()

    def write_regex(self, quote: str) -> str:
        """A regular expression for a quote and what can stand behind it."""
        options = [*map(escape_regex, self.texts)]
        options += [escape_regex(a) + WORD + escape_regex(b) for a, b in self.words]
        return f"{escape_regex(quote)}({'|'.join(options)})"

    @cached_property
    def _begun(self) -> re.Pattern[str]:
        """The beginnings of what stands around any word."""
        return re.compile("|".join(_begin(*pair) for pair in self.words) or "(?!)")

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.write_regex(""))

    def begins(self, rest: str) -> bool:
        """Is that text the beginning of what can follow, and no more?"""
        return any(text.startswith(rest) for text in self.texts) or bool(
            self._begun.fullmatch(rest)
        )

    def find(self, text: str, at: int, quote: str) -> tuple[int, bool]:
        """Up to which index the text is a string, and whether it ends there; if not, more of the
        text decides of what is behind."""
        while (at := text.find(quote, at)) >= 0:
            behind = at + len(quote)
            if self._whole.match(text, behind):
                return at, True
            if self.begins(text[behind:]):
                return at, False
            at += 1
        return len(text), False

    def holds(self, text: str, quote: str) -> bool:
        """Can a string be this text?"""
        return not self.find(text, 0, quote)[1]


def _begin(before: str, after: str) -> str:
    regex = ""
    for part in reversed([*map(re.escape, before), WORD, *map(re.escape, after[:-1])]):
        regex = f"(?:{part}{regex})?"
    return regex


def find_keys(schema: Schema | None) -> tuple[tuple[str, ...], bool]:
    """The keys that a schema declares, and whether there may be others; any without a schema."""
    if schema is None:
        return (), True
    keys = (p.key for branch in schema.objects for p in branch.properties)
    return tuple(dict.fromkeys(keys)), any(o.extras for o in schema.objects)


def find_extra_keys(declared: Sequence[str], keys: Texts, hole: KeywordArguments) -> Texts:
    """Those of these keys that can be written and are not declared."""
    without = match_words(declared)
    if is_word(hole.after_key):
        without += (f"{ANY}{escape_regex(hole.after_key)}{ANY}",)
    return Texts((WORD,), without).both(keys)


def find_ends(format: Format, names: Iterable[str], schema: Schema | None) -> Ends:
    """What can stand behind a string.

    Args:
        format: one whose arguments are `KeywordArguments`.
        names: those of all tools; if there are none, a call may have any.
        schema: that of the arguments; None for an unknown tool.
    """
    hole, around, known = format.hole, find_around(format), tuple(names)
    assert isinstance(hole, KeywordArguments)
    keys, is_open = find_keys(schema)
    texts = [hole.last + text for text in (around.end, *map(around.next, known))]
    texts += [hole.item + key + hole.after_key for key in keys if is_key(key, hole)]
    words = [(hole.item, hole.after_key)] if is_open else []
    words += [] if known else [(hole.last + around.closer + around.between, around.opener)]
    return Ends(tuple(texts), around.closer, tuple(words))
