"""Reads nested tags from the push buffer."""

import json
from collections.abc import Callable

from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.schema.nodes import Json, Schema, String, flatten
from grammars.spelling.nested import Tree
from grammars.spelling.reading import DeepJsonError
from grammars.wire.format import LONGEST_NAME, NestedArguments

_DEEPEST = 100


class NestedText:
    """Writes the arguments as JSON while they are read: text at once, other values when they are
    complete, and all at the end where the schema admits several objects.

    Args:
        schema: that of the arguments; None for an unknown tool.
        tell: is told of the JSON text.
    """

    def __init__(self, schema: Schema | None, tell: Callable[[str], None]):
        self._schema = schema if schema and len(schema.objects) == 1 else None
        self._tell = tell
        self._before = "{"
        self._told: set[str] = set()
        self._silent = False  # of a repeated argument: the first one counts
        self._is_text = False
        self.quoted = False  # has text been told?

    def open(self, key: str) -> None:
        """An argument begins."""
        self._silent, self.quoted = self._schema is None or key in self._told, False
        self._told.add(key)
        member = self._schema.find_members(key)[0] if self._schema else None
        nodes = list(flatten(member.node, member.definitions)) if member else []
        self._is_text = bool(nodes) and all(isinstance(node, String) for node in nodes)
        self._say(f"{self._before}{_spell(key)}: ")
        self._before = self._before if self._silent else ", "

    def feed(self, text: str) -> None:
        """More of the text that it begins with."""
        if self._is_text and text:
            self._say(("" if self.quoted else '"') + _spell(text)[1:-1])
            self.quoted = True

    def close(self, value: Json) -> None:
        """The argument is over."""
        self._say('"' if self.quoted else _spell(value))

    def end(self, arguments: dict[str, Json]) -> None:
        """There are no more arguments; these are all."""
        if self._schema is None:
            self._tell(_spell(arguments))
        else:
            self._tell("{}" if self._before == "{" else "}")

    def _say(self, text: str) -> None:
        if not self._silent:
            self._tell(text)


class NestedReader:
    """Reads the arguments of one call, up to the closing tag behind them.

    Args:
        hole: how they are written.
        buffer: where the text comes from.
        text: is told of what is read.
        value: reads an argument, by its key.
    """

    def __init__(
        self,
        hole: NestedArguments,
        buffer: Buffer,
        text: NestedText,
        value: Callable[[str, Tree], Json],
    ):
        self._hole = hole
        self._buffer = buffer
        self._text = text
        self._value = value
        self._deep = False

    def read(self) -> Steps[Tree]:
        """Reads them all.

        Raises:
            DeepJsonError: they nest too deeply.
            NotACallError: the text is something else.
            CutError: the text ends among the arguments.
        """
        tree, mark = Tree(), self._hole.mark
        while True:
            yield from self._buffer.space()
            if not (yield from self._buffer.sees(mark)):
                raise NotACallError
            ahead = yield from self._buffer.need(len(mark) + 2)
            if ahead[len(mark) :] == "</":
                break
            self._buffer.take(len(mark))
            key = yield from self._tag()
            self._text.open(key)
            member = yield from self._argument()
            tree.members.append((key, member))
            if not self._deep:
                self._text.close(self._value(key, member))
        if self._deep:
            raise DeepJsonError("the arguments are nested too deeply to be read")
        return tree

    def _tag(self) -> Steps[str]:
        """What stands between the brackets of a tag."""
        yield from self._buffer.literal("<")
        key = ""
        while (yield from self._buffer.need()) != ">":
            key += self._buffer.take(1)
            if len(key) > LONGEST_NAME + 1 or key[-1] in "<\n":
                raise NotACallError
        self._buffer.take(1)
        if not key.strip("/"):
            raise NotACallError
        return key

    def _argument(self) -> Steps[Tree]:
        """Reads up to the closing tag. It closes what is open, whatever its name: the mask cannot
        hold that of a key which is not declared."""
        tree = Tree()
        stack = [tree]
        while stack:
            at_start = len(stack) == 1 and not tree.members
            parts: list[str] = []
            stop = yield from self._buffer.until(
                (self._hole.mark,), self._sink(parts, told=at_start)
            )
            if stop is None:
                raise CutError
            text = "".join(parts)
            tag = yield from self._tag()
            top = stack[-1]
            if tag.startswith("/"):
                stack.pop()
                top.text += text if not top.members else text.strip()
            elif text.strip() or (at_start and self._text.quoted):
                raise NotACallError
            else:
                inner = Tree()
                top.members.append((tag, inner))
                stack.append(inner)
                self._deep = self._deep or len(stack) > _DEEPEST
            if top.members and top.text:
                raise NotACallError
        return tree

    def _sink(self, parts: list[str], *, told: bool) -> Callable[[str], None]:
        def take(text: str) -> None:
            parts.append(text)
            if told:
                self._text.feed(text)

        return take


def _spell(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
