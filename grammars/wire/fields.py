"""The fields of a format: its name, the nodes of a call, and the other parts of a turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import TypeAlias

from grammars.wire.nodes import (
    CallId,
    CallIndex,
    Fixed,
    Hole,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Node,
    spell_fixed,
)
from grammars.wire.variants import AnyWord, Handle, MessageHeaders

CallNode: TypeAlias = Node | Handle | AnyWord


@dataclass(frozen=True)
class Content:
    """Content is written `opener TEXT closer`.

    Args:
        calls: calls may follow.
        escaped: the text is inside a JSON string: the opener ends with its first quote, and the
            closer begins with its last one. No calls may follow.
        ascii: the template escapes characters beyond ASCII, too. Models may leave them as they are.

    Raises:
        TypeError: an escaped text without quotes around it, or with calls after it.
    """

    opener: str = ""
    closer: str = ""
    calls: bool = True
    escaped: bool = False
    ascii: bool = False

    def __post_init__(self) -> None:
        is_quoted = self.opener.endswith('"') and self.closer.startswith('"')
        if self.escaped and (self.calls or not is_quoted):
            raise TypeError("escaped content is a JSON string that no calls follow")

    def spell(self, text: str) -> str:
        """Returns a text as it stands between opener and closer."""
        return json.dumps(text, ensure_ascii=self.ascii)[1:-1] if self.escaped else text


class ContentPlace(StrEnum):
    """Where the content is in a turn with calls."""

    BEFORE = "before"
    AFTER = "after"
    INSIDE = "inside"  # of the opening of the calls, between its first two texts


@dataclass(frozen=True)
class Several:
    """How two or more calls of a turn are written, if one call alone is written in another way:
    `opening call (between call)* closing`.

    Args:
        opening: the text before all calls: first a marker, which may be that of one call.
        closing: the text after all calls.
        between: the text between two calls.
    """

    opening: tuple[Fixed, ...]
    closing: tuple[Fixed, ...] = ()
    between: str = ""


@dataclass(frozen=True)
class Reasoning:
    """A reasoning block: `opener pad_open TEXT pad_close closer after`.

    The pads and `after` are white space that the template writes; a model may leave it out.

    Args:
        opener: opens the block.
        closer: closes the block. A literal, such as a line break, has no meaning anywhere else.
        pad_open: white space after the opener.
        pad_close: white space before the closer.
        after: white space after the closer.
        starts_closed: a turn without reasoning may begin with the closer.
        empty: the block with which a turn without reasoning may begin, if its opener is another one
            than that of a thought: `<think effort="none"></think>`; "": there is none.
        next_opener: the end of the closer, if that is the beginning of the next message.
    """

    opener: Marker
    closer: Fixed
    pad_open: str = ""
    pad_close: str = ""
    after: str = ""
    starts_closed: bool = False
    empty: str = ""
    next_opener: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts of opener and closer, as far as these are markers."""
        return tuple(node.text for node in (self.opener, self.closer) if isinstance(node, Marker))

    @property
    def closers(self) -> tuple[str, str]:
        """The closer after the white space that the template writes, and the closer alone."""
        return self.pad_close + self.closer.text, self.closer.text

    @property
    def skipped(self) -> tuple[str, ...]:
        """The texts with which a turn without reasoning may begin."""
        closer = self.closer.text if self.starts_closed else ""
        return tuple(filter(None, (self.empty, closer)))

    @property
    def shown(self) -> tuple[str, str]:
        """Opener and closer for messages to users: white space is quoted."""
        closer = self.closer.text
        return self.opener.text, repr(closer) if closer.isspace() else closer

    @property
    def head(self) -> str:
        """What the template writes before the text."""
        return self.opener.text + self.pad_open

    @property
    def foot(self) -> str:
        """What the template writes after the text, without the part of the next message."""
        return self.pad_close + self.closer.text.removesuffix(self.next_opener) + self.after


@dataclass(frozen=True)
class LateHeader:
    """The header of a turn where the prompt lacks it, as after a result in DeepSeek's templates.
    Models may write it or leave it out.

    Args:
        text: the header.
        before_content: the template writes it in front of content.
        before_calls: the template writes it in front of calls.
    """

    text: str
    before_content: bool = False
    before_calls: bool = False


