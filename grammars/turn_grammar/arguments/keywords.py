"""Arguments by keyword, such as those of a call in Python, or lines of keys and values."""

from collections.abc import Iterable
from functools import partial

from grammars.errors import RenderError
from grammars.regex.writing import escape_regex
from grammars.schema.json_values import Json
from grammars.spelling.buffer import CutError, NotACallError, Steps
from grammars.spelling.names import BLANK, WORD, is_name, is_word
from grammars.spelling.styles import sort_keys, spell
from grammars.spelling.value_reader import ValueReader, read_json
from grammars.turn_grammar.arguments.keyword_rules import (
    KeywordChain,
    find_enclosing_texts,
    find_ends,
    is_key,
)
from grammars.turn_grammar.arguments.kind import (
    ArgumentsKind,
    CallChain,
    CallParts,
    CallSource,
    CallsSpec,
    CallToWrite,
)
from grammars.turn_grammar.arguments.stream import RawArguments
from grammars.wire.format import Format
from grammars.wire.nodes import JsonStyle, KeywordArguments


class KeywordKind(ArgumentsKind):
    def __init__(self, hole: KeywordArguments, format: Format):
        super().__init__(format)
        self._hole = hole

    @property
    def style(self) -> JsonStyle:
        return self._hole.style

    def make_rules(self, spec: CallsSpec) -> CallChain:
        return KeywordChain(self._hole, self.format, spec)

    def can_name(self, name: str) -> bool:
        return is_name(name) and is_word(name)

    # The reader.

    @property
    def beginnings(self) -> tuple[str, ...]:
        return self._hole.first, self._hole.empty

    def list_starts(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        if self.format.bare is None:
            return super().list_starts(names)
        # With the name, since any text may begin with a bracket.
        opener = find_enclosing_texts(self.format).opener
        return tuple((*self.format.bare_start, name + opener) for name in names)

    def match_start(self) -> str:
        opener = find_enclosing_texts(self.format).opener
        return f"{super().match_start()}{BLANK}*{WORD}{escape_regex(opener)}"

    def read(self, source: CallSource, parts: CallParts) -> Steps[None]:
        yield from _KeywordReader(self._hole, self.format, source, parts).read()

    # The writer.

    def write(self, call: CallToWrite) -> str:
        hole = self._hole
        ends = find_ends(self.format, hole, call.tools, call.schema)
        items: list[str] = []
        for key in sort_keys(call.arguments, hole):
            value = call.arguments[key]
            if not is_key(key, hole):
                message = f"the key {key!r} cannot be written in such a call"
                raise RenderError(message, where=call.at(key))
            if isinstance(value, str) and hole.quote and not ends.holds(value, hole.quote):
                raise RenderError("the value contains what would end it", where=call.at(key))
            items.append(key + hole.after_key + _spell(value, hole))
        return hole.first + hole.item.join(items) + hole.last if items else hole.empty


def _spell(value: Json, hole: KeywordArguments) -> str:
    match value:
        case str():
            return hole.quote + value + hole.quote if hole.quote else spell(value, hole.escaped)
        case dict():
            return spell(value, hole.objects)
        case _:
            return spell(value, hole.style)


class _KeywordReader:
    """Reads the arguments of one call into its parts, up to the text after them."""

    def __init__(
        self, hole: KeywordArguments, format: Format, source: CallSource, parts: CallParts
    ):
        schema = source.find_schema(parts.name)
        self._hole = hole
        self._buffer = source.buffer
        self._parts = parts
        self._ends = find_ends(format, hole, source.tools, schema)
        self._closer = self._ends.closer
        self._arguments = RawArguments(schema, source.sink, hole.style)

    def read(self) -> Steps[None]:
        """Reads all arguments; of a repeated one, the first that is not empty."""
        hole = self._hole
        rest = hole.empty
        more = yield from self._has_more(hole.first, hole.empty + self._closer)
        while more:
            after_key = hole.after_key  # the whole text, since a key may contain a colon
            key = yield from self._buffer.name_before(after_key, "\n<,()[]{}\"'")
            yield from self._buffer.literal(after_key)
            yield from self._read_value(key)
            more = yield from self._has_more(hole.item, hole.last + self._closer)
            rest = hole.last
        if rest.strip():
            yield from self._buffer.space()
            yield from self._buffer.literal(rest.strip())
        self._parts.arguments, self._parts.errors = self._arguments.finish()

    def _has_more(self, before: str, end: str) -> Steps[bool]:
        """Returns whether another argument comes next, after the text `before`, which is then
        taken. Otherwise `end` comes next, which may be empty."""
        text, stop = before.strip(), end.strip()[:1]
        if not stop:
            return (yield from self._begins_exactly(before))
        yield from self._buffer.space()
        if text and end.strip().startswith(text):  # such as `---` after items that begin with `-`
            is_over = yield from self._buffer.begins(end.strip())
            if is_over:
                return False
        if text and not (yield from self._buffer.sees(text)):
            return False
        if not text:
            return (yield from self._buffer.need()) != stop
        yield from self._buffer.literal(text)
        yield from self._buffer.space()
        return True

    def _begins_exactly(self, before: str) -> Steps[bool]:
        """Returns the same if the end is not visible: white space must match, or the text end."""
        try:
            found = yield from self._buffer.begins(before)
        except CutError:
            if self._buffer.rest.strip():
                raise
            return False
        if found:
            self._buffer.take(len(before))
        return found

    def _read_value(self, key: str) -> Steps[None]:
        own, escaped = self._hole.quote, self._hole.escaped
        yield from self._buffer.space()
        first = yield from self._buffer.need()
        is_raw = bool(own) and first == own
        self._arguments.open(key, is_text=is_raw or first in escaped.quotes)
        if is_raw:
            self._buffer.take(len(own))
            find_end = partial(self._ends.find, quote=own)
            yield from self._buffer.until_end(find_end, self._arguments.feed)
            self._buffer.take(len(own))
        elif first in escaped.quotes:
            self._arguments.feed((yield from self._read_string(escaped)))
        else:
            self._arguments.feed((yield from self._read_other(first)))
        self._arguments.close_raw()

    def _read_string(self, style: JsonStyle) -> Steps[str]:
        """Reads a Python string; returns its source text if it has unknown escapes."""
        parts: list[str] = []
        string = yield from self._buffer.value(ValueReader(style), parts.append)
        try:
            return str(read_json(string))
        except ValueError:
            return "".join(parts)[1:-1]

    def _read_other(self, first: str) -> Steps[str]:
        if first in "[{":
            try:
                return (yield from self._buffer.value(ValueReader(self._hole.style, keeps=True)))
            except ValueError:
                raise NotACallError from None
        text = ""
        end = self._hole.last + self._closer
        sign = end.lstrip()[:1]
        # Numbers and words contain these: the end is the space before.
        if sign.isalnum() or sign in tuple("-+._"):
            sign = end[:1]
        ends = ",)\n" + self._hole.item[:1] + self._hole.last[:1] + sign
        while (character := (yield from self._next())) not in ends:
            if character in "([{}]'\"<":
                raise NotACallError
            text += self._buffer.take(1)
        return text.strip()

    def _next(self) -> Steps[str]:
        """Returns the next character; "" at the end of the text, if only that ends the
        arguments."""
        try:
            return (yield from self._buffer.need())
        except CutError:
            if (self._hole.last + self._closer).strip():
                raise
            return ""
