"""The format algebra: how a model writes an assistant turn, as a value.

A `Format` describes how text is generated: literals, markers and typed holes. The grammar
(`turn_grammar`), the parser (`parse`) and the renderer (`render`) interpret it. None of them knows
models by name.
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
from grammars.wire.nodes import spell_fixed as spell_fixed
from grammars.wire.variants import AnyWord, Handle, MessageHeaders

T = TypeVar("T")
MAX_NAME_LENGTH = 256  # characters; a parser buffers no more while it searches for a name
MARGIN = 4  # characters of white space that a model may add; templates write at most two
WIDEST = 256  # characters of white space, even if a template writes more
MIN_TAG_LENGTH = 4  # characters; a shorter text could be part of anything
_TAG = re.compile(r"<[^<>\s]*>|\[[A-Z_/]+\]")
# A word between two equal signs, with which a longer tag begins: `<｜DSML｜invoke`.
_TAG_HEAD = re.compile(r"</?(([^\w\s<>/\[\]\"'=:.-])\w+\2)(?!>)")

CallNode: TypeAlias = Node | Handle | AnyWord


@dataclass(frozen=True)
class Content:
    """Content is written `opener TEXT closer`.

    Args:
        escaped: the text is inside a JSON string: the opener ends with its first quote, and the
            closer begins with its last one. No calls may follow.
        ascii: the template escapes characters beyond ASCII, too. Models may leave them as they are.
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
    `opening call (between call)* closing`. The opening is first a marker, which may be that of one
    call."""

    opening: tuple[Fixed, ...]
    closing: tuple[Fixed, ...] = ()
    between: str = ""


@dataclass(frozen=True)
class Reasoning:
    """A reasoning block: `opener pad_open TEXT pad_close closer after`.

    The pads and `after` are white space that the template writes; a model may leave it out.

    Args:
        closer: closes the block. A literal, such as a line break, has no meaning anywhere else.
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
    """The header of a turn where the prompt lacks it, as after a result in DeepSeek's templates;
    the template writes it in front of content, or of calls. Models may write it or leave it out."""

    text: str
    before_content: bool = False
    before_calls: bool = False


