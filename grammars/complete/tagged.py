"""Reads the beginning of tagged arguments, and ends them in the shortest way.

It mirrors `lark_tagged`: raw text ends at a composite terminator, and where text may go on, the
lexer gives nothing else a chance.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from grammars.complete.argument import Place, Raw, TaggedObject, Tail
from grammars.complete.json import JsonReader
from grammars.complete.scalar import Fit, fit_words, join
from grammars.spelling.languages import Language, pick_shortest
from grammars.spelling.tagged import express_key


@dataclass(frozen=True)
class Opened:
    """Another argument has been opened."""

    at: int
    places: tuple[Place, ...]


Outcome: TypeAlias = Fit | Opened


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """What several readings of the same text come to."""
    known = list(outcomes)
    opened = [outcome for outcome in known if isinstance(outcome, Opened)]
    if opened:
        return Opened(opened[0].at, tuple(p for outcome in opened for p in outcome.places))
    whole = next((outcome for outcome in known if isinstance(outcome, int)), None)
    return pick_shortest(o for o in known if isinstance(o, str)) if whole is None else whole


def find_inside(tag: str, tokens: Iterable[str]) -> set[int]:
    """The indices at which the tag would be cut inside of a token: there is no half of one."""
    return {
        index
        for name in tokens
        for match in re.finditer(re.escape(name), tag)
        for index in range(match.start() + 1, match.end())
    }


class TaggedReader:
    """Reads the arguments of one call.

    Args:
        objects: the objects that the schema of the tool admits.
        json: reads the same text.
        text: what has been written; a mask has held it.
        tokens: the texts of special tokens.
    """

    def __init__(
        self,
        objects: Sequence[TaggedObject],
        json: JsonReader,
        text: str,
        tokens: Sequence[str] = (),
    ):
        self._objects = objects
        self._tokens = tokens
        self._tags = objects[0].tags
        self._json = json
        self._extra_key = re.compile(express_key(self._tags))
        self._text = text

    def arguments(self, at: int) -> Fit:
        """Reads all arguments, from the first tag to the end tag."""
        tags = self._tags
        empty = tags.end if tags.empty is None else tags.empty
        starts = [
            replace(tail, ending=tags.open if tail.place else empty)
            for o in self._objects
            for tail in o.tails(o.members.start)
        ]
        outcome = self._tails(starts, at)
        while isinstance(outcome, Opened):
            outcome = self._argument(outcome)
        return outcome

    def _tails(self, tails: Iterable[Tail], at: int) -> Outcome:
        """Reads what follows a value."""
        outcomes: list[Outcome] = []
        for tail in tails:
            fit = fit_words(self._text, at, tail.ending)
            if isinstance(fit, int):
                outcomes.append(fit if tail.place is None else Opened(fit, (tail.place,)))
            else:
                outcomes.append(join(fit, tail.rest))
        return merge(outcomes)

    def _argument(self, opened: Opened) -> Outcome:
        """Reads one argument, from its key on. Where raw text is possible, nothing else is."""
        texts, others = list[Outcome](), list[Outcome]()
        for place in opened.places:
            for fit, raw, state in self._keys(place, opened.at):
                if not isinstance(fit, int):
                    rest = place.object.value(raw), place.object.tail(state)
                    others.append(join(fit, *rest))
                    continue
                behind = Place(place.object, state)
                texts.append(self._raw(raw.texts, behind, fit) if raw.texts else None)
                others.append(self._spelled(raw, behind, fit))
        found = merge(texts)
        return merge(others) if found is None else found

    def _keys(self, place: Place, at: int) -> Iterator[tuple[Fit, Raw, int]]:
        """How each key that may come fits, up to its value; its value, and what comes next."""
        node, state = place.object, place.state
        members = node.members
        for i in members.reach(state):
            argument = node.arguments[i]
            for after, raw in argument.ways:
                fit = fit_words(self._text, at, argument.key + after)
                yield fit, raw, members.add(state, i)
        if not members.may_have_extra(state):
            return
        match, behind = self._extra_key.match(self._text, at), members.add_extra(state)
        key = match.group() if match else ""
        for keys, ways in node.extras:
            if at + len(key) == len(self._text):
                end = keys.extend(key)
                yield from ((join(end, after), raw, behind) for after, raw in ways)
            elif key and keys.accepts(key):
                end = at + len(key)
                yield from ((fit_words(self._text, end, a), raw, behind) for a, raw in ways)

    def _spelled(self, raw: Raw, place: Place, at: int) -> Outcome:
        """Reads a value that is no raw text, and what follows it."""
        node = place.object
        fits = [fit_words(self._text, at, word) for word in raw.words]
        fits += [self._json.value(inner, at) for inner in raw.nodes]
        return merge(
            self._tails(node.tails(place.state), fit)
            if isinstance(fit, int)
            else join(fit, node.tail(place.state))
            for fit in fits
        )

    def _raw(self, texts: Sequence[Language], place: Place, at: int) -> Outcome:
        """Reads raw text, and what follows it."""
        node, written = place.object, self._text[at:]
        if stop := node.find_stop(place.state, written):
            body = written[: stop.start()]
            whole = stop.group().startswith(self._tags.close)
            if not whole or not any(language.accepts(body) for language in texts):
                return None
            return self._tails(node.tails(place.state), at + stop.start())
        for ends in (self._close_raw, self._end_raw):  # half a tag is rarely meant to be text
            found = pick_shortest(
                rest
                for end, rest in ends(texts, place, written)
                if rest is not None
                and (stop := node.find_stop(place.state, written + rest))
                and stop.start() == end
            )
            if found is not None:
                return found
        return None

    def _end_raw(
        self, texts: Sequence[Language], place: Place, written: str
    ) -> Iterator[tuple[int, str | None]]:
        """Where the value can be made to end, and the rest of the arguments then."""
        for language in texts:
            if (more := language.extend(written)) is not None:
                rest = join(more, place.object.tail(place.state))
                yield len(written) + len(more), rest

    def _close_raw(
        self, texts: Sequence[Language], place: Place, written: str
    ) -> Iterator[tuple[int, str | None]]:
        """Where it has ended if the text ends with half of what follows a value."""
        for tail in place.object.tails(place.state):
            inside = find_inside(tail.ending, self._tokens)
            halves = range(1, min(len(tail.ending), len(written) + 1))
            for half in (half for half in halves if half not in inside):
                end = len(written) - half
                if written.endswith(tail.ending[:half]) and any(
                    language.extend(written[:end]) == "" for language in texts
                ):
                    yield end, join(tail.ending[half:], tail.rest)
