"""The format algebra: how a model writes an assistant turn, as a value.

A `Format` describes how text is generated: literals, markers and typed holes. The grammar
(`turn_grammar`), the parser (`parse`) and the renderer (`render`) interpret it. None of them knows
models by name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grammars.wire.fields import CallNode as CallNode
from grammars.wire.fields import Content as Content
from grammars.wire.fields import ContentPlace as ContentPlace
from grammars.wire.fields import FormatFields
from grammars.wire.fields import LateHeader as LateHeader
from grammars.wire.fields import Reasoning as Reasoning
from grammars.wire.fields import Several as Several
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

T = TypeVar("T")
MAX_NAME_LENGTH = 256  # characters; a parser buffers no more while it searches for a name
MARGIN = 4  # characters of white space that a model may add; templates write at most two
WIDEST = 256  # characters of white space, even if a template writes more
MIN_TAG_LENGTH = 4  # characters; a shorter text could be part of anything
_TAG = re.compile(r"<[^<>\s]*>|\[[A-Z_/]+\]")
# A word between two equal signs, with which a longer tag begins: `<｜DSML｜invoke`.
_TAG_HEAD = re.compile(r"</?(([^\w\s<>/\[\]\"'=:.-])\w+\2)(?!>)")


@dataclass(frozen=True)
class Format(FormatFields):
    """A wire format, and the texts that grammar, parser and renderer find in it; its fields are
    those of `FormatFields`."""

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
        """The nodes of the first of several calls, after the marker that opens them; (): one call
        is written like several."""
        return () if self.several is None else (*self.several.opening[1:], *self.call)

    def opens_several(self, opening: str) -> bool:
        """Returns whether several calls begin with this text, and are written in another way than
        one."""
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

    def closes(self, opening: str) -> tuple[Fixed, ...]:
        """Returns the closing nodes of calls that this text has opened; "" for bare calls."""
        if self.bare is not None:
            return self.closing
        if self.opener is not None and opening == self.opener.text:
            return self.closing
        return self.several.closing if self.several and self.opens_several(opening) else ()

    @property
    def opens_calls_in_messages(self) -> bool:
        """True if content and calls are messages with headers: what opens calls is only text in the
        middle of content."""
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


def _unique(values: Iterable[T]) -> tuple[T, ...]:
    """Returns the distinct values, in order."""
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
    """Returns the format called `name`, or None."""
    for format in formats:
        if format.name == name:
            return format
    return None
