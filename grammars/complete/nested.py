"""Reads the beginning of nested tags, and ends them in the shortest way.

It mirrors `lark_nested`: text ends at the mark of its closing tag.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grammars.complete.nested_shortest import NestedShortest
from grammars.complete.scalar import Fit, decide, fit_words, join
from grammars.complete.shortest import Shortest
from grammars.schema.counted import Items, find_items
from grammars.schema.nodes import Array, Node, Object, Schema
from grammars.spelling.languages import Language, pick_shortest
from grammars.spelling.nested import match_key
from grammars.wire.format import NestedArguments


@dataclass(frozen=True)
class _End:
    """What stands behind a value: the shortest text of it, and how to read it."""

    text: str | None
    read: Callable[[int], Fit]


class NestedPart:
    """The arguments of a call of one tool.

    Args:
        is_token: the mark is one token, and never spelled with others.
    """

    def __init__(
        self, schema: Schema, hole: NestedArguments, shortest: Shortest, *, is_token: bool
    ):
        self._schema, self._hole = schema, hole
        self._nested = NestedShortest(hole, shortest)
        self._is_token = is_token
        self.shortest = pick_shortest(map(self._nested.object, schema.objects))

    def read(self, text: str, at: int) -> Fit:
        reader = NestedReader(self._hole, self._nested, text, is_token=self._is_token)
        return decide(reader.arguments(node, at) for node in self._schema.objects)


class NestedReader:
    """Reads arguments.

    Args:
        nested: their shortest texts.
        text: what has been written; a mask has held it.
        is_token: the mark is one token.
    """

    def __init__(self, hole: NestedArguments, nested: NestedShortest, text: str, *, is_token: bool):
        self._hole, self._mark, self._nested = hole, hole.mark, nested
        self._text = text
        self._is_token = is_token

    def arguments(self, node: Object, at: int) -> Fit:
        """Reads the members of an object, up to the closing tag behind it."""
        return self._members(node, at, _End("", self._before_close))

    def _before_close(self, at: int) -> Fit:
        """Is what follows the beginning of a closing tag, or may it be one?"""
        closer = self._mark + "</"
        rest = self._text[at : at + len(closer)]
        return at if closer.startswith(rest) else None

    def _members(self, node: Object, at: int, end: _End) -> Fit:
        """Reads members, and what stands behind them."""
        members = self._nested.members(node)
        state = members.start
        while True:
            if at == len(self._text):
                return join(self._nested.rest(node, state), end.text)
            fits = list[Fit]()
            if members.may_end(state):
                fit = end.read(at)
                if isinstance(fit, int):
                    return fit
                fits.append(fit)
            found = self._member(node, state, at, end)
            if not isinstance(found, tuple):
                return pick_shortest(f for f in [*fits, found] if isinstance(f, str))
            state, fit = found
            if not isinstance(fit, int):
                return join(fit, self._nested.rest(node, state), end.text)
            at = fit

    def _member(self, node: Object, state: int, at: int, end: _End) -> tuple[int, Fit] | str | None:
        """Reads one member: the state behind it, and how it fits."""
        rests, members = list[str | None](), self._nested.members(node)
        for i in members.reach(state):
            declared, behind = node.properties[i], members.add(state, i)
            fit = fit_words(self._text, at, self._hole.open(declared.key))
            if isinstance(fit, int):
                return behind, self._element(declared.node, fit, declared.key)
            element = self._nested.element(declared.node, declared.key)
            rests.append(join(fit, element, self._nested.rest(node, behind), end.text))
        if not members.may_have_extra(state):
            return pick_shortest(rests)
        found = self._extra(node, at)
        behind = members.add_extra(state)
        if found is None or isinstance(found, tuple):
            return pick_shortest(rests) if found is None else (behind, found[0])
        return pick_shortest([*rests, join(found, self._nested.rest(node, behind), end.text)])

    def _extra(self, node: Object, at: int) -> tuple[Fit] | str | None:
        """Reads an undeclared member: how its element fits; or, if the text ends inside its tag,
        the rest of the member."""
        fit = fit_words(self._text, at, self._mark + "<")
        if not isinstance(fit, int):
            ends = self._nested.extend_key(node, "")
            options = (join(k, ">", self._nested.element(value, k)) for k, value in ends)
            return join(fit, pick_shortest(options))
        key = match_key(self._text, fit)
        if self._text.startswith(">", fit + len(key)) and key:
            extras = self._nested.extras(node)
            value = next((v for keys, v in extras if keys.accepts(key)), None)
            if value is None:
                return None
            return (self._element(value, fit + len(key) + 1, key, declared=False),)
        if fit + len(key) == len(self._text):
            ends = self._nested.extend_key(node, key)
            options = (join(k, ">", self._nested.element(value, k)) for k, value in ends)
            found = pick_shortest(options)
            return None if found is None else found[len(key) :]
        return None

    def _close(self, at: int, tag: str, declared: bool) -> Fit:
        """Reads a closing tag; that of an undeclared key may have any name."""
        if declared:
            return fit_words(self._text, at, self._hole.close(tag))
        fit = fit_words(self._text, at, self._mark + "</")
        if not isinstance(fit, int):
            return join(fit, tag, ">")
        key = match_key(self._text, fit)
        if fit + len(key) == len(self._text):
            return ">" if key else tag + ">"
        return fit + len(key) + 1 if key and self._text[fit + len(key)] == ">" else None

    def _element(self, node: Node, at: int, tag: str, *, declared: bool = True) -> Fit:
        """Reads a value and its closing tag."""
        end = _End(self._hole.close(tag), lambda i: self._close(i, tag, declared))
        branches = self._nested.branches(node)
        if at == len(self._text):
            return self._nested.element(node, tag)
        found = self._text.find(self._mark, at)
        if found > at:
            fits = any(t.accepts(self._text[at:found]) for t in branches.texts)
            return end.read(found) if fits else None
        if found == at:
            return decide(self._containers(branches.containers, at, end, branches.texts))
        return self._unfinished(branches.texts, branches.containers, at, end)

    def _containers(
        self, nodes: Sequence[Array | Object], at: int, end: _End, texts: Sequence[Language]
    ) -> Iterator[Fit]:
        if any(text.accepts("") for text in texts):
            yield end.read(at)
        for node in nodes:
            if isinstance(node, Object):
                yield self._members(node, at, end)
            else:
                yield self._items(node, at, end)

    def _items(self, node: Array, at: int, end: _End) -> Fit:
        """Reads items, and what stands behind them."""
        if (counted := find_items(node)) is not None:
            return self._counted(counted, at, end)
        done, nested = 0, self._nested
        while at < len(self._text):
            rests = list[str | None]()
            if done >= node.min_items:
                fit = end.read(at)
                if isinstance(fit, int):
                    return fit
                rests.append(fit)
            item = nested.shortest.item(node, done)
            if item is None:
                return pick_shortest(rests)
            fit = fit_words(self._text, at, self._hole.open(self._hole.item))
            element, rest = nested.element(item, self._hole.item), nested.items(node, done + 1)
            if not isinstance(fit, int):
                return pick_shortest([*rests, join(fit, element, rest, end.text)])
            fit, done = self._element(item, fit, self._hole.item), done + 1
            if not isinstance(fit, int):
                return join(fit, rest, end.text)
            at = fit
        return join(nested.items(node, done), end.text)

    def _counted(self, counted: Items, at: int, end: _End) -> Fit:
        """Reads items some of which are counted, those that fit first."""
        state, nested, tag = counted.start, self._nested, self._hole.item
        while at < len(self._text):
            fit = end.read(at) if counted.may_end(state) else None
            if isinstance(fit, int):
                return fit
            options: list[str | None] = [fit]
            opened = fit_words(self._text, at, self._hole.open(tag))
            for step in counted.steps(state):
                rest = join(nested.counted(counted, step.behind), end.text)
                if isinstance(opened, int):
                    read = self._element(step.node, opened, tag)
                else:
                    read = join(opened, nested.element(step.node, tag))
                if isinstance(read, int):
                    state, at = step.behind, read
                    break
                options.append(join(read, rest))
            else:
                return pick_shortest(options)
        return join(nested.counted(counted, state), end.text)

    def _unfinished(
        self,
        texts: Sequence[Language],
        containers: Sequence[Array | Object],
        at: int,
        end: _End,
    ) -> str | None:
        """The rest of a value in which no whole mark stands."""
        written, mark = self._text[at:], self._mark
        whole = (join(t.extend(written), end.text) for t in texts)
        options = [w for w in whole if w and (written + w).find(mark) >= len(written)]
        half = next((n for n in range(len(mark) - 1, 0, -1) if written.endswith(mark[:n])), 0)
        body = written[: len(written) - half]
        if half and (not self._is_token or not options):
            if end.text and any(t.accepts(body) for t in texts):
                options.append(end.text[half:])
            if not body:
                made = (join(self._nested.container(node), end.text) for node in containers)
                options += [m[half:] for m in made if m]
        return pick_shortest(options)
