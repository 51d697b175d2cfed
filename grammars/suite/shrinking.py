"""Makes a failing example smaller: fewer calls, tools and cuts, shorter names and values."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeAlias, cast

from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.types import name_types
from grammars.suite.corners import find_triggers
from grammars.suite.strategies import WORDS, Example, Written, cut, make_tool, write
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import Format

MAX_TRIES = 600
"""Candidates for each example; each is read by the parser."""
_SHORT = "fghabcdeijk"
Writer: TypeAlias = Callable[[Turn, Sequence[Tool]], Written | None]


def shrink(example: Example, format: Format, fails: Callable[[Example], bool]) -> Example:
    """Returns the smallest example that was found of those that fail in the same way."""
    example = _join_pieces(example, fails)
    write_alike = _find_writer(example.written, format)
    tries = 0
    improved = True
    while improved:
        improved = False
        for candidate in _list_candidates(example, write_alike):
            if measure(candidate) >= measure(example):
                continue
            tries += 1
            if tries > MAX_TRIES:
                break
            if fails(candidate):
                example, improved = candidate, True
                break
    return _join_pieces(example, fails)


def simplify(example: Example, format: Format, fails: Callable[[Example], bool]) -> Example:
    """Returns a failing example with as few triggers as possible; it may be longer."""
    write_alike = _find_writer(example.written, format)
    triggers = find_triggers(example, format)
    improved = True
    while improved:
        improved = False
        for candidate in _list_plainer(example, write_alike):
            fewer = find_triggers(candidate, format)
            if fewer < triggers and fails(candidate):
                example, triggers, improved = candidate, fewer, True
                break
    return example


def _list_plainer(example: Example, write_alike: Writer) -> Iterator[Example]:
    """Yields the example with a plain text as a value, or with a tool of its own for a call."""
    written, turn = example.written, example.written.turn
    if example.text != written.text:
        return
    for i, call in enumerate(turn.calls):
        changes = [replace(call, arguments={"a": "a"}), replace(call, name=f"h{i}")]
        changes.append(replace(call, name=f"h{i}", arguments={"a": "a"}))
        for key in call.arguments:
            changes.append(replace(call, arguments={**call.arguments, key: "a"}))
        for changed in changes:
            calls = (*turn.calls[:i], changed, *turn.calls[i + 1 :])
            plainer = write_alike(replace(turn, calls=calls), _make_tools(calls))
            if plainer is not None:
                yield from _cut_alike(Example(plainer, (plainer.text,)), example)


def _find_writer(written: Written, format: Format) -> Writer:
    """Returns what writes other turns as this one is written, with its text around the calls."""
    calls = write(replace(written.turn, content=""), format, written.tools)
    if calls is None or write(written.turn, format, written.tools) == written:
        return lambda turn, tools: write(turn, format, tools)
    before, found, behind = written.text.partition(calls.text)

    def write_alike(turn: Turn, tools: Sequence[Tool]) -> Written | None:
        alike = write(replace(turn, content=""), format, tools)
        if alike is None or not found or turn.content != written.turn.content:
            return None
        return Written(turn, before + alike.text + behind, tuple(tools))

    return write_alike


def _make_tools(calls: Sequence[ToolCall]) -> tuple[Tool, ...]:
    properties: dict[str, dict[str, Any]] = {}
    for call in calls:
        for key, value in call.arguments.items():
            properties.setdefault(call.name, {})[key] = {"type": name_types(value)[0]}
    names = dict.fromkeys(call.name for call in calls)
    return tuple(
        make_tool(name, {"type": "object", "properties": properties.get(name, {})})
        for name in names
    )


def measure(example: Example) -> tuple[int, int, str]:
    """Returns what a smaller example has less of: text and tools, then cuts."""
    written = example.written
    tools = sum(len(tool.name) + len(json.dumps(tool.schema.source)) for tool in written.tools)
    return len(example.text) + tools, len(example.pieces), "\0".join(example.pieces)


def _list_candidates(example: Example, write_alike: Writer) -> Iterator[Example]:
    written, text = example.written, example.text
    if not written.text.startswith(text):
        yield from _edit_text(example)
        return
    dropped = len(written.text) - len(text)
    for turn, tools in _list_turns(written.turn, written.tools):
        smaller = write_alike(turn, tools)
        if smaller is not None and smaller.text:
            end = max(0, len(smaller.text) - dropped)
            yield from _cut_alike(Example(smaller, (smaller.text[:end],)), example)
    if dropped:
        ends = [len(text) * part // 4 for part in range(4)]
        for end in (*ends, len(text) - 1):
            yield example.with_pieces([text[:end]])


def _join_pieces(example: Example, fails: Callable[[Example], bool]) -> Example:
    """Returns a failing example that is cut in as few places as possible."""
    ends = _list_offsets(example)
    size = len(ends)
    while size:
        for start in range(0, len(ends), size):
            fewer = ends[:start] + ends[start + size :]
            candidate = example.with_pieces(cut(example.text, fewer))
            if fails(candidate):
                example, ends = candidate, fewer
                break
        else:
            size //= 2
        size = min(size, len(ends))
    if len(ends) > 1:
        for end in range(1, len(example.text)):
            candidate = example.with_pieces(cut(example.text, [end]))
            if fails(candidate):
                return candidate
    return example


def _list_offsets(example: Example) -> list[int]:
    return list(accumulate(len(piece) for piece in example.pieces[:-1]))


def _cut_alike(example: Example, model: Example) -> Iterator[Example]:
    """Yields an example with the cuts of another one: counted from its start, from its end, and
    all."""
    if len(model.pieces) < 2:
        yield example
        return
    if len(model.pieces) >= len(model.text):
        yield example.with_pieces(list(example.text))
        return
    text, ends = example.text, _list_offsets(model)
    shift = len(text) - len(model.text)
    yield example.with_pieces(cut(text, ends))
    yield example.with_pieces(cut(text, [max(0, end + shift) for end in ends]))


def _edit_text(example: Example) -> Iterator[Example]:
    written = example.written
    named = tuple(tool for tool in written.tools if tool.name in example.text)
    if named != written.tools:
        yield replace(example, written=replace(written, tools=named))
    for text in _shorten(example.text):
        yield from _cut_alike(replace(example, pieces=(text,)), example)


def _shorten(text: str) -> Iterator[str]:
    if not text:
        return
    yield ""
    yield "a"
    size = len(text) // 2
    while size:
        for start in range(0, len(text), size):
            yield text[:start] + text[start + size :]
        size //= 2
    for word in WORDS:
        yield text.replace(word, "a")


def _list_turns(turn: Turn, tools: Sequence[Tool]) -> Iterator[tuple[Turn, Sequence[Tool]]]:
    for changed in _list_simpler(turn):
        yield changed, _call_only(changed, tools)
    yield turn, _call_only(turn, tools)
    yield turn, _drop_unused(turn, tools)
    for changed in (turn, *_list_renamed(turn), *_list_unwrapped(turn)):
        yield changed, _make_tools(changed.calls)


def _call_only(turn: Turn, tools: Sequence[Tool]) -> Sequence[Tool]:
    called = {call.name for call in turn.calls}
    return tuple(tool for tool in tools if tool.name in called)


def _drop_unused(turn: Turn, tools: Sequence[Tool]) -> Sequence[Tool]:
    smaller: list[Tool] = []
    for tool in _call_only(turn, tools):
        used = {key for call in turn.calls if call.name == tool.name for key in call.arguments}
        schema = cast(dict[str, Any], tool.schema.source)
        members = schema.get("properties", {}).items()
        properties = {key: value for key, value in members if key in used}
        smaller.append(make_tool(tool.name, {"type": "object", "properties": properties}))
    return tuple(smaller)


def _list_renamed(turn: Turn) -> Iterator[Turn]:
    names = {name for call in turn.calls for name in (call.name, *call.arguments)}
    for name in sorted(one for one in names if len(one) > 1):
        short = next(one for one in _SHORT if one not in names)
        yield replace(turn, calls=tuple(_rename(call, name, short) for call in turn.calls))


def _rename(call: ToolCall, name: str, other: str) -> ToolCall:
    members = call.arguments.items()
    arguments = {other if key == name else key: value for key, value in members}
    return replace(call, name=other if call.name == name else call.name, arguments=arguments)


def _list_unwrapped(turn: Turn) -> Iterator[Turn]:
    """Yields the turn with a member of a value in its place."""
    for i, call in enumerate(turn.calls):
        for key, value in call.arguments.items():
            members: Iterable[Any] = ()
            if is_object(value):
                members = value.values()
            elif is_list(value):
                members = value
            for member in members:
                changed = replace(call, arguments={**call.arguments, key: member})
                yield replace(turn, calls=(*turn.calls[:i], changed, *turn.calls[i + 1 :]))


def _list_simpler(turn: Turn) -> Iterator[Turn]:
    calls = turn.calls
    for call in calls:
        yield Turn(calls=(call,))
    if turn.reasoning:
        yield replace(turn, reasoning="")
    if turn.content:
        yield replace(turn, content="")
    for i in range(len(calls)):
        yield replace(turn, calls=(*calls[:i], *calls[i + 1 :]))
    for text in _shorten(turn.reasoning):
        yield replace(turn, reasoning=text)
    for text in _shorten(turn.content):
        yield replace(turn, content=text)
    for i, call in enumerate(calls):
        for arguments in _simplify(call.arguments):
            smaller = replace(call, arguments=cast(dict[str, Any], arguments))
            yield replace(turn, calls=(*calls[:i], smaller, *calls[i + 1 :]))
            if calls.count(call) > 1:
                same = tuple(smaller if one == call else one for one in calls)
                yield replace(turn, calls=same)


def _simplify(value: Any) -> Iterator[Any]:
    """Yields simpler values, of the same type or of a plain one."""
    match value:
        case str():
            yield from _shorten(value)
        case dict():
            members = cast(dict[str, Any], value)
            for key in members:
                yield {other: member for other, member in members.items() if other != key}
            for key, member in members.items():
                for simpler in _simplify(member):
                    yield {**members, key: simpler}
        case list():
            items = cast(list[Any], value)
            for i, item in enumerate(items):
                yield items[:i] + items[i + 1 :]
                for simpler in _simplify(item):
                    yield [*items[:i], simpler, *items[i + 1 :]]
        case bool() | None:
            return
        case int() | float():
            yield 1
            yield 1.5
        case _:
            return
