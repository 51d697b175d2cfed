"""Finds the end of a raw string among keyword arguments, such as those of a call in Python.

Such a string escapes nothing, not even its quote. So a quote ends it only before a text that can
follow: the key of another argument, another call, or the closer of all calls.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from grammars.regex.texts import ANY, SPACES, Texts, match_words
from grammars.regex.writing import escape_regex
from grammars.schema.nodes import Schema
from grammars.wire.format import MAX_NAME_LENGTH, Fixed, Format, KeywordArguments, Name, Node

_CHARACTER = rf"""[^\x00-\x20{SPACES}=,()\[\]{{}}'"<>]"""
WORD = f"{_CHARACTER}{{1,{MAX_NAME_LENGTH}}}"
"""A regular expression for a key or name."""


def is_word(text: str) -> bool:
    """Returns whether the text is a key or name in this syntax."""
    return re.fullmatch(WORD, text) is not None


def is_key(key: str, hole: KeywordArguments) -> bool:
    """Returns whether an argument may have this key: it must not contain the text that ends
    keys."""
    return is_word(key) and (key + hole.after_key).find(hole.after_key) == len(key)


@dataclass(frozen=True)
class EnclosingTexts:
    """The texts that a format writes around the arguments of a call, even if there are none.

    Args:
        opener: the text between name and arguments.
        closer: the text after the arguments of every call.
        between: the text between `closer` and the next name.
        closing: the text after the last `closer`.
    """

    opener: str
    closer: str
    between: str
    closing: str

    def next(self, name: str) -> str:
        """Returns the text from the arguments to those of the next call, which has this name."""
        return self.closer + self.between + name + self.opener

    @property
    def end(self) -> str:
        """The text after the arguments of the last call."""
        return self.closer + self.closing


def find_enclosing_texts(format: Format) -> EnclosingTexts:
    """Returns the texts that the format writes around arguments."""
    nodes = format.call
    name = nodes.index(Name())
    hole = next(i for i, node in enumerate(nodes) if isinstance(node, KeywordArguments))
    between = format.between + spell_fixed(nodes[:name])
    closing = spell_fixed(format.closing)
    return EnclosingTexts(
        opener=spell_fixed(nodes[name + 1 : hole]),
        closer=spell_fixed(nodes[hole + 1 :]),
        between=between,
        closing=closing,
    )


def list_starts(format: Format, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the texts that bare calls of these tools begin with; see `Format.bare_start`. For
    calls in Python, this includes the name, since any text may begin with a bracket."""
    if not isinstance(format.bare, KeywordArguments):
        return (format.bare_start,)
    opener = find_enclosing_texts(format).opener
    return tuple((*format.bare_start, name + opener) for name in names)


def spell_fixed(nodes: Sequence[Node]) -> str:
    """Returns the text of these nodes."""
    return "".join(node.text for node in nodes if isinstance(node, Fixed))


@dataclass(frozen=True)
class StringEnds:
    """The texts that can follow a string.

    Args:
        texts: fixed texts.
        closer: the text after the arguments.
        words: pairs of texts: between the two, any key or name may stand.
    """

    texts: tuple[str, ...]
    closer: str
    words: tuple[tuple[str, str], ...] = ()

    def write_regex(self, quote: str) -> str:
        """Returns a regular expression for a quote and a text that can follow it."""
        options = [*map(escape_regex, self.texts)]
        options += [escape_regex(a) + WORD + escape_regex(b) for a, b in self.words]
        return f"{escape_regex(quote)}({'|'.join(options)})"

    @cached_property
    def _begun(self) -> re.Pattern[str]:
        """A pattern for proper beginnings of a word with the texts around it."""
        return re.compile("|".join(_begin(*pair) for pair in self.words) or "(?!)")

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.write_regex(""))

    def begins(self, rest: str) -> bool:
        """Returns whether the text is a proper beginning of a text that can follow."""
        return any(text.startswith(rest) for text in self.texts) or bool(
            self._begun.fullmatch(rest)
        )

    def find(self, text: str, offset: int, quote: str) -> tuple[int, bool]:
        """Finds the end of a string.

        Returns:
            up to which offset the text belongs to the string, and whether the string ends there; if
            not, the rest is undecided until more text arrives.
        """
        while (offset := text.find(quote, offset)) >= 0:
            following = offset + len(quote)
            if self._whole.match(text, following):
                return offset, True
            if self.begins(text[following:]):
                return offset, False
            offset += 1
        return len(text), False

    def holds(self, text: str, quote: str) -> bool:
        """Returns whether a string can contain this text."""
        return not self.find(text, 0, quote)[1]


def _begin(before: str, after: str) -> str:
    regex = ""
    for part in reversed([*map(re.escape, before), WORD, *map(re.escape, after[:-1])]):
        regex = f"(?:{part}{regex})?"
    return regex


def find_keys(schema: Schema | None) -> tuple[tuple[str, ...], bool]:
    """Returns the keys that a schema declares, and whether it allows others. Without a schema, any
    key is allowed."""
    if schema is None:
        return (), True
    keys = (p.key for branch in schema.objects for p in branch.properties)
    return tuple(dict.fromkeys(keys)), any(o.extras for o in schema.objects)


def find_extra_keys(declared: Sequence[str], keys: Texts, hole: KeywordArguments) -> Texts:
    """Returns those of the keys that can be written and are not declared."""
    without = match_words(declared)
    if is_word(hole.after_key):
        without += (f"{ANY}{escape_regex(hole.after_key)}{ANY}",)
    return Texts((WORD,), without).intersect(keys)


def find_ends(format: Format, names: Iterable[str], schema: Schema | None) -> StringEnds:
    """Returns the texts that can follow a string.

    Args:
        format: a format whose arguments are `KeywordArguments`.
        names: the names of all tools; empty: a call may have any name.
        schema: the schema of the arguments; None: an unknown tool.
    """
    hole, enclosing, known = format.hole, find_enclosing_texts(format), tuple(names)
    assert isinstance(hole, KeywordArguments)
    keys, is_open = find_keys(schema)
    texts = [hole.last + text for text in (enclosing.end, *map(enclosing.next, known))]
    texts += [hole.item + key + hole.after_key for key in keys if is_key(key, hole)]
    words = [(hole.item, hole.after_key)] if is_open else []
    words += [] if known else [(hole.last + enclosing.closer + enclosing.between, enclosing.opener)]
    return StringEnds(tuple(texts), enclosing.closer, tuple(words))
