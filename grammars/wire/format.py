"""The format algebra: how a model writes an assistant turn, as a value.

A `Format` is generative: literals, markers and typed holes. The grammar (`build`), the parser
(`parse`) and the renderer (`render`) are interpreters of it; none of them knows a model's name.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import TypeAlias, TypeVar

from grammars.wire.nodes import PYTHON as PYTHON
from grammars.wire.nodes import CallId as CallId
from grammars.wire.nodes import CallIndex as CallIndex
from grammars.wire.nodes import Fixed as Fixed
from grammars.wire.nodes import Hole as Hole
from grammars.wire.nodes import JsonArguments as JsonArguments
from grammars.wire.nodes import JsonCall as JsonCall
from grammars.wire.nodes import JsonStyle as JsonStyle
from grammars.wire.nodes import KeywordArguments as KeywordArguments
from grammars.wire.nodes import Literal as Literal
from grammars.wire.nodes import Marker as Marker
from grammars.wire.nodes import Name as Name
from grammars.wire.nodes import NestedArguments as NestedArguments
from grammars.wire.nodes import Node as Node
from grammars.wire.nodes import TaggedArguments as TaggedArguments
from grammars.wire.nodes import TextWrapper as TextWrapper
from grammars.wire.variants import Handle, MessageHeaders

T = TypeVar("T")
CallNode: TypeAlias = Node | Handle
LONGEST_NAME = 256  # characters; a parser buffers no more than that in search of a name
MARGIN = 4  # characters of white space that models add or leave out; templates write two at most
WIDEST = 256  # characters of white space, whatever a template writes
SHORTEST_TAG = 4  # characters; a shorter text could stand anywhere
_TAG = re.compile(r"<[^<>\s]*>|\[[A-Z_/]+\]")


@dataclass(frozen=True)
class Content:
    """Content is written `opener TEXT closer`.

    Args:
        calls: calls may follow.
    """

    opener: str = ""
    closer: str = ""
    calls: bool = True


class ContentPlace(StrEnum):
    """Where content stands in a turn with calls."""

    BEFORE = "before"
    BEHIND = "behind"
    INSIDE = "inside"  # of what opens the calls, between its two first texts


@dataclass(frozen=True)
class Reasoning:
    """A reasoning block: `opener pad_open TEXT pad_close closer after`.

    The pads and `after` are white space that the template writes; a model may leave it out.

    Args:
        closer: a literal, such as a line break, ends the block and means nothing anywhere else.
        starts_closed: a turn without reasoning may begin with the closer.
        next_opener: the end of the closer, where that is the beginning of the next message.
    """

    opener: Marker
    closer: Fixed
    pad_open: str = ""
    pad_close: str = ""
    after: str = ""
    starts_closed: bool = False
    next_opener: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts of opener and closer that are markers, which nothing but the block has."""
        return tuple(node.text for node in (self.opener, self.closer) if isinstance(node, Marker))

    @property
    def shown(self) -> tuple[str, str]:
        """Opener and closer for people to read: white space is quoted."""
        closer = self.closer.text
        return self.opener.text, repr(closer) if closer.isspace() else closer

    @property
    def head(self) -> str:
        """What the template writes in front of the text."""
        return self.opener.text + self.pad_open

    @property
    def foot(self) -> str:
        """What the template writes behind the text, without what belongs to the next message."""
        return self.pad_close + self.closer.text.removesuffix(self.next_opener) + self.after