@dataclass(frozen=True)
class FormatFields:
    """A wire format: `[reasoning] head [content before] [opening] call (between call)* [closing]
    after [content]`.

    A format is bare if no marker comes before its calls: neither before a `JsonCall`, nor before
    an object that is written out around `JsonArguments`, nor before a list of calls in Python. The
    turn of a bare format is either content or calls, and content may not begin like a call.

    Args:
        name: its name in the registry.
        call: one call. Without `opening`, its first node is the marker that opens it, a `JsonCall`,
            or the `{` of an object; in Python, a name in a list of calls.
        opening: the text before all calls of a turn: first a marker, or the bracket of a list of
            bare calls; (): there is none.
        closing: the text after all calls of a turn.
        closes_one: a turn with one call has the `closing`, too. False: the template leaves it out
            there, so a turn may end without it.
        reasoning: the reasoning block; None: the template has none.
        contents: the ways to write content, the usual way first. All of them are JSON strings, or
            none.
        content_places: where content can be in a turn with calls, the template's own place first.
            Only content without opener and closer can come after the calls, or inside.
        before: the text between content and calls: white space, or the end of a message and the
            header of the next one.
        between: the text between two calls.
        after: white space that the template writes after the calls.
        head: the text at the beginning of every turn that is not in the prompt.
        tail: the text at the end of every turn, before the end of turn.
        ends: the texts that end a turn, when they are spelled out (replay of recorded turns).
        single: the template can write only one call in a turn.
        several: how two or more calls are written, if one call alone is written in another way,
            which `opening` and `closing` describe; None: they are written alike.
        variants: other ways in which models write a call, each with a marker first. Only the parser
            uses them, and only in recovery.
        strays: markers of the reasoning block that models also write around an answer, without a
            meaning there. In recovery, the parser drops them, and a block may open anywhere.
        late_header: the header of a turn after a prompt without header; None: each prompt has it.
        headers: how models write the headers of messages, where each part of a turn is a message.
            In recovery, the parser reads these headers, and nothing else opens or closes a part.

    Raises:
        TypeError: calls or a variant have no opening that a parser can recognise, or calls of this
            kind cannot be distinguished from the text around them, or only some content is escaped.
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
    several: Several | None = None
    variants: tuple[tuple[CallNode, ...], ...] = ()
    strays: tuple[str, ...] = ()
    late_header: LateHeader | None = None
    headers: MessageHeaders | None = None

    def __post_init__(self) -> None:
        first = next(iter(self.opening + self.call), None)
        if not isinstance(first, Marker) and self.bare is None:
            wanted = "a marker, a JsonCall or a list in Python"
            raise TypeError(f"format {self.name}: calls open with {wanted}")
        if len({content.escaped for content in self.contents}) > 1:
            raise TypeError(f"format {self.name}: all content is in JSON strings, or none is")
        if not self.content_places:
            raise TypeError(f"format {self.name}: no place for content beside calls")
        if self.has_content_after_calls and (self.bare or Content() not in self.contents):
            raise TypeError(f"format {self.name}: nothing tells calls from content after them")
        if self.has_content_inside and (len(self.opening) < 2 or self.opener is None):
            raise TypeError(f"format {self.name}: content inside stands between two texts")
        for nodes in self.variants:
            if nodes and not isinstance(nodes[0], Marker):
                raise TypeError(f"format {self.name}: variants open with a marker")
        if self.several is not None:
            self._check_several(self.several)
        for node in self.call:
            if not isinstance(node, KeywordArguments):
                continue
            if Name() not in self.call:
                raise TypeError(f"format {self.name}: calls in Python have a name")
            if not _ends_arguments(self.call, node):
                message = "what ends the arguments could begin another one: none of )]}[<> is there"
                raise TypeError(f"format {self.name}: {message}")
            if self._has_words_amid(node):
                message = "an id stands before the arguments of a call in Python with a marker"
                raise TypeError(f"format {self.name}: {message}")

    def _has_words_amid(self, hole: KeywordArguments) -> bool:
        """Returns whether ids or numbers stand where they hide the end of a raw string, or of the
        call, or the name that opens a list of calls."""
        places = [i for i, node in enumerate(self.call) if isinstance(node, CallId | CallIndex)]
        hides_name = self.bare is not None and places and places[-1] > self.call.index(Name())
        hides_end = bool(places) and places[-1] > self.call.index(hole)
        return bool(places and hole.quote) or hides_end or bool(hides_name)

    def _check_several(self, several: Several) -> None:
        if not several.opening or not isinstance(several.opening[0], Marker):
            raise TypeError(f"format {self.name}: a marker opens several calls")
        is_python = isinstance(self.hole, KeywordArguments)
        if self.bare is not None or self.single or is_python or self.has_content_inside:
            message = "one call and several differ only between markers, and without Python"
            raise TypeError(f"format {self.name}: {message}")

    @property
    def content_openers(self) -> tuple[str, ...]:
        """The texts that open content, without the empty one."""
        return tuple(content.opener for content in self.contents if content.opener)

    @property
    def escapes_content(self) -> bool:
        """True if content is in a JSON string, so it can contain any text."""
        return self.contents[0].escaped

    @property
    def has_content_after_calls(self) -> bool:
        """True if content can come after calls."""
        return ContentPlace.AFTER in self.content_places

    @property
    def has_content_inside(self) -> bool:
        """True if content can be inside the opening of the calls."""
        return ContentPlace.INSIDE in self.content_places

    @property
    def opener(self) -> Marker | None:
        """The marker that opens a call, or all calls; None: the format is bare."""
        first = (self.opening + self.call)[0]
        return first if isinstance(first, Marker) else None

    @property
    def bare(self) -> JsonCall | JsonArguments | KeywordArguments | None:
        """The hole of a bare format: the JSON object that is a call, or the arguments in such an
        object, or those of calls in a Python list. None: a marker opens calls."""
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
        """The texts that bare calls begin with, with optional white space between them: the
        opening, a brace, and the first key; in Python, the opening alone; if an object is written
        out, all up to its first hole. (): a marker opens calls."""
        bare = self.bare
        if bare is None:
            return ()
        if isinstance(bare, KeywordArguments):
            return (spell_fixed(self.opening).strip(),)
        if isinstance(bare, JsonArguments):
            return (spell_fixed((*self.opening, self.call[0])).strip(),)
        key = bare.id_key if bare.id is not None and bare.id_first else bare.name_key
        opening = spell_fixed(self.opening).strip()
        texts = (opening, "{", json.dumps(key, ensure_ascii=bare.style.ascii))
        return tuple(filter(None, texts))

    @property
    def start(self) -> str:
        """The text that one call begins with, without the `opening`; "": a call begins with a name
        or another variable word."""
        first = self.call[0]
        if isinstance(first, Name | CallId | CallIndex):
            return ""
        return first.text.strip() if isinstance(first, Fixed) else "{"

    @property
    def call_head(self) -> str:
        """The whole fixed text that one call begins with, without the `opening`."""
        return spell_fixed(takewhile(lambda node: isinstance(node, Fixed), self.call))

    @property
    def hole(self) -> Hole:
        """The node of the arguments."""
        return next(node for node in self.call if isinstance(node, Hole))

    @property
    def is_loose(self) -> bool:
        """True if a mask lets the model choose the white space in and after JSON arguments."""
        hole = self.hole
        return isinstance(hole, JsonCall | JsonArguments) and hole.style.loose


def _ends_arguments(call: Sequence[Node], hole: KeywordArguments) -> bool:
    """Returns whether a character that begins no key follows the arguments. It is not needed if
    each value marks its own end, and a fixed text separates two of them."""
    following = takewhile(lambda node: isinstance(node, Fixed), reversed(call))
    text = hole.last + spell_fixed(reversed(list(following)))
    is_told = not hole.quote and hole.item != "\n"
    return is_told or text.lstrip().startswith(tuple(")]}[<>"))
