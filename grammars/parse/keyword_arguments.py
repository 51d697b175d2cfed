"""Reads keyword arguments, such as those of a call in Python, from the push buffer."""

from grammars.parse.arguments import TaggedWriter
from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps, make_scanner
from grammars.spelling.coerce import Raw, TypedText
from grammars.spelling.keyword_arguments import StringEnds
from grammars.spelling.reading import read_value
from grammars.wire.format import KeywordArguments


class KeywordArgumentsReader:
    """Reads the arguments of one call, up to the text after them.

    Args:
        hole: how the format writes the arguments.
        buffer: the text.
        ends: the texts that end a raw string, and all arguments.
        writer: receives the arguments.
    """

    def __init__(
        self, hole: KeywordArguments, buffer: Buffer, ends: StringEnds, writer: TaggedWriter
    ):
        self._hole = hole
        self._buffer = buffer
        self._ends = ends
        self._closer = ends.closer
        self._writer = writer

    def read(self) -> Steps[dict[str, Raw]]:
        """Reads all arguments; of a repeated one, the first that is not empty.

        Raises:
            NotACallError: the text is something else.
            CutError: the text ends in the arguments.
        """
        raws: dict[str, Raw] = {}
        hole = self._hole
        more = yield from self._has_more(hole.first, hole.empty + self._closer)
        while more:
            key = yield from self._read_key()
            raw = yield from self._read_value(key)
            raws[key] = raws.get(key) or raw
            more = yield from self._has_more(hole.item, hole.last + self._closer)
        rest = (hole.last if raws else hole.empty).strip()
        if rest:
            yield from self._buffer.space()
            yield from self._buffer.literal(rest)
        return raws

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
        """Returns the same if the end is not visible. White space must match exactly; the text may
        end."""
        try:
            found = yield from self._buffer.begins(before)
        except CutError:
            if self._buffer.rest.strip():
                raise
            return False
        if found:
            self._buffer.take(len(before))
        return found

    def _read_key(self) -> Steps[str]:
        after = self._hole.after_key  # the whole text, since a key may contain a colon
        key = yield from self._buffer.name_before(after, "\n<,()[]{}\"'")
        yield from self._buffer.literal(after)
        return key

    def _read_value(self, key: str) -> Steps[Raw]:
        own, escaped = self._hole.quote, self._hole.escaped
        yield from self._buffer.space()
        first = yield from self._buffer.need()
        if own and first == own:
            self._buffer.take(1)
            self._writer.open(key, is_text=True)
            yield from self._buffer.string(self._ends, own, self._writer.feed)
            return TypedText(self._writer.close(), is_text=True, style=self._hole.style)
        is_text = first in escaped.quotes
        self._writer.open(key, is_text)
        if is_text:
            text = yield from self._read_string()
        else:
            text = yield from self._read_other(first)
        self._writer.feed(text)
        return TypedText(self._writer.close(), is_text, self._hole.style)

    def _read_string(self) -> Steps[str]:
        """Reads a Python string; returns its source text if it has unknown escapes."""
        text = yield from self._buffer.quoted()
        try:
            return str(read_value(text, self._hole.escaped))
        except ValueError:
            return text[1:-1]

    def _next(self) -> Steps[str]:
        """Returns the next character. "" at the end of the text, if only that ends the
        arguments."""
        try:
            return (yield from self._buffer.need())
        except CutError:
            if (self._hole.last + self._closer).strip():
                raise
            return ""

    def _read_other(self, first: str) -> Steps[str]:
        """Reads the text of a value that is not a string."""
        if first in "[{":
            try:
                return (yield from self._buffer.value(make_scanner(self._hole.style)))
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
