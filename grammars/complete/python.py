"""Reads the beginning of the arguments of a call in Python, and ends them in the shortest way.

It mirrors `lark_python`: a raw string ends where what follows its quote can follow the string.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grammars.complete.json import JsonReader
from grammars.complete.python_object import Argument, PythonObject
from grammars.complete.scalar import Fit, decide, fit_words, join
from grammars.complete.shortest import Shortest
from grammars.complete.string import PythonStrings
from grammars.schema.nodes import Schema
from grammars.spelling.languages import Language, pick_shortest
from grammars.spelling.python import WORD, Ends
from grammars.spelling.python_values import ESCAPED, RAW, Kinds
from grammars.spelling.styles import spell_scalar
from grammars.wire.format import PythonArguments


class PythonPart:
    """The arguments of a call of one tool.

    Args:
        ends: what ends a raw string.
        follow: what may stand behind the last argument.
        tokens: the names of tokens in that; half of one is text of the string.
    """

    def __init__(
        self,
        schema: Schema,
        hole: PythonArguments,
        ends: Ends,
        follow: Sequence[str],
        shortest: Shortest,
        tokens: Sequence[str] = (),
    ):
        self._tokens = tokens
        self._objects = [PythonObject(o, hole, ends, shortest) for o in schema.objects]
        self._follow, self._shortest = tuple(follow), shortest
        self.shortest = pick_shortest(o.rest(o.members.start, first=True) for o in self._objects)

    def read(self, text: str, at: int) -> Fit:
        json = JsonReader(self._shortest, text)
        follow, tokens = self._follow, self._tokens
        readers = (PythonReader(o, follow, json, text, tokens) for o in self._objects)
        return decide(reader.arguments(at) for reader in readers)


class PythonReader:
    """Reads the arguments as one of the objects that a schema admits.

    Args:
        node: the object.
        follow: what may stand behind the last argument.
        json: reads the same text.
        text: what has been written; a mask has held it.
        tokens: as in `PythonPart`.
    """

    def __init__(
        self,
        node: PythonObject,
        follow: Sequence[str],
        json: JsonReader,
        text: str,
        tokens: Sequence[str],
    ):
        self._tokens = tokens
        self._object, self._hole = node, node.hole
        self._follow = follow
        self._json = json
        self._text = text
        self._escaped = PythonStrings(replace(self._hole.style, quotes=(ESCAPED,)))

    def arguments(self, at: int) -> Fit:
        """Reads all arguments, up to what stands behind them."""
        node, text, first = self._object, self._text, True
        state = node.members.start
        while at < len(text):
            if any(text[at] == follow[:1] for follow in self._follow):
                return at if node.members.may_end(state) else None
            fit = at if first else fit_words(text, at, self._hole.item)
            if not isinstance(fit, int):
                return join(fit, node.another(state))
            found = self._key(state, fit)
            if not isinstance(found, tuple):
                return found
            argument, state, at = found
            fit, first = self._value(argument, state, at), False
            if not isinstance(fit, int):
                return join(fit, node.rest(state))
            at = fit
        return node.rest(state, first=first)

    def _key(self, state: int, at: int) -> tuple[Argument, int, int] | str | None:
        """Reads a key: its argument, the state behind it, where its value begins."""
        node, text, members = self._object, self._text, self._object.members
        rests: list[str | None] = []
        for i in members.reach(state):
            argument, behind = node.arguments[i], members.add(state, i)
            fit = fit_words(text, at, argument.key + self._hole.after_key)
            if isinstance(fit, int):
                return argument, behind, fit
            rests.append(join(fit, argument.shortest, node.rest(behind)))
        if not members.may_have_extra(state):
            return pick_shortest(rests)
        match = re.compile(WORD).match(text, at)
        key, behind = match.group() if match else "", members.add_extra(state)
        fit = fit_words(text, at + len(key), self._hole.after_key)
        for keys, extra in node.extras:
            if isinstance(fit, int):
                if keys.accepts(key):
                    return extra, behind, fit
                continue
            end = keys.extend(key) if at + len(key) == len(text) else ""
            rests.append(join(end, fit, extra.shortest, node.rest(behind)))
        return pick_shortest(rests)

    def _value(self, argument: Argument, state: int, at: int) -> Fit:
        """Reads a value."""
        if at == len(self._text):
            return argument.shortest
        kinds = argument.kinds
        match self._text[at]:
            case "'":
                return self._raw(argument.texts, state, at + 1)
            case '"':
                return decide(self._quoted(kinds, at))
            case _:
                return decide(self._json.value(other, at) for other in kinds.others)

    def _quoted(self, kinds: Kinds, at: int) -> Iterator[Fit]:
        """Reads a string between double quotes."""
        style = self._escaped.style
        yield from (self._escaped.fit(self._text, at, node) for node in kinds.strings)
        for word in kinds.words:
            yield fit_words(self._text, at, *spell_scalar(word, style))

    def _raw(self, texts: Sequence[Language], state: int, at: int) -> Fit:
        """Reads a raw string, from behind its first quote."""
        node, text = self._object, self._text
        end, is_whole = node.ends.find(text, at, RAW)
        if is_whole:
            return end + 1 if any(t.accepts(text[at:end]) for t in texts) else None
        half = text.rfind(RAW, at)  # no other quote stands in what follows
        may_end = half >= 0 and self._may_follow(text[half + 1 :], state)
        if may_end and any(t.accepts(text[at:half]) for t in texts):
            return half + 1
        ends = (language.extend(text[at:]) for language in texts)
        held = (e for e in ends if e is not None and node.ends.holds(text[at:] + e, RAW))
        return join(pick_shortest(held), RAW)

    def _may_follow(self, rest: str, state: int) -> bool:
        """Can that be the beginning of what stands behind a value?"""
        node, item = self._object, self._hole.item
        keys = (node.arguments[i].key for i in node.members.reach(state))
        texts = [item + key + self._hole.after_key for key in keys]
        texts += self._follow if node.members.may_end(state) else ()
        texts = [text for text in texts if not _is_inside(len(rest), text, self._tokens)]
        if Ends(tuple(texts)).begins(rest):
            return True
        return node.members.may_have_extra(state) and self._may_be_extra(rest)

    def _may_be_extra(self, rest: str) -> bool:
        """Can that be the beginning of an undeclared argument?"""
        item, after = self._hole.item, self._hole.after_key
        if not rest.startswith(item):
            return item.startswith(rest) and bool(self._object.extras)
        key = re.match(f"(?:{WORD})?", rest[len(item) :])
        assert key
        behind = rest[len(item) + key.end() :]
        if behind:
            found = any(keys.accepts(key.group()) for keys, _ in self._object.extras)
            return found and after.startswith(behind)
        return any(keys.extend(key.group()) is not None for keys, _ in self._object.extras)


def _is_inside(place: int, text: str, tokens: Sequence[str]) -> bool:
    """Is that place of the text inside one of these tokens?"""
    found = (m for t in tokens for m in re.finditer(re.escape(t), text))
    return any(match.start() < place < match.end() for match in found)
