"""Tools whose calls stand in the data of a conversation: in results, and in what the user pastes.

A model may copy such a call. In its own format it could always do so; in other envelopes, copied
text stays text (`constrained.model.compile`), so a document does not find it easier to have a call
made.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from grammars.parse.envelopes import ARGUMENT_KEYS, MAX_HELD, PREFIXES, SCHEMA_KEYS

_TRUSTED = ("system", "developer", "assistant")
"""Roles whose messages may show the model how to call tools."""
_BEFORE, _AFTER = 1_000, MAX_HELD  # characters around a name, in which its arguments may begin
_WORD = r"([\w.:-]{1,128})"
_SPACE = rf"\s{{0,{MAX_HELD}}}"
# All bounded, so that the time is linear in the text.
_QUOTED = re.compile(rf"[\"']{_WORD}[\"']")
_SCHEMA = rf"{_SPACE}[\"'](?:{'|'.join(map(re.escape, SCHEMA_KEYS))})[\"']"
_ARGUMENTS = re.compile(
    rf"[\"'](?:{'|'.join(ARGUMENT_KEYS)})[\"']{_SPACE}:{_SPACE}[\"']?\{{(?!{_SCHEMA})"
)
_CALLED = re.compile(
    rf"<[^<>\n]{{0,60}}[=\s\"']{_WORD}[\"']?{_SPACE}>"  # <function=f>
    rf"|(?<![\w.-]){_WORD}{_SPACE}\({_SPACE}(?:\{{|\w{{1,64}}{_SPACE}=)"  # f(key=
    rf"|>{_SPACE}{_WORD}{_SPACE}[<{{\n]"  # <tool_call>f
    rf"|\]{_SPACE}{_WORD}{_SPACE}(?:\[ARGS\]|\{{)"  # [TOOL_CALLS]f
    rf"|\bAction:{_SPACE}{_WORD}"  # ReAct, which a model may write again in another form
)
_ESCAPES = {"\\n": "\n", "\\u003c": "<", "\\u003e": ">", "\\u0022": '"', "\\u0027": "'", "\\": ""}
"""How JSON writes what is around names, a backslash last. Data is often JSON."""


def find_quoted_tools(
    messages: Iterable[Mapping[str, Any]], names: Collection[str]
) -> frozenset[str]:
    """Returns the tools that the data of a conversation calls, in any of the common ways."""
    found: set[str] = set()
    for message in messages:
        if message.get("role") not in _TRUSTED:
            for text in _list_texts(message.get("content")):
                found |= _find_called(text, names)
    return frozenset(found)


def _list_texts(content: Any) -> Sequence[str]:
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return ()
    texts: list[str] = []
    for part in cast(list[Any], content):
        text = cast(Any, part).get("text") if isinstance(part, Mapping) else None
        if isinstance(text, str):
            texts.append(text)
    return texts


def _find_called(text: str, names: Collection[str]) -> set[str]:
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    found: set[str] = set()
    for match in _CALLED.finditer(text):
        found.update(_find_names(match[match.lastindex or 0], names))
    arguments = [match.start() for match in _ARGUMENTS.finditer(text)]
    for match in _QUOTED.finditer(text):
        at = bisect_left(arguments, match.start() - _BEFORE)
        if at < len(arguments) and arguments[at] < match.end() + _AFTER:
            found.update(_find_names(match[1], names))
    return found


def _find_names(word: str, names: Collection[str]) -> Iterable[str]:
    """Returns the tools that a word may name: with a prefix, or with a number as in `f:0`."""
    words = [word.removeprefix(prefix) for prefix in ("", *PREFIXES)]
    words += [one.partition(":")[0] for one in words]
    return [name for name in words if name in names]
