"""The special token guard: text of a user that spells `<|im_end|>` stays ordinary text.

After rendering nobody can tell a marker (the text of a special token) that the template wrote from
one that came with the data. So data are cut before rendering: one private-use character goes into
each marker in them, after its first character. The rendered prompt is split there, and each piece
is tokenised on its own.

Markers that start in data and that the template would complete are broken as well: at the end of
a string, whatever follows it, and around text that the template deletes. Not broken are markers
that start in the template's own text and end in data (a template that writes `<`, a key, `>`),
those that start with a word at the end of a string, and those that the template makes by changing
letters (`|lower`).
"""

import itertools
import json
import marshal
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.messages import normalise, pack_json
from constrained.template.chat_template import ChatTemplate, check_kwargs

# What templates compare rather than write. It is not cut, so a marker in it is refused.
_VERBATIM = {
    ("messages", "*", "role"),
    ("messages", "*", "tool_call_id"),
    ("messages", "*", "content", "*", "type"),
    ("messages", "*", "tool_calls", "*", "id"),
    ("messages", "*", "tool_calls", "*", "type"),
    ("tools", "*", "type"),
}

Path = tuple[str | int, ...]
CODES = range(0xE000, 0xF900)  # of the private-use characters
_PRIVATE = re.compile(r"[\ue000-\uf8ff]|\\u(e[0-9a-f]{3}|f[0-8][0-9a-f]{2})", re.IGNORECASE)
REMEMBERED = 32  # tools and messages
LARGEST = 500_000  # bytes of each
_EMPTY = nodes.Const("")


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt: tokenise each piece on its own, and put the ids together."""

    pieces: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """The whole prompt."""
        return "".join(self.pieces)

    def find(self, marker: str, start: int = 0) -> int:
        """Offset of the first marker written by the template, not the data; -1 if there is none.

        Args:
            start: the offset to search from.
        """
        at = 0
        for piece in self.pieces:
            found = piece.find(marker, max(0, start - at))
            if found >= 0:
                return at + found
            at += len(piece)
        return -1

    def tail(self, length: int) -> "Prompt":
        """The last so many characters."""
        start = len(self.text) - length
        pieces: list[str] = []
        for piece in self.pieces:
            pieces.append(piece[max(0, start) :])
            start -= len(piece)
        return Prompt(tuple(piece for piece in pieces if piece))


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
    """Render as `ChatTemplate.render` does, with no marker from the data inside a piece.

    Args:
        markers: texts that the tokenizer reads as one token, each of two characters or more.
        keep: markers that stay whole in the content of assistant messages, where templates look
            for the end of the reasoning.
        variables: the `kwargs` of `ChatTemplate.render`; text in them is data too.

    Raises:
        TemplateError: as in `ChatTemplate.render`; or a role, an id or a type holds a marker.
        ValueError: a marker of fewer than two characters, which cannot be cut.
    """
    variables = variables or {}
    check_kwargs(variables)
    if short := [marker for marker in markers if len(marker) < 2]:
        raise ValueError(f"markers of fewer than two characters: {short}")
    with template.failures():
        normal = normalise(messages)
        texts = [template.source, *template.tokens.values(), normal, variables, tools]
        (character,) = find_free_characters(texts)
        kept = frozenset(keep)
        removed = _find_removed_texts(template.tree) | kept
        guard = _Guard(character, _read_markers(frozenset(markers), frozenset(), removed))
        content_guard = _Guard(character, _read_markers(frozenset(markers), kept, removed))
        text = template.render(
            [
                _cut_message(message, ("messages", i), guard, content_guard)
                for i, message in enumerate(normal)
            ],
            _cut_tools(guard, tools),
            add_generation_prompt=add_generation_prompt,
            **guard.cut_data(variables, ("chat_template_kwargs",)),
        )
    return Prompt(_split(text, character))


def find_free_characters(data: Sequence[Any], count: int = 1) -> list[str]:
    """Private-use characters that are in none of these, nor their JSON escapes.

    Raises:
        TemplateError: there are not so many.
    """
    used = frozenset[int]().union(*map(_find_used, data))
    found: list[str] = []
    for code in CODES:
        if code not in used:
            found.append(chr(code))
        if len(found) == count:
            return found
    raise TemplateError("the data use every private-use character from U+E000 to U+F8FF")


def _find_used(data: Any) -> frozenset[int]:
    """The private-use characters in it; data that come again are recognised by their bytes."""
    written = _write(data)
    return _find_in(data) if written is None else _find_again(written)


def _write(data: Any) -> bytes | None:
    """The bytes by which data are remembered; None if they are not, for they are other than JSON,
    nest too deeply, or take too much room."""
    written = pack_json(data)
    return None if written is None or len(written) > LARGEST else written


@lru_cache(maxsize=REMEMBERED)
def _find_again(data: bytes) -> frozenset[int]:
    return _find_in(marshal.loads(data))


def _find_in(data: Any) -> frozenset[int]:
    text = json.dumps(data, ensure_ascii=False, default=str)
    found = (match[1] or match[0] for match in _PRIVATE.finditer(text))
    return frozenset(ord(code) if len(code) == 1 else int(code, 16) for code in found)


def _cut_tools(guard: "_Guard", tools: Any) -> Any:
    """The tools with the character put in; tools that come again are recognised by their bytes."""
    written = _write(tools)
    return guard.cut_data(tools, ("tools",)) if written is None else _cut_again(guard, written)


@lru_cache(maxsize=REMEMBERED)
def _cut_again(guard: "_Guard", tools: bytes) -> Any:
    """Shared by all who ask: a template gets a copy of its own."""
    return guard.cut_data(marshal.loads(tools), ("tools",))


def _split(text: str, character: str) -> tuple[str, ...]:
    """Split at the character or its JSON escape, which templates write with `ensure_ascii`."""

    # JSON written n times over doubles each backslash n - 1 times. So of the backslashes before
    # the code, as many as the lowest bit of their number says are the escape's; the rest is data.
    def unescape(match: re.Match[str]) -> str:
        slashes = len(match[1])
        return match[1][slashes & -slashes :] + character

    text = re.sub(rf"(\\+)u{ord(character):04x}", unescape, text)
    return tuple(piece for piece in text.split(character) if piece)


@lru_cache(maxsize=64)
def _find_removed_texts(tree: nodes.Template) -> frozenset[str]:
    """Texts that the template deletes or splits at: Nemotron-Nano-v2 deletes /think from users."""
    searches = [
        (call.node.attr, call.args)
        for call in tree.find_all(nodes.Call)
        if isinstance(call.node, nodes.Getattr)
    ]
    searches += [(call.name, call.args) for call in tree.find_all(nodes.Filter)]
    removed: set[str] = set()
    for method, arguments in searches:
        if method not in ("replace", "split", "rsplit", "partition", "rpartition"):
            continue
        match arguments:
            # Not single characters (unless deleted): they split lines and escape XML, nothing goes.
            case [nodes.Const(value=str(text)), *rest] if len(text) > 1 or _EMPTY in rest:
                removed.add(text)
            case _:
                pass
    return frozenset(removed)


@dataclass(frozen=True)
class _Markers:
    """The places in texts that need a cut, for one set of markers."""

    first: re.Pattern[str]  # the first character of a marker
    starts: re.Pattern[str]  # the same, where a whole marker follows
    kept: re.Pattern[str]
    removed: re.Pattern[str]
    prefixes: frozenset[str]
    longest: int  # characters of a prefix

    def find_cuts(self, text: str) -> set[int]:
        """Offsets at which to put the cut."""
        if not self.first.search(text):
            return set()
        places = {match.end() for match in self.starts.finditer(text)}
        # What comes after this text may complete a marker, also once the template has trimmed it.
        for end in {len(text), len(text.rstrip())}:
            tails = range(max(0, end - self.longest), end)
            places.update(start + 1 for start in tails if text[start:end] in self.prefixes)
        # Where the template takes text out, the rest may close up to a marker.
        if self.removed.search(text):
            kept: set[int] = set()
            for match in self.kept.finditer(text):
                kept.update(range(match.start(), match.end()))
            places |= {m.end() for m in self.first.finditer(text) if m.start() not in kept}
        return places


@lru_cache(maxsize=64)
def _read_markers(
    markers: frozenset[str], keep: frozenset[str], removed: frozenset[str]
) -> _Markers:
    rests: dict[str, list[str]] = {}
    for marker in sorted(markers - keep):
        rests.setdefault(marker[0], []).append(re.escape(marker[1:]))
    # Grouped, so that the regex engine skips every character that no marker starts with.
    starts = [f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()]
    prefixes = {marker[:end] for marker in markers for end in range(1, len(marker))}
    # A word at the end of a string is no threat, and cutting it would hide a "type": "string".
    prefixes = frozenset(prefix for prefix in prefixes if not prefix.isalnum())
    return _Markers(
        first=_any_of({marker[0] for marker in markers}),
        starts=re.compile("|".join(starts) or "(?!)"),
        kept=_any_of(keep),
        removed=_any_of(removed),
        prefixes=prefixes,
        longest=max(map(len, prefixes), default=0),
    )


def _any_of(texts: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts))) or "(?!)")


@dataclass(frozen=True)
class _Guard:
    """Copies JSON data with the character put in wherever a marker needs a cut."""

    character: str
    markers: _Markers

    def cut_data(self, value: Any, path: Path) -> Any:
        if isinstance(value, Mapping):
            return {
                self.cut_text(key): self.cut_data(item, (*path, key)) for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.cut_data(item, (*path, i)) for i, item in enumerate(value)]
        if tuple("*" if isinstance(step, int) else step for step in path) in _VERBATIM:
            return self._check(value, path)
        return self.cut_text(value)

    def cut_text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        places = [0, *sorted(self.markers.find_cuts(value)), len(value)]
        return self.character.join(value[a:b] for a, b in itertools.pairwise(places))

    def _check(self, value: Any, path: Path) -> Any:
        if isinstance(value, str) and self.markers.starts.search(value):
            where = "/" + "/".join(map(str, path))
            raise TemplateError(f"a {path[-1]} that holds a marker", where=where)
        return value


def _cut_message(
    message: Mapping[str, Any], path: Path, guard: _Guard, content_guard: _Guard
) -> dict[str, Any]:
    """The message; templates look for markers of the reasoning in what the assistant wrote."""
    cut: dict[str, Any] = {}
    for key, item in message.items():
        is_written = key == "content" and message["role"] == "assistant"
        chosen = content_guard if is_written else guard
        cut[guard.cut_text(key)] = chosen.cut_data(item, (*path, key))
    return cut
