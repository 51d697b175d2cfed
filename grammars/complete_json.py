"""Reads the beginning of a JSON value by its node, and ends it in the shortest way."""

from grammars.complete_any import AnyReader, read_digits
from grammars.complete_scalar import BODY, Fit, decide, end_escape, fit_string, fit_words, join
from grammars.languages import pick_shortest
from grammars.schema import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Node,
    Null,
    Number,
    Object,
    Reference,
    String,
    Union,
)
from grammars.shortest import Layout, Shortest

_NUMBER = Number()


class JsonReader:
    """Reads values of one text.

    Args:
        shortest: the shortest texts over the schema.
        text: what has been written; a mask has held it.
    """

    def __init__(self, shortest: Shortest, text: str):
        self._shortest = shortest
        self._text = text
        self._any = AnyReader(text, shortest.style, shortest.language(_NUMBER))
        self._unions: dict[tuple[int, int], Fit] = {}  # else a nest of unions takes 2^depth

    def value(self, node: Node, at: int) -> Fit:
        """Reads a value that begins at that index."""
        while isinstance(node, Reference):
            node = self._shortest.definitions[node.name]
        if at == len(self._text):
            return self._shortest.value(node)
        match node:
            case AnyValue():
                return self._any.read(at)
            case Constant():
                return self._constant(node, at)
            case String():
                language = None if node.is_free else self._shortest.language(node)
                return fit_string(self._text, at, language, plain=node.pattern is not None)
            case Number():
                return self._number(node, at)
            case Boolean():
                return fit_words(self._text, at, "true", "false")
            case Null():
                return fit_words(self._text, at, "null")
            case Array():
                return self._array(node, at)
            case Object():
                return self._object(node, at)
            case Union(branches):
                key = id(node), at
                if key not in self._unions:
                    self._unions[key] = decide(self.value(b, at) for b in branches)
                return self._unions[key]

    def _constant(self, node: Constant, at: int) -> Fit:
        """Whole strings and numbers are looked up: there may be thousands of constants."""
        constants, text = self._shortest.constants(node), self._text
        digits, whole = read_digits(text, at)
        end = at + len(digits)
        if text[at] == '"':
            body = BODY.match(text, at + 1)
            assert body
            end, whole = body.end() + 1, text.startswith('"', body.end())
        elif not digits:
            return fit_words(text, at, *constants)
        if whole:
            return end if text[at:end] in constants else None
        written = text[at:]
        return pick_shortest(c[len(written) :] for c in constants if c.startswith(written))

    def _number(self, node: Number, at: int) -> Fit:
        digits, whole = read_digits(self._text, at)
        language = self._shortest.language(node)
        if not whole:
            return language.extend(digits)
        return at + len(digits) if digits and language.accepts(digits) else None

    def _array(self, node: Array, at: int) -> Fit:
        text, shortest, done = self._text, self._shortest, 0
        if text[at] != "[":
            return None
        at += 1
        while at < len(text):
            if text[at] == "]":
                return at + 1 if done >= node.min_items else None
            if (item := shortest.item(node, done)) is None:
                return None
            fit = fit_words(text, at, shortest.style.item) if done else at
            if not isinstance(fit, int):
                return join(fit, shortest.value(item), shortest.items(node, done + 1))
            fit, done = self.value(item, fit), done + 1
            if not isinstance(fit, int):
                return join(fit, shortest.items(node, done))
            at = fit
        return shortest.items(node, done)

    def _object(self, node: Object, at: int) -> Fit:
        text, shortest, index, first = self._text, self._shortest, 0, True
        if text[at] != "{":
            return None
        layout, at = shortest.layout(node), at + 1
        while at < len(text):
            if text[at] == "}":
                return at + 1 if index >= layout.needed else None
            fit = at if first else fit_words(text, at, shortest.style.item)
            if not isinstance(fit, int):
                return join(fit, shortest.another(node, index))
            found = self._key(layout, index, fit)
            if not isinstance(found, tuple):
                return found
            member, index, at = found
            fit, first = self.value(member, at), False
            if not isinstance(fit, int):
                return join(fit, shortest.members(node, index))
            at = fit
        return shortest.members(node, index, first=first)

    def _key(self, layout: Layout, index: int, at: int) -> tuple[Node, int, int] | str | None:
        """Reads a key: the node of its value, the index of the next property, where it begins."""
        text, node, properties = self._text, layout.node, layout.node.properties
        if at == len(text):
            return self._shortest.another(node, index)
        body = BODY.match(text, at + 1)
        if text[at] != '"' or body is None:
            return None
        if not text.startswith('"', body.end()):
            return self._end_key(layout, index, at)
        key = text[at : body.end() + 1]
        if (declared := layout.keys.get(key)) is not None:
            if declared not in layout.reach(index):
                return None
            member, index = properties[declared].node, declared + 1
        elif node.additional is None or index < layout.needed or key in layout.reserved:
            return None
        else:
            member, index = node.additional, len(properties)
        fit = fit_words(text, body.end() + 1, self._shortest.style.key)
        if isinstance(fit, int):
            return member, index, fit
        return join(fit, self._shortest.value(member), self._shortest.members(node, index))

    def _end_key(self, layout: Layout, index: int, at: int) -> str | None:
        """The rest of an object whose text ends inside a key."""
        shortest, node, written = self._shortest, layout.node, self._text[at:]
        options: list[str | None] = []
        for i in layout.reach(index):
            if shortest.spell(node.properties[i].key).startswith(written):
                pair = join(shortest.pair(node.properties[i]), shortest.members(node, i + 1))
                options.append(pair and pair[len(written) :])
        if node.additional is not None and index >= layout.needed:
            body = BODY.match(written, 1)
            half = written[body.end() :] if body else ""
            end = next(end_escape(half, plain=bool(layout.keys)), "")
            end += shortest.close_key(layout, written + end)
            value = shortest.value(node.additional)
            options.append(join(end, shortest.style.key, value, "}"))
        return pick_shortest(options)
