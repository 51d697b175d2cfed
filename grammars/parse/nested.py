"""Reads nested tags from the push buffer."""

from collections.abc import Callable

from grammars.parse.arguments import NestedWriter
from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.schema.json_values import Json
from grammars.spelling.nested import Tree
from grammars.spelling.reading import DeepJsonError
from grammars.wire.format import MAX_NAME_LENGTH, NestedArguments

_DEEPEST = 100  # levels of tags


class NestedArgumentsReader:
    """Reads the arguments of one call, up to the closing tag after them.

    Args:
        hole: how the format writes the arguments.
        buffer: the text.
        writer: receives the arguments.
        read_value: converts the tree of an argument to its value, by its key.
    """

    def __init__(
        self,
        hole: NestedArguments,
        buffer: Buffer,
        writer: NestedWriter,
        read_value: Callable[[str, Tree], Json],
    ):
        self._hole = hole
        self._buffer = buffer
        self._writer = writer
        self._read_value = read_value
        self._is_deep = False

    def read(self) -> Steps[Tree]:
        """Reads all arguments.

        Raises:
            DeepJsonError: they are nested too deeply.
            NotACallError: the text is something else.
            CutError: the text ends in the arguments.
        """
        tree = Tree()
        mark = self._hole.mark
        while True:
            yield from self._buffer.space()
            if not (yield from self._buffer.sees(mark)):
                raise NotACallError
            ahead = yield from self._buffer.need(len(mark) + 2)
            if ahead[len(mark) :] == "</":
                break
            self._buffer.take(len(mark))
            key = yield from self._read_tag()
            self._writer.open(key)
            member = yield from self._read_argument()
            tree.members.append((key, member))
            if not self._is_deep:
                self._writer.close(self._read_value(key, member))
        if self._is_deep:
            raise DeepJsonError("the arguments are nested too deeply to be read")
        return tree

    def _read_tag(self) -> Steps[str]:
        """Reads the text between the brackets of a tag."""
        yield from self._buffer.literal("<")
        key = ""
        while (yield from self._buffer.need()) != ">":
            key += self._buffer.take(1)
            if len(key) > MAX_NAME_LENGTH + 1 or key[-1] in "<\n":
                raise NotACallError
        self._buffer.take(1)
        if not key.strip("/"):
            raise NotACallError
        return key

    def _read_argument(self) -> Steps[Tree]:
        """Reads up to the closing tag. A closing tag closes the open one, whatever its name, since
        the mask cannot enforce the name for an undeclared key."""
        tree = Tree()
        stack = [tree]
        while stack:
            at_start = len(stack) == 1 and not tree.members
            parts: list[str] = []
            sink = parts.append
            if at_start:
                sink = self._write_and(sink)
            stop = yield from self._buffer.until((self._hole.mark,), sink)
            if stop is None:
                raise CutError
            text = "".join(parts)
            tag = yield from self._read_tag()
            top = stack[-1]
            if tag.startswith("/"):
                stack.pop()
                top.text += text if not top.members else text.strip()
            elif text.strip() or (at_start and self._writer.has_text):
                raise NotACallError
            else:
                inner = Tree()
                top.members.append((tag, inner))
                stack.append(inner)
                self._is_deep |= len(stack) > _DEEPEST
            if top.members and top.text:
                raise NotACallError
        return tree

    def _write_and(self, sink: Callable[[str], None]) -> Callable[[str], None]:
        """Returns a sink that also passes text to the writer, since the argument may be text."""

        def take(text: str) -> None:
            sink(text)
            self._writer.feed(text)

        return take