@dataclass(frozen=True)
class Format:
    """A wire format: `[reasoning] head [content before] [opening] call (between call)* [closing]
    after [content]`.

    A format without a marker in front of its first `JsonCall`, of an object that is spelled out
    around `JsonArguments`, or of a list of calls in Python, is bare: its turn is either content or
    calls, and content may not begin as a call does.

    Args:
        name: its name in the registry.
        call: one call; where nothing opens the calls together, its first node is the marker that
            opens it, a `JsonCall` or the `{` of an object; in Python, a name in a list of calls.
        opening: what opens the calls of a turn together, a marker first, or the bracket of a list
            of bare calls; () if nothing does.
        closing: what closes them together.
        closes_one: a turn of one call has the `closing`; False: the template leaves it out there,
            so a turn may end without it.
        reasoning: the reasoning block, or None where the template knows none.
        contents: how content is written, the usual way first.
        content_places: where content stands in a turn with calls, the template's own place first.
            Only content without opener and closer can stand behind calls, or inside.
        before: what stands between content and the calls: white space, or the end of a message and
            the header of the next one, which calls go on with.
        between: what stands between two calls.
        after: white space that the template writes after the calls.
        head: what the template writes at the beginning of every turn, content or calls, and not
            in the prompt.
        tail: what the template writes at the end of every turn, before the end of turn.
        ends: the texts that end a turn, when they are spelled out (replay of recorded turns).
        single: the template can write one call in a turn, no more.
        variants: other ways in which models write a call, a marker first; only the parser knows
            them, and only in recovery.
        strays: markers of the reasoning block that models also write around an answer, where they
            mean nothing, as they do with empty blocks; in recovery the parser drops them, and a
            block may open anywhere.
        headers: how models write the headers of messages, where each part of a turn is one; the
            parser reads by it in recovery, in place of all else that opens and closes parts.

    Raises:
        TypeError: nothing that a parser can recognise opens the calls, or a variant; or calls of
            this kind cannot be told from what stands around them.
    """

    name: str
    call: tuple[Node, ...]
    opening: tuple[Fixed, ...] = ()
    closing: tuple[Fixed, ...] = ()
    closes_one: bool = True
    reasoning: Reasoning | None = None
    contents: tuple[Content, ...] = (Content(),)
    content_places: tuple[ContentPlace, ...] = (ContentPlace.BEFORE,)
    before: str = ""
    between: str = ""
    after: str = ""
    head: str = ""
    tail: str = ""
    ends: tuple[str, ...] = ()
    single: bool = False
    variants: tuple[tuple[CallNode, ...], ...] = ()
    strays: tuple[str, ...] = ()
    headers: MessageHeaders | None = None

    def __post_init__(self) -> None:
        first = next(iter(self.opening + self.call), None)
        if not isinstance(first, Marker) and self.bare is None:
            wanted = "a marker, a JsonCall or a list in Python"
            raise TypeError(f"format {self.name}: calls open with {wanted}")
        if not self.content_places:
            raise TypeError(f"format {self.name}: no place for content beside calls")
        if self.has_content_behind and (self.bare or Content() not in self.contents):
            raise TypeError(f"format {self.name}: nothing tells calls from content behind them")
        if self.has_content_inside and (len(self.opening) < 2 or self.opener is None):
            raise TypeError(f"format {self.name}: content inside stands between two texts")
        for nodes in self.variants:
            if nodes and not isinstance(nodes[0], Marker):
                raise TypeError(f"format {self.name}: variants open with a marker")
        for node in self.call:
            if not isinstance(node, KeywordArguments):
                continue
            if Name() not in self.call or not _ends_arguments(self.call, node):
                raise TypeError(f"format {self.name}: calls in Python have a name, and are closed")

    @property
    def has_content_behind(self) -> bool:
        """May content stand behind calls?"""
        return ContentPlace.BEHIND in self.content_places

    @property
    def has_content_inside(self) -> bool:
        """May content stand inside of what opens the calls?"""
        return ContentPlace.INSIDE in self.content_places

    @property
    def opener(self) -> Marker | None:
        """The marker that opens a call, or all calls; None if none does."""
        first = (self.opening + self.call)[0]
        return first if isinstance(first, Marker) else None

    @property
    def bare(self) -> JsonCall | JsonArguments | KeywordArguments | None:
        """The JSON object that is a call by itself, or the arguments in such an object, or those of
        calls in Python in a list that nothing else opens; None where a marker opens calls."""
        first = self.call[0]
        if any(isinstance(node, Marker) for node in self.opening):
            return None
        if isinstance(first, Literal) and first.text.startswith("{"):
            return next((node for node in self.call if isinstance(node, JsonArguments)), None)
        if isinstance(first, Name) and self.opening:
            return next((node for node in self.call if isinstance(node, KeywordArguments)), None)
        return first if isinstance(first, JsonCall) else None

    @property
    def bare_start(self) -> tuple[str, ...]:
        """The texts that bare calls begin with, between which white space may stand: what opens
        the list, a brace, the first key; in Python, what opens the list, in front of a name; where
        an object is spelled out, all up to its first hole. () where a marker opens calls."""
        bare = self.bare
        if bare is None:
            return ()
        if isinstance(bare, KeywordArguments):
            return ("".join(node.text for node in self.opening).strip(),)
        if isinstance(bare, JsonArguments):
            return ("".join(map(_text_of, (*self.opening, self.call[0]))).strip(),)
        key = bare.id_key if bare.id is not None and bare.id_first else bare.name_key
        opening = "".join(node.text for node in self.opening).strip()
        texts = (opening, "{", json.dumps(key, ensure_ascii=bare.style.ascii))
        return tuple(filter(None, texts))

    @property
    def start(self) -> str:
        """The text that one call begins with, behind what opens all; "" where that is a name, or
        another word that may be any."""
        first = self.call[0]
        if isinstance(first, Name | CallId | CallIndex):
            return ""
        return first.text.strip() if isinstance(first, Fixed) else "{"

    @property
    def call_head(self) -> str:
        """The fixed text that one call begins with, behind what opens all."""
        text = ""
        for node in self.call:
            if not isinstance(node, Fixed):
                break
            text += node.text
        return text

    @property
    def most_space(self) -> int:
        """The characters of white space that may stand in front of a block, at most: few, for small
        models go on with it; more only where the template indents calls, or spaces them out."""
        written = "" if self.reasoning is None else self.reasoning.after
        if not self.before.strip():
            written += self.before
        return min(max(MARGIN, len(written)), WIDEST)

    @property
    def header(self) -> str:
        """What stands between two calls, where that ends a message and begins another one; ""
        where it does not."""
        is_header = any(end in self.between for end in self.inner_ends)
        return self.between if is_header else ""

    @property
    def hole(self) -> Hole:
        """The node of the arguments."""
        return next(node for node in self.call if isinstance(node, Hole))

    @property
    def openings(self) -> Mapping[str, tuple[Node, ...]]:
        """The texts that open the first call, each with the nodes that follow: its marker, and the
        tag behind the marker if that opens calls alone, for models leave the marker out."""
        if self.opener is None:
            return {}
        openings = {self.opener.text: (self.opening + self.call)[1:]}
        if self.opening:
            return openings
        tag = self.call[1]
        if isinstance(tag, Literal) and len(tag.text.strip()) >= SHORTEST_TAG:
            openings[tag.text.strip()] = self.call[2:]
        return openings

    @property
    def recovered(self) -> Mapping[str, tuple[tuple[CallNode, ...], ...]]:
        """The texts that open a call in recovery, each with the nodes that may follow: the
        `openings`, the marker of one call where that of all is left out, and the variants."""
        found: dict[str, list[tuple[CallNode, ...]]] = defaultdict(list)
        for opening, nodes in self.openings.items():
            found[opening].append(nodes)
        for nodes in (self.call, *self.variants):
            first = nodes[0]
            if self.opener and self.opening:
                found[self.opener.text].append((*self.opening[1:], *nodes))
            if isinstance(first, Marker) and len(first.text) >= SHORTEST_TAG:
                found[first.text].append(nodes[1:])
        return {opening: _unique(ways) for opening, ways in found.items()}

    def closes(self, opening: str) -> tuple[Fixed, ...]:
        """The closing nodes of calls that were opened by that text; "" opens bare ones."""
        if self.bare is not None:
            return self.closing
        if self.opener is not None and opening == self.opener.text:
            return self.closing
        return ()

    @property
    def reserved(self) -> tuple[str, ...]:
        """The texts that content cannot contain: the markers, and what else opens a call; but where
        calls come only behind the closer of content, what opens them may stand in it."""
        reserved = list(self.markers)
        if any(content.calls and not content.closer for content in self.contents):
            reserved += self.openings
        else:
            reserved = [marker for marker in reserved if marker not in self.openings]
        reserved += [content.closer for content in self.contents] + [self.head]
        return _unique(filter(None, reserved))

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts of all markers, those of the calls first, without repetition."""
        nodes: list[Node] = [*self.opening, *self.call, *self.closing]
        texts = [node.text for node in nodes if isinstance(node, Marker)]
        if self.reasoning is not None:
            texts += self.reasoning.markers
        return _unique(texts)

    @property
    def runs(self) -> tuple[str, ...]:
        """The texts between two holes, whole, and all other `texts`."""
        runs = [""]
        for node in (*self.opening, *self.call, *self.closing):
            if isinstance(node, Fixed):
                runs[-1] += node.text
            else:
                runs.append("")
        return _unique([*runs, *self.texts])

    @property
    def inner_ends(self) -> tuple[str, ...]:
        """The texts that end a turn, but also stand inside one (Solar's `<|end|>` behind the
        reasoning): as a token such a text is part of the grammar, which cannot leave it to the end
        of generation."""
        ends: list[str] = []
        for end in self.ends:
            opens_calls = self.opener is not None and self.opener.text.startswith(end)
            if not opens_calls and any(end in text for text in self.texts):
                ends.append(end)
        return tuple(ends)

    @property
    def atoms(self) -> tuple[str, ...]:
        """The tags that the markers consist of, where a vocabulary has tokens for such."""
        tags: list[str] = []
        for marker in self.markers:
            tags += _TAG.findall(marker)
        if isinstance(self.hole, NestedArguments):
            tags.append(self.hole.mark)
        return _unique(tags)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that the format spells out itself; where the vocabulary has tokens for parts of it,
        those are written."""
        hole = self.hole
        nodes = (*self.opening, *self.call, *self.closing)
        texts = [node.text for node in nodes if isinstance(node, Fixed)]
        if isinstance(hole, TaggedArguments):
            texts += [hole.open, hole.after_key, hole.close, hole.end]
            texts += [hole.empty or "", hole.after_kind, hole.close_key or ""]
            if hole.wrapper is not None:
                texts += [hole.wrapper.opener, hole.wrapper.closer]
        elif isinstance(hole, KeywordArguments):
            texts += [hole.item, hole.after_key, hole.first, hole.last, hole.empty]
        elif isinstance(hole, NestedArguments):
            texts += [hole.mark, hole.open(hole.item), hole.close(hole.item)]
        for content in self.contents:
            texts += [content.opener, content.closer]
        if self.reasoning is not None:
            texts += self.reasoning.markers
        if not hole.style.escapes:
            texts += hole.style.quotes
        texts += [self.between, self.head, self.tail, self.before if self.before.strip() else ""]
        return _unique(filter(None, texts))

    @property
    def structure(self) -> tuple[str, ...]:
        """All that a parser may take for structure: the `texts`, and what models write instead."""
        texts = [*self.texts, *self.recovered, *self.inner_ends, *self.strays]
        if self.headers is not None:
            texts += self.headers.marks
        return _unique(texts)


