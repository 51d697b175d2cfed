"""The objects that a schema admits as tagged arguments: what each value may look like, what may
follow it, and the shortest of both. It mirrors `lark_tagged`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast

from grammars.complete.scalar import join
from grammars.complete.shortest import Shortest
from grammars.schema.members import arrange, find_next
from grammars.schema.nodes import (
    Boolean,
    Constant,
    Flat,
    Json,
    Node,
    Null,
    Number,
    Object,
    String,
    flatten,
)
from grammars.spelling.languages import (
    Language,
    SizedTexts,
    Words,
    pick_shortest,
    speak_number,
    speak_string,
)
from grammars.spelling.tagged import (
    CONTAINER,
    admits_any_text,
    excludes_containers,
    find_extra_keys,
    is_writable,
    spell_words,
    tell_kinds,
)
from grammars.wire.format import TaggedArguments, count_common

_FREE = SizedTexts(0, None, None)


@dataclass(frozen=True)
class Raw:
    """How a value may be written: as text of these languages, else as words or JSON."""

    texts: tuple[Language, ...]
    words: tuple[str, ...]
    nodes: tuple[Flat, ...]


Ways: TypeAlias = tuple[tuple[str, Raw], ...]


@dataclass(frozen=True)
class Argument:
    """An argument that can be written.

    Args:
        ways: what stands between key and value, and how the value is written then.
    """

    key: str
    ways: Ways


@dataclass(frozen=True)
class Place:
    """In which state one of the objects that the schema admits is (see `members`)."""

    object: "TaggedObject"
    state: int


@dataclass(frozen=True)
class Tail:
    """What may follow a value: the text that ends it, the shortest rest behind that, and the place
    behind that if it opens another argument."""

    ending: str
    rest: str | None
    place: Place | None = None


class TaggedObject:
    """One of the objects that a schema admits, as tagged arguments."""

    def __init__(self, node: Object, tags: TaggedArguments, shortest: Shortest):
        self.tags = tags
        self.shortest = shortest
        read = [(p, self._ways(p.node)) for p in node.properties]
        self.arguments = [Argument(p.key, ways) for p, ways in read if ways]
        declared = [p.key for p in node.properties]
        found = ((find_extra_keys(tags, declared, e.keys), self._ways(e.node)) for e in node.extras)
        self.extras = [(k, ways) for k, ways in found if ways and not k.is_empty()]
        properties = [p for p, ways in read if ways]
        self.members = arrange(properties, bool(self.extras), node.presence, shortest.order)
        self._tails: dict[int, str | None] = {}

    def _ways(self, node: Node) -> Ways:
        """How the values of a node may be written; () if none can be."""
        tags = self.tags
        told = tell_kinds(flatten(node, self.shortest.definitions), tags)
        after = tags.after_kind if tags.kinds else ""
        raws = ((tags.after_key + kind + after, self._read(flat)) for kind, flat in told)
        return tuple((head, raw) for head, raw in raws if raw is not None)

    def _read(self, flat: Sequence[Flat]) -> Raw | None:
        """How such values may be written; None if none can be."""
        if admits_any_text(flat):
            return Raw((_FREE,), (), ())
        has_text = any(isinstance(b, String) for b in flat)
        without = CONTAINER if excludes_containers(flat) else None
        texts, words, nodes = list[Language](), list[str](), list[Flat]()
        for branch in flat:
            match branch:
                case String():
                    texts.append(speak_string(branch, without))
                case Number() if has_text and "multipleOf" not in branch.bounds:
                    texts.append(speak_number(branch))
                case Boolean():
                    words += self.tags.true + self.tags.false
                case Null():
                    words += self.tags.null
                case Constant(values):
                    listed = [v for v in values if is_writable(v, self.tags)]
                    for value in listed:
                        if isinstance(value, list | dict) and not has_text:
                            nodes.append(Constant((cast(Json, value),)))
                        else:
                            words += self._spell(value)
                case _:
                    nodes.append(branch)
        if has_text and words:
            texts, words = [*texts, Words(tuple(words))], []
        raw = Raw(tuple(texts), tuple(dict.fromkeys(words)), tuple(nodes))
        return None if raw == Raw((), (), ()) else raw

    def _spell(self, value: Json) -> tuple[str, ...]:
        return spell_words(value, self.tags, self.shortest.spell)

    def value(self, raw: Raw) -> str | None:
        """The shortest value."""
        texts = [language.extend("") for language in raw.texts]
        if (text := pick_shortest(texts)) is not None:
            return text
        return pick_shortest([*raw.words, *map(self.shortest.value, raw.nodes)])

    def tails(self, state: int) -> list[Tail]:
        """What may follow a value."""
        tails: list[Tail] = []
        if self.members.may_end(state):
            tails.append(Tail(self.tags.close + self.tags.end, ""))
        if self.members.may_go_on(state):
            opened = self.tags.close + self.tags.open
            tails.append(Tail(opened, self.another(state), Place(self, state)))
        return tails

    def tail(self, state: int) -> str | None:
        """The shortest of what may follow a value."""
        if state not in self._tails:
            missing = self.members.find_missing(state, self._measure)
            opened = self.tags.close + self.tags.open
            parts = () if missing is None else (join(opened, self._argument(i)) for i in missing)
            end = None if missing is None else self.tags.close + self.tags.end
            self._tails[state] = join(*parts, end)
        return self._tails[state]

    def another(self, state: int) -> str | None:
        """The shortest rest that begins with another argument, behind its opening tag."""
        if not self.members.may_end(state):
            rest = self.tail(state)
            return rest and rest.removeprefix(self.tags.close + self.tags.open)
        behind = find_next(self.members, state)
        return pick_shortest(join(self._argument(i), self.tail(b)) for i, b in behind.items())

    def _measure(self, index: int | None) -> int | None:
        text = self._argument(index)
        return None if text is None else len(self.tags.close + self.tags.open + text)

    def _argument(self, index: int | None) -> str | None:
        """The shortest argument: the declared one with this index, or an undeclared one."""
        if index is not None:
            return join(self.arguments[index].key, self._shorten(self.arguments[index].ways))
        return pick_shortest(join(keys.extend(""), self._shorten(w)) for keys, w in self.extras)

    def _shorten(self, ways: Ways) -> str | None:
        """The shortest of what may stand behind a key."""
        return pick_shortest(join(after, self.value(raw)) for after, raw in ways)

    @cached_property
    def _apart(self) -> int:
        """How much of a tag tells whether it is the end or another argument."""
        return count_common(self.tags.open, self.tags.end) + 1

    def stops(self, state: int) -> re.Pattern[str]:
        """What no raw value contains, as nothing but the end of the value can look so."""
        tags, apart = self.tags, self._apart
        stops = (
            tags.open if self.members.may_go_on(state) else tags.open[:apart],
            tags.end if self.members.may_end(state) else tags.end[:apart],
        )
        close = re.escape(tags.close)
        if tags.close.startswith("\n"):  # it counts also where it stands in front of the value
            close = f"(?:{close}|\\A{re.escape(tags.close[1:])})"
        return re.compile(f"{close}(?:{'|'.join(map(re.escape, stops))})")

    def find_stop(self, state: int, text: str) -> re.Match[str] | None:
        """Where a raw value stops. A tag that may not come there does not stop it if the tags that
        may come begin inside of it: a value may end as they begin."""
        stop = self.stops(state).search(text)
        endings = [tail.ending for tail in self.tails(state)]
        if stop is None or stop.group() in endings:
            return stop
        for at in range(stop.start() + 1, stop.end()):
            if any(ending.startswith(text[at : at + len(ending)]) for ending in endings):
                return self.stops(state).match(text, at)
        return stop