@dataclass(frozen=True)
class Format:
    """A wire format: `[reasoning] head [content before] [opening] call (between call)* [closing]
    after [content]`.

    A format is bare if no marker comes before its calls: neither before a `JsonCall`, nor before
    an object that is written out around `JsonArguments`, nor before a list of calls in Python. The
    turn of a bare format is either content or calls, and content may not begin like a call.

    Args:
        call: one call. Without `opening`, its first node is the marker that opens it, a `JsonCall`,
            or the `{` of an object; in Python, a name in a list of calls.
        opening: the text before all calls of a turn: first a marker, or the bracket of a list of
            bare calls; (): there is none.
        closing: the text after all calls of a turn.
        closes_one: a turn with one call has the `closing`, too. False: the template leaves it out
            there, so a turn may end without it.
        contents: the ways to write content, the usual way first. All of them are JSON strings, or
            none.
        content_places: where content can be in a turn with calls, the template's own place first.
            Only content without opener and closer can come after the calls, or inside.
        before: the text between content and calls: white space, or the end of a message and the
            header of the next one.
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
        """Returns whether ids hide the end of a raw string, or of the call, or the name that opens
        a list."""
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
        return tuple(content.opener for content in self.contents if content.opener)

    @property
    def escapes_content(self) -> bool:
        """True if content is in a JSON string, so it can contain any text."""
        return self.contents[0].escaped

    @property
    def has_content_after_calls(self) -> bool:
        return ContentPlace.AFTER in self.content_places

    @property
    def has_content_inside(self) -> bool:
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
        """The text that one call begins with, without the `opening`; "": a variable word."""
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
        return next(node for node in self.call if isinstance(node, Hole))

    @property
    def is_loose(self) -> bool:
        """True if a mask lets the model choose the white space in and after JSON arguments."""
        hole = self.hole
        return isinstance(hole, JsonCall | JsonArguments) and hole.style.loose

    @property
    def tagged_openers(self) -> tuple[str, ...]:
        """The texts with a tag that open content. The others are words, which may stand in any
        text."""
        return tuple(opener for opener in self.content_openers if has_tag(opener))

    @property
    def max_space(self) -> int:
        """The maximum number of white space characters before a block. Few, since small models
        would write more and more; as many as the template writes, if these are more."""
        written = "" if self.reasoning is None else self.reasoning.after
        if not self.before.strip():
            written += self.before
        return min(max(MARGIN, len(written)), WIDEST)

    @property
    def max_answer_space(self) -> int:
        """The maximum number of white space characters before an answer in JSON: as many as the
        template writes after reasoning, and at least one, since the first token of some models has
        a space."""
        written = "" if self.reasoning is None else self.reasoning.after
        return min(max(1, len(written)), WIDEST)

    @property
    def header(self) -> str:
        """The text between two calls, if it ends a message and begins another one; otherwise ""."""
        is_header = any(end in self.between for end in self.inner_ends)
        return self.between if is_header else ""

    @property
    def openings(self) -> Mapping[str, tuple[Node, ...]]:
        """The texts that open the first call, each with the nodes that follow it. These are the
        marker, that of several calls if it is another one, and the tag after the marker if there is
        no `opening`, since models sometimes leave the marker out."""
        if self.opener is None:
            return {}
        openings = {self.opener.text: (self.opening + self.call)[1:]}
        if self.several is not None:
            openings.setdefault(self.several.opening[0].text, self.several_nodes)
        if self.opening:
            return openings
        tag = self.call[1]
        if isinstance(tag, Literal) and len(tag.text.strip()) >= MIN_TAG_LENGTH:
            openings[tag.text.strip()] = self.call[2:]
        return openings

    @property
    def several_nodes(self) -> tuple[Node, ...]:
        """What follows the marker of several calls; (): one call is written like several."""
        return () if self.several is None else (*self.several.opening[1:], *self.call)

    def opens_several(self, opening: str) -> bool:
        """Returns whether several calls begin so, and are written in another way than one."""
        return self.several is not None and opening == self.several.opening[0].text

    @property
    def recovered(self) -> Mapping[str, tuple[tuple[CallNode, ...], ...]]:
        """The texts that open a call in recovery, each with the nodes that may follow it: the
        `openings`, the marker of one call without the `opening`, and the variants."""
        found: dict[str, list[tuple[CallNode, ...]]] = defaultdict(list)
        for opening, nodes in self.openings.items():
            found[opening].append(nodes)
            if self.opens_several(opening):
                found[opening].append(self.several_nodes)
        for nodes in (self.call, *self.variants):
            first = nodes[0]
            if self.opener and self.opening:
                found[self.opener.text].append((*self.opening[1:], *nodes))
            if isinstance(first, Marker) and len(first.text) >= MIN_TAG_LENGTH:
                found[first.text].append(nodes[1:])
        return {opening: _unique(ways) for opening, ways in found.items()}

    def is_own(self, opening: str) -> bool:
        """Returns whether this text is the opener."""
        return self.opener is not None and opening == self.opener.text

    def closes(self, opening: str) -> tuple[Fixed, ...]:
        """Returns the closing nodes of calls that this text has opened; "" for bare calls."""
        if self.bare is not None or self.is_own(opening):
            return self.closing
        return self.several.closing if self.several and self.opens_several(opening) else ()

    @property
    def opens_calls_in_messages(self) -> bool:
        """True if content and calls are messages with headers: amid content, what opens calls is
        text."""
        is_open = all(content.opener and not content.closer for content in self.contents)
        return is_open and bool(self.before.strip()) and not self.escapes_content

    def list_befores(self, *, amid_content: bool) -> tuple[str, ...]:
        """Returns the texts that may precede the opener of calls."""
        if amid_content and self.opens_calls_in_messages:
            return (self.before,)
        return _unique((self.before, self.header, ""))

    @property
    def reserved(self) -> tuple[str, ...]:
        """The texts that content cannot contain: the markers, and other texts that open a call. If
        calls come only after the closer of content, the content may contain their openings."""
        reserved = list(self.markers)
        if self.opens_calls_in_messages:
            reserved = [marker for marker in reserved if marker not in self.openings]
            reserved.append(self.before)
        elif any(content.calls and not content.closer for content in self.contents):
            reserved += self.openings
        else:
            reserved = [marker for marker in reserved if marker not in self.openings]
        # In a JSON string, the closer is no text of its own: a quote has an escape.
        closers = [content.closer for content in self.contents if not content.escaped]
        reserved += [*closers, self.head, *self.tag_heads]
        return _unique(filter(None, reserved))

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts of all markers, those of the calls first, without repetition."""
        nodes = [node for group in self._groups for node in group]
        texts = [node.text for node in nodes if isinstance(node, Marker)]
        if self.reasoning is not None:
            texts += self.reasoning.markers
        return _unique(texts)

    @property
    def _groups(self) -> tuple[tuple[Node, ...], ...]:
        """The nodes of calls, in each way to write them: of one, and of several if these differ."""
        groups: list[tuple[Node, ...]] = [(*self.opening, *self.call, *self.closing)]
        if self.several is not None:
            groups.append((*self.several.opening, *self.call, *self.several.closing))
        return tuple(groups)

    @property
    def runs(self) -> tuple[str, ...]:
        """The texts between two holes, whole, and all other `texts`."""
        runs: list[str] = []
        for group in self._groups:
            runs.append("")
            for node in group:
                if isinstance(node, Fixed):
                    runs[-1] += node.text
                else:
                    runs.append("")
        return _unique([*runs, *self.texts])

    @property
    def inner_ends(self) -> tuple[str, ...]:
        """The texts that end a turn, but also occur inside one (Solar's `<|end|>` after the
        reasoning): as a token, such a text is part of the grammar, which cannot leave it to the end
        of generation."""
        ends: list[str] = []
        for end in self.ends:
            opens_calls = self.opener is not None and self.opener.text.startswith(end)
            if not opens_calls and any(end in text for text in self.texts):
                ends.append(end)
        return tuple(ends)

    @property
    def tag_heads(self) -> tuple[str, ...]:
        """The texts with which several tags of the format begin, and nothing else: `｜DSML｜`. A
        vocabulary may have a token for them."""
        heads: list[str] = []
        if not any(isinstance(node, Hole) for node in self.call):
            return ()
        for text in self.texts:
            heads += [match[1] for match in _TAG_HEAD.finditer(text)]
        return _unique(heads)

    @property
    def atoms(self) -> tuple[str, ...]:
        """The tags within the markers, if a vocabulary has tokens for them."""
        tags: list[str] = []
        for marker in self.markers:
            tags += _TAG.findall(marker)
        return _unique([*tags, *self.tag_heads, *self.hole.marks])

    @property
    def texts(self) -> tuple[str, ...]:
        """All fixed texts of the format; if the vocabulary has tokens for parts of these, they are
        used."""
        hole = self.hole
        nodes = [node for group in self._groups for node in group]
        texts = [node.text for node in nodes if isinstance(node, Fixed)]
        texts += hole.texts
        for content in self.contents:
            texts += [content.opener, content.closer]
        if self.reasoning is not None:
            texts += self.reasoning.markers
        if not hole.style.escapes:
            texts += hole.style.quotes
        if self.several is not None:
            texts.append(self.several.between)
        if self.late_header is not None:
            texts.append(self.late_header.text)
        texts += [self.between, self.head, self.tail, self.before if self.before.strip() else ""]
        return _unique(filter(None, texts))

    @property
    def structure(self) -> tuple[str, ...]:
        """All texts that a parser may take for structure: the `texts`, and what models write
        instead."""
        texts = [*self.texts, *self.recovered, *self.inner_ends, *self.strays]
        if self.headers is not None:
            texts += self.headers.marks
        return _unique(texts)


