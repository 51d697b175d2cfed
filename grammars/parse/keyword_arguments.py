"""Reads arguments by keyword, such as those of a call in Python, from the push buffer."""

from grammars.parse.arguments import TaggedWriter
from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps, make_scanner
from grammars.spelling.coerce import Raw, TypedText
from grammars.spelling.keyword_arguments import Ends
from grammars.spelling.reading import read_value
from grammars.wire.format import KeywordArguments


class KeywordArgumentsReader:
    """Reads the arguments of one call, up to what stands behind them.

    Args:
        hole: how they are written.
        buffer: where the text comes from.
        ends: what ends a raw string, and all arguments.
        writer: gets what is read.
    """

    def __init__(self, hole: KeywordArguments, buffer: Buffer, ends: Ends, writer: TaggedWriter):
        self._hole = hole
        self._buffer = buffer
        self._ends = ends
        self._closer = ends.closer
        self._writer = writer

    def read(self) -> Steps[dict[str, Raw]]:
        """Reads them all; of a repeated one, the first that is not empty.

        Raises:
            NotACallError: the text is something else.
            CutError: the text ends among the arguments.
        """
        raws: dict[str, Raw] = {}
        hole = self._hole
        more = yield from self._goes_on(hole.first, hole.empty + self._closer)
        while more:
            key = yield from self._key()
            raw = yield from self._value(key)
            raws[key] = raws.get(key) or raw
            more = yield from self._goes_on(hole.item, hole.last + self._closer)
        rest = (hole.last if raws else hole.empty).strip()
        if rest:
            yield from self._buffer.space()
            yield from self._buffer.literal(rest)
        return raws

    def _goes_on(self, before: str, end: str) -> Steps[bool]:
        """Does an argument come next, behind `before`, which is taken then? If not, `end` comes,
        which may be nothing."""
        text, stop = before.strip(), end.strip()[:1]
        if not stop:
            return (yield from self._begins_exactly(before))
        yield from self._buffer.space()
        if text and end.strip().startswith(text):  # as `---` does behind items that begin with `-`
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
        """The same where nothing visible tells the end: white space has to be as it is written, and
        the text may end."""
        try:
            found = yield from self._buffer.begins(before)
        except CutError:
            if self._buffer.rest.strip():
                raise
            return False
        if found:
            self._buffer.take(len(before))
        return found

    def _key(self) -> Steps[str]:
        after = self._hole.after_key  # all of it: a key may have a colon itself
        key = yield from self._buffer.name_before(after, "\n<,()[]{}\"'")
        yield from self._buffer.literal(after)
        return key

    def _value(self, key: str) -> Steps[Raw]:
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
            text = yield from self._string()
        else:
            text = yield from self._other(first)
        self._writer.feed(text)
        return TypedText(self._writer.close(), is_text, self._hole.style)

    def _string(self) -> Steps[str]:
        """A string of Python; its text as it stands where that has other escapes."""
        text = yield from self._buffer.quoted()
        try:
            return str(read_value(text, self._hole.escaped))
        except ValueError:
            return text[1:-1]

    def _next(self) -> Steps[str]:
        """The next character; "" at the end of the text, where nothing else may tell that all
        arguments are over."""
        try:
            return (yield from self._buffer.need())
        except CutError:
            if (self._hole.last + self._closer).strip():
                raise
            return ""

    def _other(self, first: str) -> Steps[str]:
        """The text of a value that is no string."""
        if first in "[{":
            try:
                return (yield from self._buffer.value(make_scanner(self._hole.style)))
            except ValueError:
                raise NotACallError from None
        text = ""
        end = self._hole.last + self._closer
        sign = end.lstrip()[:1]
        if sign in tuple("-+."):  # numbers have them, too: only what stands in front tells the end
            sign = end[:1]
        ends = ",)\n" + self._hole.item[:1] + self._hole.last[:1] + sign
        while (character := (yield from self._next())) not in ends:
            if character in "([{}]'\"<":
                raise NotACallError
            text += self._buffer.take(1)
        return text.strip()
