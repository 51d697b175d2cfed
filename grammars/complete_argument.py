"""The objects that a schema admits as tagged arguments: what each value may look like, what may
follow it, and the shortest of both. It mirrors `lark_tagged`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from string import ascii_lowercase

from grammars.complete_scalar import join
from grammars.languages import Language, Texts, Words, pick_shortest, speak_number, speak_string
from grammars.schema import (
    AnyValue,
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
from grammars.shortest import Shortest
from grammars.tagging import is_writable, spell_words, tell_kinds
from grammars.wire import TaggedArguments, count_common

_FREE = Texts(0, None, None)


@dataclass(frozen=True)
class Raw:
    """How a value may be written: as text of these languages, else as words or JSON."""

    texts: tuple[Language, ...]
    words: tuple[str, ...]
    nodes: tuple[Flat, ...]


@dataclass(frozen=True)
class Argument:
    """An argument that can be written.

    Args:
        ways: what stands between key and value, and how the value is written then.
    """

    key: str
    ways: tuple[tuple[str, Raw], ...]
    required: bool


@dataclass(frozen=True)
class Place:
    """Where one of the objects that the schema admits has come to: the arguments before `index`
    are over; behind the last one there are undeclared arguments."""

    object: "TaggedObject"
    index: int


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
        read = [Argument(p.key, self._ways(p.node), p.required) for p in node.properties]
        self.arguments = [argument for argument in read if argument.ways]
        self.declared = frozenset(p.key for p in node.properties)
        self.extra = () if node.additional is None else self._ways(node.additional)
        self._rests: dict[int, str | None] = {}

    def _ways(self, node: Node) -> tuple[tuple[str, Raw], ...]:
        """How the values of a node may be written; () if none can be."""
        tags = self.tags
        told = tell_kinds(flatten(node, self.shortest.definitions), tags)
        after = tags.after_kind if tags.kinds else ""
        raws = ((tags.after_key + kind + after, self._read(flat)) for kind, flat in told)
        return tuple((head, raw) for head, raw in raws if raw is not None)

    def _read(self, flat: Sequence[Flat]) -> Raw | None:
        """How such values may be written; None if none can be."""
        if any(isinstance(b, AnyValue) or (isinstance(b, String) and b.is_free) for b in flat):
            return Raw((_FREE,), (), ())
        has_text = any(isinstance(b, String) for b in flat)
        texts, words, nodes = list[Language](), list[str](), list[Flat]()
        for branch in flat:
            match branch:
                case String():
                    texts.append(speak_string(branch))
                case Number() if has_text and "multipleOf" not in branch.bounds:
                    texts.append(speak_number(branch))
                case Boolean():
                    words += self.tags.true + self.tags.false
                case Null():
                    words += self.tags.null
                case Constant(values):
                    words += [
                        w for v in values if is_writable(v, self.tags) for w in self._spell(v)
                    ]
                case _:
                    nodes.append(branch)
        if has_text and words:
            texts, words = [*texts, Words(tuple(words))], []
        raw = Raw(tuple(texts), tuple(dict.fromkeys(words)), tuple(nodes))
        return None if raw == Raw((), (), ()) else raw

    def _spell(self, value: Json) -> tuple[str, ...]:
        return spell_words(value, self.tags, self.shortest.spell)

    def reach(self, index: int) -> Iterator[int]:
        """The declared arguments that may come next."""
        for i in range(index, len(self.arguments)):
            yield i
            if self.arguments[i].required:
                return

    def may_end(self, index: int) -> bool:
        """Is none missing that is required?"""
        return not any(a.required for a in self.arguments[index:])

    def may_go_on(self, index: int) -> bool:
        """May another argument come?"""
        return index < len(self.arguments) or bool(self.extra)

    def value(self, raw: Raw) -> str | None:
        """The shortest value."""
        texts = [language.extend("") for language in raw.texts]
        if (text := pick_shortest(texts)) is not None:
            return text
        return pick_shortest([*raw.words, *map(self.shortest.value, raw.nodes)])

    def tails(self, index: int) -> list[Tail]:
        """What may follow a value."""
        tails: list[Tail] = []
        if self.may_end(index):
            tails.append(Tail(self.tags.close + self.tags.end, ""))
        if self.may_go_on(index):
            opened = self.tags.close + self.tags.open
            tails.append(Tail(opened, self.another(index), Place(self, index)))
        return tails

    def tail(self, index: int) -> str | None:
        """The shortest of what may follow a value."""
        if self.may_end(index):
            return self.tags.close + self.tags.end
        return join(self.tags.close + self.tags.open, self.another(index))

    def another(self, index: int) -> str | None:
        """The shortest rest that begins with another argument, behind its opening tag."""
        if index not in self._rests:
            for i in reversed(range(index, len(self.arguments) + 1)):
                options = [self._argument(self.arguments[k], k + 1) for k in self.reach(i)]
                if self.extra and self.may_end(i):
                    extra = Argument(self.extend_key(""), self.extra, required=False)
                    options.append(self._argument(extra, len(self.arguments)))
                self._rests[i] = pick_shortest(options)
        return self._rests[index]

    def _argument(self, argument: Argument, index: int) -> str | None:
        values = (join(after, self.value(raw)) for after, raw in argument.ways)
        return join(argument.key, pick_shortest(values), self.tail(index))

    def extend_key(self, written: str) -> str:
        """The shortest end of an undeclared key."""
        ends = (first + "a" * n for n in count() for first in ("", *ascii_lowercase))
        return next(end for end in ends if written + end not in self.declared | {""})

    @cached_property
    def _apart(self) -> int:
        """How much of a tag tells whether it is the end or another argument."""
        return count_common(self.tags.open, self.tags.end) + 1

    def stops(self, index: int) -> re.Pattern[str]:
        """What no raw value contains, as nothing but the end of the value can look so."""
        tags, apart = self.tags, self._apart
        stops = (
            tags.open if self.may_go_on(index) else tags.open[:apart],
            tags.end if self.may_end(index) else tags.end[:apart],
        )
        close = re.escape(tags.close)
        if tags.close.startswith("\n"):  # it counts also where it stands in front of the value
            close = f"(?:{close}|\\A{re.escape(tags.close[1:])})"
        return re.compile(f"{close}(?:{'|'.join(map(re.escape, stops))})")

    def find_stop(self, index: int, text: str) -> re.Match[str] | None:
        """Where a raw value stops. A tag that may not come there does not stop it if the tags that
        may come begin inside of it: a value may end as they begin."""
        stop = self.stops(index).search(text)
        endings = [tail.ending for tail in self.tails(index)]
        if stop is None or stop.group() in endings:
            return stop
        for at in range(stop.start() + 1, stop.end()):
            if any(ending.startswith(text[at : at + len(ending)]) for ending in endings):
                return self.stops(index).match(text, at)
        return stop