def _ends_arguments(call: Sequence[Node], hole: KeywordArguments) -> bool:
    """Returns whether a character that begins no key follows the arguments. It is not needed if
    each value marks its own end, and a fixed text separates two of them."""
    following = takewhile(lambda node: isinstance(node, Fixed), reversed(call))
    text = hole.last + spell_fixed(reversed(list(following)))
    is_told = not hole.quote and hole.item != "\n"
    return is_told or text.lstrip().startswith(tuple(")]}[<>"))


def _unique(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def has_tag(text: str) -> bool:
    """Returns whether a text has a tag in it, such as `<think>` or `[CALL]`."""
    return _TAG.search(text) is not None


def is_taggable(name: str) -> bool:
    """Returns whether a name between tags is parsed back unchanged."""
    has_breaks = not {"<", ">", "\n"}.isdisjoint(name)
    return 0 < len(name) <= MAX_NAME_LENGTH and not has_breaks and name == name.strip()


def first_visible(*texts: str) -> str:
    """Returns the first visible characters of these texts, and the newline if a text begins with
    one. If a line begins with a word (`arguments:`) or a dash, only the newline, since names may
    contain such characters."""
    first = ""
    for text in texts:
        visible = text.lstrip("\r\n")[:1]
        is_word = visible.isalnum() or visible in tuple("._-")
        first += "" if is_word and text.startswith("\n") else visible
        first += "\n" if text.startswith("\n") and "\n" not in first else ""
    return first


def count_common(a: Sequence[object], b: Sequence[object]) -> int:
    """Returns the length of the common prefix of two texts, or two sequences of one type."""
    low, high = 0, min(len(a), len(b))
    # Binary search: slices are compared at the speed of C.
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def find_named(name: str, formats: Sequence[Format]) -> Format | None:
    for format in formats:
        if format.name == name:
            return format
    return None


def squeeze(text: str) -> str:
    """Returns a text without its white space, in which templates and models differ."""
    return "".join(text.split())
