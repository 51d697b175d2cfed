"""The special token guard: `<|im_end|>` in the text of a user stays ordinary text.

A marker is the text of a special token. In a rendered prompt, a marker of the template looks the
same as one from the data. So markers in the data are cut before rendering: a private-use character
is put after the first character of each. The rendered prompt is split at these characters, and each
piece is tokenised on its own.

Markers that begin in data and that the template would complete are cut, too: at the end of any
string, and around text that the template deletes. These markers are not cut: those that begin in
the template's own text and end in data (a template writes `<`, a key, `>`), those that begin with a
word at the end of a string, and those that the template makes by changing letters (`|lower`).

Some templates cut a whole turn after a tag such as `</think>`, also if the tag is in an argument of
a call. So in calls and their results, the tags that a template removes or splits at are cut too.
"""

import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Concatenate, ParamSpec, TypeVar

from constrained.errors import TemplateError
from constrained.prompt.messages import normalise
from constrained.prompt.template.chat_template import ChatTemplate, check_kwargs
from grammars.infer.text import find_tags
from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.packed_json import pack_json, unpack_json

CODES = range(0xE000, 0xF900)  # of the private-use characters
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")
_ESCAPED = re.compile(r"\\[uU]([eE][0-9a-fA-F]{3}|[fF][0-8][0-9a-fA-F]{2})")
SEARCHES = 4 * MIB  # results of searches in tools and messages
LARGEST = 500_000  # bytes of each
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. Tokenise each piece on its own, and join the token ids."""

    pieces: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return "".join(self.pieces)

    def find(self, marker: str, start: int = 0) -> int:
        """Returns the offset of the first such marker of the template, not of the data; or -1."""
        offset = 0
        for piece in self.pieces:
            found = piece.find(marker, max(0, start - offset))
            if found >= 0:
                return offset + found
            offset += len(piece)
        return -1

    def tail(self, length: int) -> "Prompt":
        start = len(self.text) - length
        pieces: list[str] = []
        for piece in self.pieces:
            pieces.append(piece[max(0, start) :])
            start -= len(piece)
        return Prompt(tuple(filter(None, pieces)))


def render_prompt(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    /,
    *,
    markers: Collection[str],
    keep: Collection[str] = (),
    add_generation_prompt: bool = True,
    variables: Mapping[str, Any] | None = None,
) -> Prompt:
    """Renders as `ChatTemplate.render` does, so that no piece contains a marker of the data.

    Args:
        keep: markers that are not cut in the content of assistant messages, since templates search
            them there for the end of the reasoning.
        variables: the `kwargs` of `ChatTemplate.render`; text in them is data too.

    Raises:
        TemplateError: as in `ChatTemplate.render`.
        ValueError: a marker of fewer than two characters, which cannot be cut.
    """
    variables = variables or {}
    check_kwargs(variables)
    for marker in markers:
        if len(marker) < 2:
            raise ValueError(f"a marker of fewer than two characters: {marker!r}")
    with template.failures():
        normal = normalise(messages)
        texts = [template.source, *template.tokens.values(), normal, variables, tools]
        (character,) = find_free_characters(texts)
        kept = frozenset(keep)
        removed = template.removed_texts | kept
        guard = _Guard(character, _read_markers(frozenset(markers), frozenset(), removed))
        reply_guard = _Guard(character, _read_markers(frozenset(markers), kept, removed))
        tags = frozenset(text for text in removed if find_tags(text) == [text])
        call_guard = _Guard(character, _read_markers(tags.union(markers), frozenset(), removed))
        text = template.render(
            _cut_messages(normal, guard, reply_guard, call_guard),
            _cut_tools(tools, guard),
            add_generation_prompt=add_generation_prompt,
            **guard.cut_data(variables),
        )
    return Prompt(_split(text, character))


def find_free_characters(data: Sequence[Any], count: int = 1) -> list[str]:
    """Finds private-use characters that neither the data nor their escapes contain."""
    used = frozenset[int]().union(*map(_find_used, data))
    found: list[str] = []
    for code in CODES:
        if code not in used:
            found.append(chr(code))
        if len(found) == count:
            return found
    raise TemplateError("the data use every private-use character from U+E000 to U+F8FF")


def _remember(compute: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Caches a function of JSON data by the bytes of the data. Nothing is cached for data that are
    not JSON, nest too deeply, or are too large."""

    @keep_results("searches", SEARCHES)
    def compute_packed(packed: bytes, *args: P.args, **kwargs: P.kwargs) -> R:
        return compute(unpack_json(packed), *args, **kwargs)

    def find(data: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        packed = pack_json(data)
        if packed is None or len(packed) > LARGEST:
            return compute(data, *args, **kwargs)
        return compute_packed(packed, *args, **kwargs)

    return find


@_remember
def _find_used(data: Any) -> frozenset[int]:
    text = json.dumps(data, ensure_ascii=False, default=str)
    found = {int(escaped, 16) for escaped in _ESCAPED.findall(text)}
    if not text.isascii():
        found.update(map(ord, _PRIVATE.findall(text)))
    return frozenset(found)


@_remember
def _cut_tools(tools: Any, guard: "_Guard") -> Any:
    """Returns the tools with cuts. The result is shared, so each template gets its own copy."""
    return guard.cut_data(tools)


def _split(text: str, character: str) -> tuple[str, ...]:
    """Splits at the character or its JSON escape, which templates write with `ensure_ascii`."""

    # JSON in JSON, n levels deep, doubles each backslash n - 1 times. So of the backslashes before
    # the code, the lowest set bit of their number counts those of the escape; the others are data.
    code = f"u{ord(character):04x}"
    first, *others = text.split(code)
    written = [first]
    for part in others:
        before = written[-1]
        slashes = len(before) - len(before.rstrip("\\"))
        if slashes:
            written[-1] = before[: len(before) - (slashes & -slashes)]
        written += [character if slashes else code, part]
    return tuple(filter(None, "".join(written).split(character)))


@dataclass(frozen=True)
class _Markers:
    first: re.Pattern[str]  # the first character of a marker
    starts: re.Pattern[str]  # the same, but only before the rest of a whole marker
    kept: re.Pattern[str]
    removed: re.Pattern[str]
    prefixes: frozenset[str]
    longest: int  # characters of a prefix

    def find_cuts(self, text: str) -> set[int]:
        if not self.first.search(text):
            return set()
        cuts = {match.end() for match in self.starts.finditer(text)}
        # The next text may complete a marker, even after the template has trimmed this one.
        for end in {len(text), len(text.rstrip())}:
            for start in range(max(0, end - self.longest), end):
                if text[start:end] in self.prefixes:
                    cuts.add(start + 1)
        # If the template deletes text, the rest may join to a marker.
        if self.removed.search(text):
            kept: set[int] = set()
            for match in self.kept.finditer(text):
                kept.update(range(match.start(), match.end()))
            for match in self.first.finditer(text):
                if match.start() not in kept:
                    cuts.add(match.end())
        return cuts


@lru_cache(maxsize=64)
def _read_markers(
    markers: frozenset[str], keep: frozenset[str], removed: frozenset[str]
) -> _Markers:
    rests: dict[str, list[str]] = {}
    for marker in sorted(markers - keep):
        rests.setdefault(marker[0], []).append(re.escape(marker[1:]))
    # Grouped, so that the regex engine skips every character that no marker starts with.
    starts = [f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()]
    prefixes: set[str] = set()
    for marker in markers:
        prefixes.update(itertools.accumulate(marker[:-1]))
    # A word at the end of a string is harmless, and a cut would break a "type": "string".
    prefixes = set(itertools.filterfalse(str.isalnum, prefixes))
    return _Markers(
        first=_any_of({marker[0] for marker in markers}),
        starts=re.compile("|".join(starts) or "(?!)"),
        kept=_any_of(keep),
        removed=_any_of(removed),
        prefixes=frozenset(prefixes),
        longest=max(map(len, prefixes), default=0),
    )


def _any_of(texts: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts))) or "(?!)")


@dataclass(frozen=True)
class _Guard:
    """Copies JSON data, and puts the character into each marker that needs a cut."""

    character: str
    markers: _Markers

    def cut_data(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self.cut_text(key): self.cut_data(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.cut_data(item) for item in value]
        return self.cut_text(value)

    def cut_text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        cuts = [0, *sorted(self.markers.find_cuts(value)), len(value)]
        return self.character.join(value[start:end] for start, end in itertools.pairwise(cuts))


def _cut_messages(
    messages: Sequence[Mapping[str, Any]], guard: _Guard, reply_guard: _Guard, call_guard: _Guard
) -> list[dict[str, Any]]:
    cut: list[dict[str, Any]] = []
    for message in messages:
        safe: dict[str, Any] = {}
        for key, item in message.items():
            chosen = guard
            if key == "content" and message["role"] == "assistant":
                chosen = reply_guard
            elif key == "tool_calls" or message["role"] == "tool":
                chosen = call_guard
            safe[guard.cut_text(key)] = chosen.cut_data(item)
        cut.append(safe)
    return cut
