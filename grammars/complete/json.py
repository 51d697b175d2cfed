"""Reads the beginning of a value by its node, and ends it in the shortest way."""

from grammars.complete.any import AnyReader, read_digits, skip_space
from grammars.complete.scalar import Fit, decide, fit_words, join
from grammars.complete.shortest import Layout, Shortest
from grammars.schema.counted import Items, find_items
from grammars.schema.nodes import (
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
from grammars.spelling.languages import pick_shortest


class JsonReader:
    """Reads values of one text.

    Args:
        shortest: the shortest texts over the schema.
        text: what has been written; a mask has held it.
    """

    def __init__(self, shortest: Shortest, text: str):
        self._shortest = shortest
        self._style = shortest.style
        self._text = text
        self._any = AnyReader(text, shortest)
        self._unions: dict[tuple[int, int], Fit] = {}  # else a nest of unions takes 2^depth

    def value(self, node: Node, at: int, level: int | None = None) -> Fit:
        """Reads a value that begins at that index, on that level."""
        level = self._style.level if level is None else level
        while isinstance(node, Reference):
            node = self._shortest.definitions[node.name]
        if at == len(self._text):
            return self._shortest.value(node, level)
        match node:
            case AnyValue():
                return self._any.read(at, level)
            case Constant():
                return self._constant(node, at, level)
            case String():
                return self._shortest.strings.fit(self._text, at, node)
            case Number():
                return self._number(node, at)
            case Boolean():
                return fit_words(self._text, at, *self._style.true, *self._style.false)
            case Null():
                return fit_words(self._text, at, *self._style.null)
            case Array():
                return self._array(node, at, level)
            case Object():
                return self._object(node, at, level)
            case Union(branches):
                key = id(node), at
                if key not in self._unions:
                    self._unions[key] = decide(self.value(b, at, level) for b in branches)
                return self._unions[key]

    def _constant(self, node: Constant, at: int, level: int) -> Fit:
        """Whole strings and numbers are looked up: there may be thousands of constants."""
        constants, text = self._shortest.constants(node), self._text
        spelled, strings = constants.spelled, self._shortest.strings
        digits, whole = read_digits(text, at)
        if text[at] in "[{" and constants.nodes:
            return decide(self.value(part, at, level) for part in constants.nodes)
        if strings.begins(text, at):
            end = strings.find_end(text, at)
        elif digits:
            end = at + len(digits) if whole else None
        else:
            return fit_words(text, at, *spelled)
        if end is not None:
            return end if text[at:end] in spelled else None
        written = text[at:]
        found = [c for c in spelled if c.startswith(written)]
        # half a quote is text as long as it can be: where the quote is one token, it has to be
        inside = [c for c in found if self._is_inside(c, len(written))]
        return pick_shortest(c[len(written) :] for c in inside or found)

    def _is_inside(self, spelled: str, count: int) -> bool:
        """Is that much of a spelled string no part of its closing quote?"""
        return self._style.escapes or count <= len(spelled) - len(self._style.quotes[0])

    def _number(self, node: Number, at: int) -> Fit:
        digits, whole = read_digits(self._text, at)
        language = self._shortest.language(node)
        if not whole:
            return language.extend(digits)
        return at + len(digits) if digits and language.accepts(digits) else None

    def _array(self, node: Array, at: int, level: int) -> Fit:
        text, shortest, done = self._text, self._shortest, 0
        if text[at] != "[":
            return None
        at, inner = at + 1, shortest.inside(level)
        if (counted := find_items(node)) is not None:
            return self._counted(counted, at, level)
        while at < len(text):
            fit = self._end(at, level, "]", first=not done)
            if fit is not None:
                return fit if done >= node.min_items else None
            if (item := shortest.item(node, done)) is None:
                return None
            fit = self._begin(at, level, first=not done)
            if not isinstance(fit, int):
                rest = shortest.items(node, done + 1, level)
                return join(fit, shortest.value(item, inner), rest)
            fit, done = self.value(item, fit, inner), done + 1
            if not isinstance(fit, int):
                return join(fit, shortest.items(node, done, level))
            at = self._skip(fit, level)
        return shortest.items(node, done, level)

    def _counted(self, counted: Items, at: int, level: int) -> Fit:
        """Reads a list some of whose items are counted, from behind its bracket. An item that
        fits is counted where it can be: those that must not be fit no other way."""
        state, shortest, first = counted.start, self._shortest, True
        while at < len(self._text):
            fit = self._end(at, level, "]", first=first)
            if fit is not None:
                return fit if counted.may_end(state) else None
            fit = self._begin(at, level, first=first)
            options = list[str | None]()
            for step in counted.steps(state):
                inner, rest = fit, shortest.counted(counted, step.behind, level)
                if isinstance(fit, int):
                    inner = self.value(step.node, fit, shortest.inside(level))
                elif (item := shortest.value(step.node, shortest.inside(level))) is not None:
                    inner = join(fit, item)
                if isinstance(inner, int):
                    state, at, first = step.behind, self._skip(inner, level), False
                    break
                options.append(join(inner, rest))
            else:
                return pick_shortest(options)
        return shortest.counted(counted, state, level)

    def _end(self, at: int, level: int, bracket: str, *, first: bool) -> Fit:
        """Reads the end of a list or object; `first`: nothing stands in it."""
        close = "" if first else self._shortest.breaks(level).close
        return fit_words(self._text, at, close + bracket)

    def _begin(self, at: int, level: int, *, first: bool) -> Fit:
        """Reads what stands in front of an item or member."""
        breaks = self._shortest.breaks(level)
        fit = fit_words(self._text, at, breaks.open if first else breaks.item)
        return self._skip(fit, level) if isinstance(fit, int) else fit

    def _skip(self, at: int, level: int) -> int:
        return skip_space(self._text, at, self._shortest.breaks(level))

    def _object(self, node: Object, at: int, level: int) -> Fit:
        text, shortest, first = self._text, self._shortest, True
        if text[at] != "{":
            return None
        layout, at = shortest.layout(node), at + 1
        state = layout.members.start
        while at < len(text):
            fit = self._end(at, level, "}", first=first)
            if fit is not None:
                return fit if layout.members.may_end(state) else None
            fit = self._begin(at, level, first=first)
            if not isinstance(fit, int):
                return join(fit, shortest.another(node, state, level))
            found = self._key(layout, state, fit, level)
            if not isinstance(found, tuple):
                return found
            member, state, at = found
            fit, first = self.value(member, at, shortest.inside(level)), False
            if not isinstance(fit, int):
                return join(fit, shortest.members(node, state, level))
            at = self._skip(fit, level)
        return shortest.members(node, state, level, first=first)

    def _key(
        self, layout: Layout, state: int, at: int, level: int
    ) -> tuple[Node, int, int] | str | None:
        """Reads a key: the node of its value, the state behind it, where the value begins."""
        text, node, shortest = self._text, layout.node, self._shortest
        if at == len(text):
            return shortest.another(node, state, level)
        end = layout.keys.find_end(text, at)
        if end is None:
            return self._end_key(layout, state, at, level)
        key, members = text[at:end], layout.members
        if (declared := layout.keys.spelled.get(key)) is not None:
            if declared not in members.reach(state):
                return None
            member, state = layout.properties[declared].node, members.add(state, declared)
        elif (extra := layout.find_extra(key, state)) is not None:
            member, state = extra, members.add_extra(state)
        else:
            return None
        fit = fit_words(text, end, self._style.key)
        if isinstance(fit, int):
            return member, state, fit
        value = shortest.value(member, shortest.inside(level))
        return join(fit, value, shortest.members(node, state, level))

    def _end_key(self, layout: Layout, state: int, at: int, level: int) -> str | None:
        """The rest of an object whose text ends inside a key."""
        shortest, node, written = self._shortest, layout.node, self._text[at:]
        inner, members = shortest.inside(level), layout.members
        options, reach = list[str | None](), set(members.reach(state))
        for key, i in layout.keys.spelled.items():
            if i in reach and key.startswith(written):
                value = shortest.value(layout.properties[i].node, inner)
                rest = shortest.members(node, members.add(state, i), level)
                options.append(join(key[len(written) :], self._style.key, value, rest))
        if members.may_have_extra(state):
            rest = shortest.members(node, members.add_extra(state), level)
            options.append(join(shortest.extra(layout, written, level), rest))
        return pick_shortest(options)
