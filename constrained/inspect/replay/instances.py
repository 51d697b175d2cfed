"""Tries instances on a compiled schema, and finds the place where the mask refuses one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json import dumps
from typing import TypeAlias, cast

from constrained.errors import GrammarError
from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.schema.json_values import Json
from grammars.schema.nodes import Schema, escape
from grammars.schema.numbers import normalise_numbers
from grammars.schema.subschemas import is_list, is_object
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values

Spell: TypeAlias = Callable[[Json], str]
"""Writes a string, a number, a boolean or null as JSON."""


def spell_plain(value: Json) -> str:
    """Writes a value like `json.dumps` with `ensure_ascii=False`."""
    return dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Place:
    """The place where a mask refuses a text.

    Args:
        pointer: the JSON pointer of the value, or of the member whose key it is.
        offset: the number of accepted bytes.
        found: a few characters of the refused text; "" at the end of the text.
        expected: the allowed characters, as ranges.
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
        GrammarError: llguidance refuses its grammar.
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
        """Finds the place where the mask refuses an instance; None: it accepts the whole instance.

        Args:
            instance: the value; keys are written in its order, numbers as the schema means them
                (2 where 2.0 stands for an integer).
            spell: writes strings and numbers.
        """
        meant = normalise_numbers(instance, self.schema)
        pieces = list(write_pieces(meant, "", spell))
        try:
            tokens = self._vocabulary.encode("".join(text for text, _ in pieces))
        except UnicodeEncodeError:
            return Place("", 0, "", "no lone surrogate, which no model can write")
        with suppress(GrammarError):
            return self._locate(tokens, pieces)
        # All forks share their states and fail together: what came before may have used them up.
        self._matcher = self._compile()
        try:
            return self._locate(tokens, pieces)
        except GrammarError as e:
            self.error = str(e)
            self._matcher = self._compile()
            return Place("", 0, "", f"nothing, because the matcher failed: {e}")

    def _compile(self) -> Matcher:
        return Matcher.compile(self._tokenizer, self._grammar)

    def _locate(self, tokens: list[int], pieces: list[tuple[str, str]]) -> Place | None:
        matcher = self._matcher.fork()
        taken = matcher.count_accepted(tokens)
        matcher.try_commit(tokens[:taken])
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
        """Lists the allowed next bytes: in this vocabulary, each token is one byte."""
        mask = matcher.mask()
        allowed: list[int] = []
        for byte in range(256):
            if mask[byte]:
                allowed.append(byte)
        return allowed


def write_pieces(value: Json, pointer: str, spell: Spell) -> Iterator[tuple[str, str]]:
    """Yields the JSON text of a value in pieces, each with the JSON pointer that it belongs to: a
    key to its member, brackets and commas to the list or object."""
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
    """Returns the pointer of the piece with the byte at that offset; at the end, of the last
    one."""
    end = 0
    for text, pointer in pieces:
        end += len(text.encode())
        if offset < end:
            return pointer
    return pieces[-1][1]


def describe_bytes(allowed: list[int]) -> str:
    """Describes bytes: ASCII characters, neighbours as a range, all other bytes as one."""
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
    """Converts the place to JSON."""
    return cast(Mapping[str, Json], vars(place))
