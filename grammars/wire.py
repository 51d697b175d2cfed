"""The format algebra: how a model writes an assistant turn, as a value.

A `Format` is generative: literals, markers and typed holes. The grammar (`lark`), the parser
(`parse`) and the renderer (`render`) are interpreters of it; none of them knows a model's name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

LONGEST_NAME = 256  # characters; no tool has a longer one, no other text is held back for it
SHORTEST_TAG = 4  # characters; fewer could be anything


@dataclass(frozen=True)
class Literal:
    """Text that is always written as it stands."""

    text: str


@dataclass(frozen=True)
class Marker:
    """A structural tag: one token if the vocabulary has it as one, ordinary text if not."""

    text: str


@dataclass(frozen=True)
class Name:
    """A hole: the tool's name, written as it is."""


@dataclass(frozen=True)
class JsonStyle:
    """How the template spells JSON. Jinja's `tojson` writes `", "` and `": "`."""

    item: str = ", "
    key: str = ": "
    ascii: bool = False


@dataclass(frozen=True)
class JsonCall:
    """A hole: one JSON object that carries the name and the arguments."""

    name_key: str = "name"
    arguments_key: str = "arguments"
    style: JsonStyle = JsonStyle()


@dataclass(frozen=True)
class TaggedArguments:
    """A hole: every argument between tags of its own; strings raw, the rest JSON.

    An argument is written `open KEY after_key VALUE close`; `end` stands after the last one. No
    such format escapes anything, so a value ends only at `close` followed by `open` or `end`.
    `true`, `false` and `null` list the accepted spellings, the template's own first.
    """

    open: str
    after_key: str
    close: str
    end: str
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)
    null: tuple[str, ...] = ("null",)
    style: JsonStyle = JsonStyle()


Node: TypeAlias = Literal | Marker | Name | JsonCall | TaggedArguments


@dataclass(frozen=True)
class Reasoning:
    """A reasoning block: `opener pad_open TEXT pad_close closer after`.

    The pads and `after` are white space that the template writes; a model may leave it out.
    """

    opener: Marker
    closer: Marker
    pad_open: str = ""
    pad_close: str = ""
    after: str = ""


@dataclass(frozen=True)
class Format:
    """A wire format: `[reasoning] [content before] call (between call)* after`.

    Args:
        name: its name in the registry.
        call: one call; the first node is the marker that opens it.
        reasoning: the reasoning block, or None where the template knows none.
        before: what stands between content and the first call.
        between: what stands between two calls.
        after: white space that the template writes after the last call.
        ends: the texts that end a turn, when they are spelled out (replay of recorded turns).
    """

    name: str
    call: tuple[Node, ...]
    reasoning: Reasoning | None = None
    before: str = ""
    between: str = ""
    after: str = ""
    ends: tuple[str, ...] = field(default=())

    @property
    def opener(self) -> Marker:
        """The marker that opens a call."""
        first = self.call[0]
        if not isinstance(first, Marker):
            raise TypeError(f"format {self.name}: a call has to open with a marker")
        return first

    @property
    def openings(self) -> Mapping[str, tuple[Node, ...]]:
        """What opens a call, and the nodes that follow: its marker, and the tag behind the marker
        if that tells a call alone, for models leave the marker out."""
        openings = {self.opener.text: self.call[1:]}
        second = self.call[1]
        if isinstance(second, Literal) and len(second.text.strip()) >= SHORTEST_TAG:
            openings[second.text.strip()] = self.call[2:]
        return openings

    @property
    def reserved(self) -> tuple[str, ...]:
        """What free text cannot contain: the markers, and what else opens a call."""
        return tuple(dict.fromkeys([*self.markers, *self.openings]))

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts of all markers, those of the calls first, without repetition."""
        nodes: list[Node] = list(self.call)
        if self.reasoning is not None:
            nodes += [self.reasoning.opener, self.reasoning.closer]
        return tuple(dict.fromkeys(n.text for n in nodes if isinstance(n, Marker)))


def is_taggable(name: str) -> bool:
    """Can a tag carry this name, so that it is read back?"""
    plain = 0 < len(name) <= LONGEST_NAME and not any(c in name for c in "<>\n")
    return plain and name == name.strip()


def count_common(a: str, b: str) -> int:
    """How many characters both texts begin with alike."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def find_format(name: str, formats: Sequence[Format]) -> Format | None:
    """The format called `name`, or None."""
    return next((f for f in formats if f.name == name), None)