def _ends_arguments(call: Sequence[Node], hole: KeywordArguments) -> bool:
    """Does a sign that no key begins with stand behind the arguments? None has to where each value
    tells its own end, and a text of its own what stands between two."""
    behind = takewhile(lambda node: isinstance(node, Fixed), reversed(call))
    text = hole.last + "".join(reversed([_text_of(node) for node in behind]))
    is_told = not hole.quote and hole.item != "\n"
    return is_told or text.lstrip().startswith(tuple(")]}[<>"))


def _text_of(node: Node) -> str:
    return node.text if isinstance(node, Fixed) else ""


def _unique(values: Iterable[T]) -> tuple[T, ...]:
    """The values in their order, each once."""
    return tuple(dict.fromkeys(values))


def cut_lead(nodes: Sequence[Node], lead: str) -> tuple[Node, ...] | None:
    """The nodes behind a text with which they begin; None where they begin with another one.

    Args:
        nodes: of a call, from its opener on.
        lead: what the prompt has written already; it may end inside a node.
    """
    for i, node in enumerate(nodes):
        if not isinstance(node, Fixed):
            return tuple(nodes[i:]) if not lead else None
        if node.text.startswith(lead):
            rest = node.text.removeprefix(lead)
            # What is left of a marker is no marker: no token stands for half of one.
            return (Literal(rest), *nodes[i + 1 :]) if rest else tuple(nodes[i + 1 :])
        if not lead.startswith(node.text):
            return None
        lead = lead.removeprefix(node.text)
    return () if not lead else None


def is_taggable(name: str) -> bool:
    """True if a name between tags is read back as it is."""
    has_breaks = not {"<", ">", "\n"}.isdisjoint(name)
    return 0 < len(name) <= LONGEST_NAME and not has_breaks and name == name.strip()


def find_kind(tags: TaggedArguments, value: object) -> str:
    """The text that such a format writes for the type of a value."""
    kinds = dict(tags.kinds)
    for kind in name_types(value):
        if kind in kinds:
            return kinds[kind]
    return kinds.get("", "")


def name_types(value: object) -> tuple[str, ...]:
    """The JSON Schema types of a value, the narrowest first."""
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("number",)
        case str():
            return ("string",)
        case list():
            return ("array",)
        case _:
            return ("object",)


def count_common(a: Sequence[object], b: Sequence[object]) -> int:
    """The length of the common prefix of two texts, or two sequences of one type."""
    low, high = 0, min(len(a), len(b))
    # By bisection: slices are compared at the speed of C.
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def find_format(name: str, formats: Sequence[Format]) -> Format | None:
    """The format called `name`, or None."""
    for format in formats:
        if format.name == name:
            return format
    return None
