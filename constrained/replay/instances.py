"""One instance tried on a compiled schema: the place at which the mask refuses it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from typing import TypeAlias, cast

from constrained.errors import GrammarError
from constrained.mask import Matcher
from constrained.replay.replay_context import byte_tokenizer
from grammars.build.values import Values
from grammars.ir.grammar import GrammarBuilder
from grammars.schema.nodes import Json, Schema, escape
from grammars.schema.subschemas import is_list, is_object

Spell: TypeAlias = Callable[[Json], str]
"""Writes a string, a number, a boolean or null as JSON."""


def spell_plain(value: Json) -> str:
    """As `json.dumps` with `ensure_ascii=False`."""
    return dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Place:
    """The place at which a mask refuses a text.

    Args:
        pointer: the JSON pointer of the value, or of the member whose key it is.
        offset: how many bytes the mask has taken.
        found: what stands there, a few characters; empty at the end of the text.
        expected: what the mask would have taken, as ranges of characters.
    """

    pointer: str
    offset: int
    found: str
    expected: str


class InstanceTrial:
    """A compiled schema to try instances on; `error` is the last failure of its matcher.

    Args:
        schema: the lowered schema.

    Raises:
        GrammarError: llguidance does not take its grammar.
        SchemaError: it cannot be written as a grammar.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.error: str | None = None
        self._vocabulary, self._tokenizer = byte_tokenizer(())
        builder = GrammarBuilder()
        start = Values(builder).value(schema.node, schema.definitions)
        self._grammar = builder.build(start).lark
        self._matcher = self._compile()

    def find_refusal(self, instance: Json, spell: Spell = spell_plain) -> Place | None:
        """The place at which the mask refuses an instance; None if it takes all of it.

        Args:
            instance: the value, written in the order of its keys.
            spell: how strings and numbers are written.
        """
        pieces = list(write_pieces(instance, "", spell))
        try:
            tokens = self._vocabulary.encode("".join(text for text, _ in pieces))
        except UnicodeEncodeError:
            return Place("", 0, "", "no lone surrogate, which no model can write")
        try:
            return self._locate(tokens, pieces)
        except GrammarError as e:
            self.error = str(e)
            self._matcher = self._compile()  # llguidance: a failure spoils all forks of a matcher
            return Place("", 0, "", f"nothing, as the matcher failed: {e}")

    def _compile(self) -> Matcher:
        return Matcher.compile(self._tokenizer, self._grammar)

    def _locate(self, tokens: list[int], pieces: list[tuple[str, str]]) -> Place | None:
        matcher = self._matcher.fork()
        taken = matcher.accepts(tokens)
        matcher.takes(tokens[:taken])
        if taken == len(tokens) and matcher.is_complete:
            return None
        text = "".join(text for text, _ in pieces).encode()
        return Place(
            pointer=find_pointer(pieces, taken),
            offset=taken,
            found=text[taken : taken + 12].decode(errors="replace"),
            expected=describe_bytes(self._list_bytes(matcher)),
        )

    def _list_bytes(self, matcher: Matcher) -> list[int]:
        """The bytes that may come next: of this vocabulary each token is one byte."""
        mask = matcher.mask()
        allowed: list[int] = []
        for byte in range(256):
            if mask[byte]:
                allowed.append(byte)
        return allowed


def write_pieces(value: Json, pointer: str, spell: Spell) -> Iterator[tuple[str, str]]:
    """The JSON text of a value in pieces, each with the JSON pointer of what it belongs to: a key
    to its member, brackets and commas to the list or object."""
    if is_object(value):
        yield "{", pointer
        for index, (key, member) in enumerate(value.items()):
            if index:
                yield ", ", pointer
            inside = f"{pointer}/{escape(key)}"
            yield f"{spell(key)}: ", inside
            yield from write_pieces(member, inside, spell)
        yield "}", pointer
    elif is_list(value):
        yield "[", pointer
        for index, item in enumerate(value):
            if index:
                yield ", ", pointer
            yield from write_pieces(item, f"{pointer}/{index}", spell)
        yield "]", pointer
    else:
        yield spell(value), pointer


def find_pointer(pieces: list[tuple[str, str]], offset: int) -> str:
    """The pointer of the piece with the byte at that offset; that of the last one at the end."""
    end = 0
    for text, pointer in pieces:
        end += len(text.encode())
        if offset < end:
            return pointer
    return pieces[-1][1]


def describe_bytes(allowed: list[int]) -> str:
    """Bytes in words: ASCII characters, neighbours as a range, all others as one."""
    ranges: list[list[int]] = []
    for byte in allowed:
        if byte >= 0x80:
            continue
        if ranges and byte == ranges[-1][1] + 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    words: list[str] = []
    for first, last in ranges:
        words.append(ascii(chr(first)) if first == last else f"{chr(first)!a} to {chr(last)!a}")
    if any(byte >= 0x80 for byte in allowed):
        words.append("characters beyond ASCII")
    return ", ".join(words) or "the end"


def to_json(place: Place) -> Mapping[str, Json]:
    """The place as JSON."""
    return cast(Mapping[str, Json], vars(place))
