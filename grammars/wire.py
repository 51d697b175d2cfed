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
class JsonArguments:
    """A hole: the arguments as one JSON object; the name stands elsewhere."""

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


Hole: TypeAlias = JsonCall | JsonArguments | TaggedArguments
Node: TypeAlias = Literal | Marker | Name | Hole


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

    A format whose call opens with a `JsonCall` has no marker: its turn is either content or calls,
    and content may not begin as a call does.

    Args:
        name: its name in the registry.
        call: one call; the first node is the marker that opens it, or a `JsonCall`.
        reasoning: the reasoning block, or None where the template knows none.
        before: what stands between content and the first call.
        between: what stands between two calls.
        after: white space that the template writes after the last call.
        ends: the texts that end a turn, when they are spelled out (replay of recorded turns).
        single: the template can write one call in a turn, no more.
    """

    name: str
    call: tuple[Node, ...]
    reasoning: Reasoning | None = None
    before: str = ""
    between: str = ""
    after: str = ""
    ends: tuple[str, ...] = field(default=())
    single: bool = False

    def __post_init__(self) -> None:
        if not self.call or not isinstance(self.call[0], Marker | JsonCall):
            raise TypeError(f"format {self.name}: a call opens with a marker or a JsonCall")

    @property
    def opener(self) -> Marker | None:
        """The marker that opens a call; None if none does."""
        first = self.call[0]
        return first if isinstance(first, Marker) else None

    @property
    def bare(self) -> JsonCall | None:
        """The JSON object that is a call by itself; None where a marker opens calls."""
        first = self.call[0]
        return first if isinstance(first, JsonCall) else None

    @property
    def hole(self) -> Hole:
        """Where the arguments go."""
        return next(n for n in self.call if isinstance(n, Hole))

    @property
    def openings(self) -> Mapping[str, tuple[Node, ...]]:
        """What opens a call, and the nodes that follow: its marker, and the tag behind the marker
        if that tells a call alone, for models leave the marker out."""
        if self.opener is None:
            return {}
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
