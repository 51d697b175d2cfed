"""The push buffer: text that arrives in pieces, and is read by steps."""

import json
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from grammars.limits.byte_cache import MIB, keep_results
from grammars.spelling.value_reader import FaultError, ValueReader
from grammars.wire.format import MAX_NAME_LENGTH

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""A generator that yields whenever it needs more text, and returns a T."""

_AFTER_BRACKETS = re.compile(r"(?<=[\]}])(?=.)", re.DOTALL)
_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"[dD][89abAB]{_HEX}{{2}}", rf"[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPED_UNIT = rf"u(?:{_HIGH}\\u{_LOW}|(?![dD][89a-fA-F]){_HEX}{{4}})"
_ESCAPE = re.compile(rf'\\(?:["\\/bfnrt]|{_ESCAPED_UNIT})')
# Text that more text can make a valid escape.
_LOW_BEGUN = rf"\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?"
_UNIT_BEGUN = rf"u(?:{_HIGH}(?:{_LOW_BEGUN})?|(?![dD][c-fC-F]){_HEX}{{0,3}})"
# The text of a JSON string, up to a quote or to such text. Other backslashes are text.
_STRING_TEXT = re.compile(rf'(?:[^"\\]++|{_ESCAPE.pattern}|\\(?!(?:{_UNIT_BEGUN})?\Z))*+')
_WHITE_SPACE_SEEN = 258  # characters that `Buffer.sees` skips: a mask lets a model write so many


class CutError(Exception):
    """The text ended too early."""


class NotACallError(Exception):
    """The text looked like a call, but is not one."""


class Buffer:
    """Text that arrives in pieces, and steps that read what comes next in it.

    Text that was taken since `mark()` can be put back. Marks nest.

    Attributes:
        limit: the position up to which text is read; None: all of it.
    """

    def __init__(self) -> None:
        self._text = ""
        self._offset = 0
        self._pushed = 0
        self._taken: list[str] = []  # since the first mark
        self._marks: list[int] = []  # how many pieces had been taken
        self.closed = False
        self.limit: int | None = None

    def push(self, text: str) -> None:
        self._text = self._text[self._offset :] + text
        self._offset = 0
        self._pushed += len(text)

    @property
    def position(self) -> int:
        """How many of the characters that arrived are taken."""
        return max(0, self._pushed - (len(self._text) - self._offset))

    @property
    def rest(self) -> str:
        """The text that is not taken yet."""
        return self._text[self._offset :]

    def count_blank_lines(self, most: int | None) -> int:
        """Counts the next characters that are blank lines, of at most so many."""
        text = self._text[self._offset :][:most]
        return text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1

    def mark(self) -> None:
        """Starts to remember what is taken."""
        self._marks.append(len(self._taken))

    def forget(self) -> str:
        """Ends the last mark; returns what was taken since, without what was put back."""
        start = self._marks.pop()
        text = "".join(self._taken[start:])
        if not self._marks:
            self._taken.clear()
        return text

    def unread(self, text: str) -> None:
        """Puts text back at the front."""
        self._text = text + self._text[self._offset :]
        self._offset = 0
        count = len(text)
        while count > 0 and self._taken:
            last = self._taken.pop()
            if len(last) > count:
                self._taken.append(last[: len(last) - count])
            count -= len(last)
        self._marks = [min(start, len(self._taken)) for start in self._marks]

    def take(self, count: int) -> str:
        """Removes and returns the next `count` characters, or all if there are fewer."""
        text = self._text[self._offset : self._offset + count]
        self._offset += len(text)
        if self._marks:
            self._taken.append(text)
        return text

    def drain(self) -> str:
        return self.take(len(self._text) - self._offset)

    def need(self, count: int = 1) -> Steps[str]:
        """Returns the next `count` characters without taking them. Raises NotACallError if they are
        beyond the limit, CutError if the text ends before."""
        if self.limit is not None and self.position + count > self.limit:
            raise NotACallError
        while len(self._text) - self._offset < count:
            if self.closed:
                raise CutError
            yield
        return self._text[self._offset : self._offset + count]

    def take_while(self, allows: Callable[[str], bool], most: int | None = None) -> Steps[str]:
        """Takes the allowed characters that come next; NotACallError: more than `most`."""
        taken = ""
        while allows((yield from self.need())):
            taken += self.take(1)
            if most is not None and len(taken) > most:
                raise NotACallError
        return taken

    def space(self) -> Steps[str]:
        """Takes and returns white space."""
        return self.take_while(str.isspace)

    def next_visible(self) -> Steps[str]:
        """Takes white space; returns the next character, which stays."""
        yield from self.space()
        return (yield from self.need())

    def skip(self, pad: str) -> Steps[None]:
        """Takes the beginning of `pad` that comes next, as far as it matches."""
        for character in pad:
            try:
                if (yield from self.need()) != character:
                    return
            except CutError:
                return
            self.take(1)

    def literal(self, *options: str) -> Steps[str]:
        """Takes the one of these texts that comes next; raises NotACallError if none does."""
        for option in options:
            count = 0
            while count < len(option) and option.startswith((yield from self.need(count + 1))):
                count += 1
            if count == len(option):
                return self.take(count)
        raise NotACallError

    def texts(self, texts: Sequence[str]) -> Steps[bool]:
        """Takes these texts, which come next in this order (otherwise NotACallError), with optional
        white space before them. Returns False if it is white space that JSON does not allow."""
        for text in texts:
            if (yield from self.space()).strip(" \t\r\n"):
                return False
            yield from self.literal(text)
        return True

    def name_before(self, text: str, barred: str) -> Steps[str]:
        """Takes a name up to `text`, which stays. NotACallError: it is too long, or has a barred
        character."""
        name = ""
        while not (yield from self.begins(text)):
            name += self.take(1)
            if len(name) > MAX_NAME_LENGTH or name[-1] in barred:
                raise NotACallError
        return name.strip()

    def begins(self, text: str, after: int = 0) -> Steps[bool]:
        """Returns whether `text` comes next, or after so many characters. Takes nothing."""
        for i, character in enumerate(text, after):
            if (yield from self.need(i + 1))[i] != character:
                return False
        return True

    def sees(self, text: str) -> Steps[bool]:
        """Returns whether `text` comes next after white space that a mask allows; takes nothing."""
        space = 0
        while space < _WHITE_SPACE_SEEN and (yield from self.need(space + 1))[space].isspace():
            space += 1
        return (yield from self.begins(text, space))

    def attempt(self, steps: Steps[T], *, keeps: bool = True) -> Steps[T | None]:
        """Runs the steps and returns their result; None if something else comes next, or the text
        ends before. Takes the text if there is a result and `keeps` is set."""
        self.mark()
        found = None
        with suppress(CutError, NotACallError):
            found = yield from steps
        taken = self.forget()
        if not (found and keeps):
            self.unread(taken)
        return found

    def peek(self, steps: Steps[T]) -> Steps[bool]:
        """Returns whether the steps have a result, but takes nothing."""
        return bool((yield from self.attempt(steps, keeps=False)))

    def peek_text(self, *options: str) -> Steps[bool]:
        """Returns whether one of these texts comes next, after any white space. Takes nothing."""
        return self.peek(self._option(options, after_space=True))

    def accept(self, *options: str, after_space: bool = True) -> Steps[bool]:
        """Takes one of these texts if it comes next, optionally with white space before it."""
        return bool((yield from self.attempt(self._option(options, after_space=after_space))))

    def accept_loosely(self, text: str) -> Steps[bool]:
        """Takes the text if it comes next, with any white space before it and in its brackets."""
        return bool((yield from self.attempt(self._parts(_AFTER_BRACKETS.split(text)))))

    def _parts(self, parts: Sequence[str]) -> Steps[bool]:
        for part in parts:
            yield from self._option((part.strip(),), after_space=True)
        return True

    def skip_texts(self, *options: str) -> Steps[None]:
        """Takes these texts as often as one of them comes next, with the white space before it."""
        while options and (yield from self.accept(*options)):
            pass

    def skip_one(self, text: str) -> Steps[None]:
        """Takes this text if it comes next, with the white space before it."""
        if text:
            yield from self.accept(text)

    def skip_tag(self, head: str) -> Steps[None]:
        """Takes a tag that begins so if it comes next, with any name and the white space before
        it."""
        yield from self.attempt(self._tag(head))

    def _tag(self, head: str) -> Steps[bool]:
        yield from self._option((head,), after_space=True)
        yield from self.name_before(">", "\n<")
        return (yield from self._option((">",), after_space=False))

    def _option(self, options: Sequence[str], *, after_space: bool) -> Steps[bool]:
        if after_space:
            yield from self.space()
        yield from self.literal(*options)
        return True

    def until(self, stops: Sequence[str], sink: Callable[[str], None]) -> Steps[str | None]:
        """Passes text to `sink` up to the first of `stops`, takes that stop and returns it; None if
        the text ends without one: then a possible beginning of a stop is left."""
        pattern = _compile_stops(tuple(stops))
        while True:
            match = pattern.search(self._text, self._offset) if stops else None
            if match and (self.closed or not _grows(self._text, match.start(), stops)):
                sink(self.take(match.start() - self._offset))
                return self.take(len(match.group()))
            start = match.start() if match else self._offset
            kept = _count_begun(self._text, start, stops)
            sink(self.take(len(self._text) - self._offset - kept))
            if self.closed:
                return None
            yield

    def escaped(self, closer: str, sink: Callable[[str], None]) -> Steps[None]:
        """Passes the text inside a JSON string to `sink`, without its escapes, up to the quote that
        ends it, and takes the closer, which begins with that quote.

        An escape that JSON does not have, such as `\\q` or half of a surrogate pair, stays as it is
        written. Half an escape at the end of the text is dropped.
        """
        while True:
            match = _STRING_TEXT.match(self._text, self._offset)
            assert match is not None  # it may be empty
            if text := self.take(len(match.group())):
                sink(_ESCAPE.sub(lambda escape: json.loads(f'"{escape.group()}"'), text))
            if self._text.startswith('"', self._offset):
                yield from self.accept(closer)
                return
            if self.closed:
                self.drain()
                return
            yield

    def until_end(
        self, find: Callable[[str, int], tuple[int, bool]], sink: Callable[[str], None]
    ) -> Steps[None]:
        """Passes text to `sink` up to an end, which stays. `find` looks for it in a text from an
        offset on; returns up to which offset there is no end, and whether it is there."""
        while True:
            end, is_found = find(self._text, self._offset)
            sink(self.take(end - self._offset))
            if is_found:
                return
            if self.closed:
                raise CutError
            yield

    def name(self, stops: str, barred: str = "\n<") -> Steps[str]:
        """Takes a name, key or id, up to one of the characters that can follow it, as `name_before`
        does."""
        ends = stops + barred
        name = yield from self.take_while(lambda next: next not in ends, MAX_NAME_LENGTH)
        if (yield from self.need()) not in stops:
            raise NotACallError
        return name.strip()

    def value(self, reader: ValueReader, sink: Callable[[str], None] | None = None) -> Steps[str]:
        """Takes one list, object or string; returns it as JSON. The reader sees each piece before
        `sink`."""
        parts: list[str] = []
        while True:
            yield from self.need()
            stop = len(self._text)
            if self.limit is not None:
                stop = min(stop, self._offset + self.limit - self.position)
            piece, fault = self._text[self._offset : stop], None
            try:
                end = reader.feed(piece)
            except FaultError as e:
                end, fault = e.offset, e  # always up to the fault, whatever the chunks
            taken = self.take(len(piece) if end is None else end)
            if sink is not None:
                sink(taken)
            if fault is not None:
                raise fault
            parts.append(reader.json)
            if end is not None:
                return "".join(parts)


@keep_results("regexes", 4 * MIB)
def _compile_stops(stops: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(stops, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _count_begun(text: str, start: int, stops: Sequence[str]) -> int:
    """Returns how many characters at the end of the text may be the beginning of a stop."""
    longest = min(max(map(len, stops), default=1) - 1, len(text) - start)
    for count in range(longest, 0, -1):
        tail = text[len(text) - count :]
        if any(stop.startswith(tail) for stop in stops):
            return count
    return 0


def _grows(text: str, start: int, stops: Sequence[str]) -> bool:
    """Returns whether the rest of the text may be the beginning of a longer stop than the one
    found."""
    count = len(text) - start
    return any(len(stop) > count and text.endswith(stop[:count]) for stop in stops)
