"""Turns and cuts that parsers are known to stumble over, each with one difficulty. They are read in
each run, before those that are drawn at random."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from grammars.parse.parser import parse
from grammars.schema.corner_values import list_corner_values
from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.types import name_types
from grammars.suite.changes import DAMAGED, IN_PIECES
from grammars.suite.strategies import (
    Example,
    Written,
    find_id_pattern,
    list_habits,
    make_tool,
    write,
)
from grammars.turn import Tool, ToolCall, Turn
from grammars.wire.format import MIN_TAG_LENGTH, Format

# Their words are among `WORDS`, so that a loss of them is noticed in a damaged text, too.
_TEXTS = (
    "", " ", " zorn", "zorn ", "\n", "zorn\n", "\nzorn", "zorn\n\nkvelp", "\t", "zorn  kvelp",
    "5", "1.0", "007", "true", "null", "None", "[1]", '{"a": 1}', '"', 'zorn"kvelp', "'",
    "it's zorn", "\\", "zorn\\", "zorn\\nkvelp", "\\u00e9", "\\d+", "é", "日本", "🙂",
    "e\u0301 zorn", "<b>", "<b>zorn</b>", "zorn & kvelp", "&amp;&lt;", "</", "{", "}", "{}", "]",
    "}}", '"}', "zorn\u2028kvelp", "zorn, kvelp: [x]", "zorn=1", "```json\n{}\n```", "a\r\nb",
    "x" * 70,
)  # fmt: skip
_VALUES: tuple[tuple[Any, Any], ...] = (
    ("integer", 0), ("integer", 5), ("integer", -7), ("integer", 10**15), ("integer", 2**53 + 1),
    ("number", 1.5), ("number", -0.125), ("number", 3), ("boolean", True), ("boolean", False),
    ("null", None), ("array", []), ("array", ["zorn"]), ("array", ["a", "a"]), ("array", [1, 2]),
    ("array", [{"note": "zorn"}]), ("object", {}), ("object", {"note": "zorn"}),
    ("object", {"note": {"note": 1}}), (["string", "null"], None), (["string", "null"], "zorn"),
    (["integer", "string"], "5"), (["integer", "string"], 5),
)  # fmt: skip
_CONTENTS = (
    "zorn", "zorn\n\nkvelp", "zorn < 5 & 6 > 3", "f", '{"note": "zorn"}', 'f(note="zorn")',
    "- zorn\n- é 🙂",
)  # fmt: skip
_SPACED = ("\nzorn", "zorn\n", "  zorn ")
_Turn: TypeAlias = tuple[Turn, tuple[Tool, ...]]
_NAMES = ("set-light", "f2", "name", "arguments", "get_weather_now", "F")


def _tool(tool: str, /, **kinds: Any) -> Tool:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    return make_tool(tool, {"type": "object", "properties": properties})


def _call(tool: str = "f", /, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


_F, _G = _tool("f", note="string", days="integer"), _tool("get", note="string", unit="string")
_TOOLS = (_F, _G, _tool("get_weather", city="string"))


def list_turns(
    format: Format, offered: Sequence[Tool], *, reasoning: bool, tags: bool
) -> Iterator[Written]:
    """Yields turns in this format; those that it cannot write without ambiguity are left out.
    `offered`: the tools to call; (): the suite makes them up. `tags`: only turns with a tag of the
    format in a value; False: the others."""
    texts = _list_tagged_texts(format) if tags else _TEXTS
    if offered:
        turns = _list_own(tuple(offered), texts)
    else:
        turns = _list_tagged(texts) if tags else _list_plain(format)
    if reasoning and not tags:
        yield from _list_thoughts(format)
    for turn, tools in turns:
        if turn.reasoning and not (reasoning and format.reasoning):
            continue
        if format.single and len(turn.calls) > 1:
            continue
        calls = turn.calls
        if find_id_pattern(format):  # the model makes them up
            calls = [replace(call, id=f"callid{i:03}") for i, call in enumerate(calls)]
        written = write(replace(turn, calls=tuple(calls)), format, tools)
        if written is not None:
            yield written


def _list_thoughts(format: Format) -> Iterator[Written]:
    """Yields turns with a call in their reasoning, which is no call."""
    for turn in (Turn("zorn", "kvelp"), Turn("", "kvelp", (_call(note="a"),))):
        called = write(Turn(calls=(_call(note="zorn"),)), format, (_F,))
        written = write(turn, format, (_F,))
        if called is None or written is None:
            continue
        thought = f"kvelp {called.text} woxam"
        text = written.text.replace("kvelp", thought, 1)
        # What ends the reasoning in a format may stand in a call; our own parser knows.
        read = _parse_twice(text, format, (_F,))
        if format.reasoning and read is not None and read.reasoning == thought:
            yield Written(replace(turn, reasoning=thought), text, (_F,))


def _parse_twice(text: str, format: Format, tools: Sequence[Tool]) -> Turn | None:
    """Returns what our own parser reads; None: with recovery, it reads something else."""
    strict, lenient = (parse(text, format, tools, recover=recover) for recover in (False, True))
    return strict if strict == lenient else None


def list_surrounded(format: Format, turns: Sequence[Written]) -> Iterator[Written]:
    """Yields turns with text behind their calls, and between them, where the format allows it."""
    for written in turns:
        turn, text = written.turn, written.text
        if not turn.calls or turn.content or turn.reasoning:
            continue
        texts = [f"{text}\nwoxam", f"jinqa\n{text}\n\nwoxam jinqa"]
        parts = [write(Turn(calls=(call,)), format, written.tools) for call in turn.calls]
        if len(parts) > 1:
            texts.append("\nwoxam\n".join(part.text for part in parts if part is not None))
        for surrounded in texts:
            read = _parse_twice(surrounded, format, written.tools)
            if read and [call.arguments for call in read.calls] == [
                c.arguments for c in turn.calls
            ]:
                yield Written(replace(turn, content=read.content), surrounded, written.tools)


def _list_own(tools: tuple[Tool, ...], texts: Sequence[str]) -> Iterator[_Turn]:
    """Yields calls of given tools, then those with one of the texts as an argument."""
    for tool in tools:
        for arguments in filter(is_object, list_corner_values(tool.schema)):
            yield Turn(calls=(ToolCall(tool.name, dict(arguments)),)), tools
            for key, value in arguments.items():
                for text in texts if isinstance(value, str) else ():
                    changed = {**arguments, key: text}
                    if tool.schema.admits(changed):
                        yield Turn(calls=(ToolCall(tool.name, changed),)), tools


def _list_plain(format: Format) -> Iterator[_Turn]:
    for turn in _list_basic():
        yield turn, _TOOLS
    yield Turn(calls=(_call("ping", note="zorn"),)), _TOOLS
    for text in _TEXTS:
        yield Turn(calls=(_call(note=text),)), (_F,)
    for text in (" zorn ", "zorn\n", "5", ""):
        yield Turn(calls=(_call("get", note=text, unit="kvelp"),)), (_G,)
    for kind, value in _VALUES:
        yield Turn(calls=(_call(note=value),)), (_tool("f", note=kind),)
        tool = _tool("f", note=kind, unit="string")
        yield Turn(calls=(_call(note=value, unit="kvelp"),)), (tool,)
    for name in _NAMES:
        yield Turn(calls=(ToolCall(name, {"note": "zorn"}),)), (_tool(name, note="string"),)
        yield Turn(calls=(ToolCall("f", {name: "zorn"}),)), (_tool("f", **{name: "string"}),)
    for text in (*_CONTENTS, *_SPACED):
        if not any(part in text for part in (*format.reserved, *format.markers)):
            yield Turn(text), ()
            yield Turn(text, calls=(_call(note="kvelp"),)), (_F,)
            yield Turn(text, "woxam"), ()
            yield Turn("kvelp", text), ()


def _list_basic() -> Iterator[Turn]:
    """Yields turns without any difficulty but the number of their parts."""
    one, other = _call(note="zorn"), _call("get", note="kvelp", unit="woxam")
    yield Turn(calls=(one,))
    yield Turn(calls=(_call(),))
    yield Turn(calls=(_call("get_weather", city="zorn"),))
    yield Turn(calls=(_call(note="zorn", days=5),))
    yield Turn("zorn", calls=(one,))
    yield Turn("", "zorn", (other,))
    yield Turn("kvelp", "zorn")
    yield Turn("woxam", "zorn\nkvelp", (one,))
    yield Turn(calls=(one, one))
    yield Turn(calls=(one, _call(note="kvelp")))
    yield Turn(calls=(one, other))
    yield Turn(calls=(other, one))
    yield Turn("zorn", calls=(one, other, one))
    yield Turn(calls=(_call(), _call()))
    yield Turn(calls=(_call(), one))
    yield Turn(calls=(_call("get_weather", city="zorn"), other))


def _list_tagged_texts(format: Format) -> list[str]:
    texts: list[str] = []
    for tag in list_tags(format):
        texts += [tag, f"zorn{tag}kvelp", f"zorn {tag}"]
    return texts


def _list_tagged(texts: Sequence[str]) -> Iterator[_Turn]:
    for text in texts:
        yield Turn(calls=(_call(note=text),)), (_F,)
        yield Turn(calls=(_call("get", note=text, unit="kvelp"),)), (_G,)


def list_tags(format: Format) -> list[str]:
    """Returns the texts of a format that no value contains by chance."""
    tags = [tag.strip() for tag in (*format.texts, *format.ends)]
    found = [tag for tag in tags if len(tag) >= MIN_TAG_LENGTH and not tag.isalnum()]
    return list(dict.fromkeys(found))


def list_cuts(turns: Sequence[Written]) -> Iterator[Example]:
    """Yields turns whole, in single characters, and the longest ones cut at each place, and in
    short pieces."""
    yield from (Example(written, (written.text,)) for written in turns)
    yield from (Example(written, tuple(written.text)) for written in turns)
    longest = sorted(turns, key=_count_parts, reverse=True)
    for written in longest[:3]:
        text = written.text
        for end in range(1, len(text)):
            yield Example(written, (text[:end], text[end:]))
            yield Example(written, (text[:end], "", text[end:]))
    for written in longest[:20]:
        for size in (3, 7):
            text = written.text
            pieces = [text[start : start + size] for start in range(0, len(text), size)]
            yield Example(written, tuple(pieces))


def _count_parts(written: Written) -> int:
    turn = written.turn
    return 2 * bool(turn.reasoning) + bool(turn.content) + min(2, len(turn.calls))


def list_truncations(turns: Sequence[Written], format: Format) -> Iterator[Example]:
    """Yields turns that are cut off at each place; the longest ones first."""
    tags = list_tags(format)
    plain: list[Written] = []
    for one in turns:
        if not any(tag in one.turn.reasoning for tag in tags):
            plain.append(one)
    for written in sorted(plain, key=_count_parts, reverse=True)[:4]:
        for end in range(len(written.text)):
            yield Example(written, (written.text[:end],))


def list_edits(turns: Sequence[Written], format: Format) -> Iterator[Example]:
    """Yields turns with one habit of models without a mask, without one of their tags, or with it
    twice."""
    changes = list_habits(list_tags(format))
    for written in turns:
        for pattern, replacement in changes:
            text = re.sub(pattern, replacement, written.text, count=1)
            if text != written.text:
                yield Example(written, (text,))


BEHIND = "something behind a call"


def find_triggers(example: Example, format: Format) -> frozenset[str]:
    """Returns what is difficult in an example, in plain words."""
    written, found = example.written, set[str]()
    if len(example.pieces) > 1:
        found.add(IN_PIECES)
    if example.text != written.text:
        return frozenset({DAMAGED, *found})
    turn = written.turn
    tags = list_tags(format)
    if turn.reasoning:
        found.add("reasoning")
        found |= {f"{kind} in the reasoning" for kind in _find_text(turn.reasoning, tags)}
    if turn.content:
        end = written.text.find(turn.calls[0].name) if turn.calls else len(written.text)
        if turn.calls and not 0 <= written.text.find(turn.content) < end:
            found |= {BEHIND, "text behind a call"}
        else:
            found |= {f"{kind} in the content" for kind in _find_text(turn.content, tags)}
            if turn.calls:
                found.add("content before a call")
    for i, call in enumerate(turn.calls):
        if i:
            found.add(BEHIND)
        if (call.name, call.arguments) in [(c.name, c.arguments) for c in turn.calls[:i]]:
            found.add("equal calls")
        if not call.name.isidentifier():
            found.add("hyphen in a name")
        if call.name not in {tool.name for tool in written.tools}:
            found.add("a tool that is not offered")
        if not call.arguments:
            found.add("no arguments")
        if len(call.arguments) > 1:
            found.add("several arguments")
        for value in call.arguments.values():
            found |= _find_value(value, tags)
    return frozenset(found)


def find_marks(example: Example) -> frozenset[str]:
    """Returns the signs of syntax in the arguments of an example."""
    if example.text != example.written.text:
        return frozenset()
    values = [list(call.arguments.values()) for call in example.written.turn.calls]
    spelled = "".join(json.dumps(one, ensure_ascii=False)[1:-1] for one in values)
    return frozenset(spelled) & set("{}[]<>()'`&=|")


def _find_value(value: Any, tags: Sequence[str]) -> set[str]:
    if isinstance(value, str):
        return _find_text(value, tags) or set()
    kind = name_types(value)[-1]
    found = {kind}
    members: list[Any] = []
    if is_object(value):
        members = list(value.values())
    elif is_list(value):
        members = list(value)
    elif kind == "number" and abs(value) > 10**9:
        found.add("large number")
    elif isinstance(value, float):
        found.add("fraction")
    for member in members:
        found |= _find_value(member, tags)
    return found


def _find_text(text: str, tags: Sequence[str]) -> set[str]:
    found: set[str] = set()
    if any(tag in text for tag in tags):
        found.add("tag")
        return found
    if not text:
        found.add("empty text")
    if text != text.strip():
        found.add("white space at an end")
    if "\n" in text.strip():
        found.add("line break")
    if set('"\\\n\t') & set(text.strip()):
        found.add("escape")
    if not text.isascii():
        found.add("beyond ASCII")
    if re.fullmatch(r"-?[\d.]+|true|false|null|None|[\[{].*", text):
        found.add("text like another value")
    if set("<>&") & set(text):
        found.add("markup")
    if set("{}[]()=,:'") & set(text):
        found.add("punctuation")
    return found
