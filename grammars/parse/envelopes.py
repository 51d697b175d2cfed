"""Reads calls in other envelopes than the model's own (`grammars.wire.envelopes`).

An envelope begins a line, or a fence. It is wrappers, in any order and number, around a call:

    wrapper   ```json   <tools>   [   [TOOL_CALLS]   {"tool_calls": [
    call      {"name": "f", "arguments": {   <function=f>   f(key=   functions.f({

In whole texts, a call of the kind ReAct is one, too (`Action: f`, `Action Input: {`).

Until the name of an offered tool and the opening of its arguments are there, everything may still
be text: that is what `NotACallError` says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from grammars.parse.render import render_opening
from grammars.schema.json_values import Json
from grammars.spelling.buffer import Buffer, CutError, NotACallError, Steps
from grammars.spelling.value_reader import ValueReader, read_json
from grammars.turn import Tool
from grammars.turn_grammar.arguments.kind import CallParts
from grammars.wire.envelopes import (
    FUNCTION_OF_JSON,
    FUNCTION_OF_KEYWORDS,
    LIST,
    LOOSE,
    NAME_AND_JSON,
    EnvelopeKind,
    ForeignCall,
    Wrapper,
    wrap,
    write_fence,
    write_json_call,
    write_tag,
    write_tagged_call,
)
from grammars.wire.format import PYTHON, Format, JsonStyle, TaggedArguments, squeeze
from grammars.wire.formats import NATIVE
from grammars.wire.nodes import JsonArguments, Literal, Name

MAX_HELD = 200
"""Characters of an envelope's beginning. A stream holds them back."""

TAG_WORDS = ("tool_call", "tool_calls", "toolcall", "function_call", "function_calls", "tools")
"""Tags whose first character may be missing."""

_EITHER_QUOTES = JsonStyle(
    quotes=('"', "'"), true=PYTHON.true, false=PYTHON.false, null=PYTHON.null
)
_MAX_TAG = 60  # characters
_MAX_WRAPPERS = 4
_MAX_IN_VAIN = 1_000_000
"""Characters that are read as JSON and are none. Each line may open a list that has no end, and
would be read up to the end of the text."""
_DATA = re.compile(r"(json\w*|ndjson|xml|te?xt|plain\w*|\w*(tool|function|call|action)\w*)?", re.I)
"""Languages of fences with data. A fence in another language has code."""
_CUT_TAG = re.compile(r"<\W*\w*(tool|function|call)\w*\W*", re.I)
"""A tag without its last character. Other words may be content that a call follows."""
_SQUARE_TAG = re.compile(r"\[/?[A-Z][A-Z_ ]*\]")
_ARGUMENTS_TAG = "[ARGS]"
"""What Mistral's models write between name and arguments."""
_ACTION, _ACTION_INPUT = "Action:", "Action Input:"
"""How calls begin in prompts of the kind ReAct. Only whole texts are read so: until the input
begins, this is an ordinary line of text."""


NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "recipient_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input")
GROUP_KEYS = ("tool_calls", "tool_call", "function_call", "function_calls", "calls", "tool_uses")
"""Keys of a member whose value has the calls."""
ID_KEYS = ("id", "call_id", "tool_call_id")
TYPES = ("function", "tool", "function_call", "tool_call", "tool_use", "call")
"""Values of a member `type` that say no more than that this is a call."""
SCHEMA_KEYS = ("type", "properties", "$schema", "required", "$defs")
"""The first keys of a schema. After `"parameters"`, they quote a tool."""
PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "call:")
"""Words that models write before the name of a function."""
_TAG_WITH_NAME = re.compile(
    r"<[^\s=<>]*(?:=|\s+(?:name|tool|function)\s*=\s*)[\"']?([^\"'<>\s=]+)[\"']?\s*>"
)


class CallWords:
    """The words with which models name the tools that may be called."""

    def __init__(self, tools: Mapping[str, Tool]):
        self._tools = tools
        self.words = [prefix + name for prefix in ("", *PREFIXES) for name in tools]

    def find_tool(self, word: str) -> str:
        """Returns the offered tool that a word names, perhaps after a prefix; "": none."""
        for prefix in ("", *PREFIXES):
            name = word.removeprefix(prefix)
            if name in self._tools:
                return name
        return ""

    def find_in_tag(self, tag: str) -> str:
        match = _TAG_WITH_NAME.fullmatch(tag)
        return self.find_tool(match[1]) if match else ""

    def declares(self, name: str, key: str) -> bool:
        objects = self._tools[name].schema.objects
        return any(member.key == key for node in objects for member in node.properties)

    def is_schema_key(self, name: str, key: str) -> bool:
        """Returns whether this is the first key of a schema, and not declared by the tool."""
        return key in SCHEMA_KEYS and not self.declares(name, key)

    def list_calls(self, value: Json, id: str | None = None) -> Sequence[CallParts]:
        """Returns the calls in a JSON value; raises a `ValueError` if something in it is none."""
        if isinstance(value, list) and value:
            return [call for item in cast(list[Json], value) for call in self.list_calls(item)]
        if not isinstance(value, dict):
            raise ValueError("no call")
        members = cast(dict[str, Json], value)
        parts = {key: one for key, one in members.items() if not says_nothing(key, one)}
        ids = [str(one) for key, one in members.items() if key in ID_KEYS and one not in (None, "")]
        id = ids[0] if ids else id
        for key in (*GROUP_KEYS, *NAME_KEYS):
            if len(parts) == 1 and isinstance(parts.get(key), dict | list):
                return self.list_calls(parts[key], id)
        names = [key for key in parts if key in NAME_KEYS]
        keys = [key for key in parts if key in ARGUMENT_KEYS]
        if len(names) != 1 or len(keys) > 1 or len(parts) != len(names) + len(keys):
            raise ValueError("something would be lost")
        word = parts[names[0]]
        name = self.find_tool(word) if isinstance(word, str) else ""
        arguments: Json = parts[keys[0]] if keys else {}
        if isinstance(arguments, str):
            arguments = read_json(arguments)
        if not name or not isinstance(arguments, dict):
            raise ValueError("no call of an offered tool")
        given = cast(dict[str, Json], arguments)
        if keys == ["parameters"] and self.is_schema_key(name, next(iter(given), "")):
            raise ValueError("a tool, not a call")
        return [CallParts(name, id, arguments=given)]


def says_nothing(key: str, value: Json) -> bool:
    """Returns whether a member of a call says no more than that it is one."""
    if key == "type":
        return value in TYPES
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if key == "index":
        return is_number
    return key in ID_KEYS and (value is None or is_number or isinstance(value, str))


@dataclass(frozen=True)
class WholeCalls:
    """Complete calls in JSON, and the texts that may follow them, the next one last."""

    calls: Sequence[CallParts]
    closers: Sequence[str]


class EnvelopeReader:
    """Reads the beginning of an envelope. `own`: texts that open the model's own calls, which are
    none. `whole`: all text is there, so JSON is read up to its end, wherever its name stands; else
    reading ends where the arguments begin, and after `MAX_HELD` characters."""

    def __init__(
        self,
        buffer: Buffer,
        tools: Mapping[str, Tool],
        *,
        own: Sequence[str] = (),
        whole: bool = False,
    ):
        self._buffer = buffer
        self._own = own
        self._reads_whole = whole
        self._words = CallWords(tools)
        self._known = (*self._words.words, *TAG_WORDS)
        self._begun = 0  # where the envelope begins
        self._in_vain = 0  # characters of JSON that was no call

    def read(self, before: str = "") -> Steps[ForeignCall | WholeCalls]:
        """Reads an envelope up to the arguments of its first call, or all of it if it is JSON;
        `before`: text that was taken, and belongs to it. Raises a `NotACallError`, or a `CutError`
        if the text ends before this is certain."""
        self._begun = self._buffer.position - len(before)
        self._buffer.limit = None if self._reads_whole else self._begun + MAX_HELD
        try:
            return (yield from self._read())
        finally:
            self._buffer.limit = None

    def _read(self) -> Steps[ForeignCall | WholeCalls]:
        wrappers: list[Wrapper] = []
        while len(wrappers) <= _MAX_WRAPPERS:
            first = yield from self._buffer.next_visible()
            for opener in self._own:
                if opener.startswith(first) and (yield from self._buffer.begins(opener)):
                    raise NotACallError
            match first:
                case "`":
                    wrappers.append((yield from self._read_fence()))
                case "<":
                    tag = yield from self._read_tag()
                    name = self._words.find_in_tag(tag)
                    if name:
                        return (yield from self._read_after_tag(wrappers, tag, name))
                    wrappers.append(write_tag(tag))
                case "[":
                    tag = yield from self._read_square_tag()
                    texts = self._buffer.texts(("[", "{"))
                    if not tag and self._reads_whole and (yield from self._buffer.peek(texts)):
                        return (yield from self._read_whole(wrappers))
                    if not tag:
                        self._buffer.take(1)
                    wrappers.append(write_tag(tag) if tag else LIST)
                case "{" if self._reads_whole:
                    return (yield from self._read_whole(wrappers))
                case "{":
                    return (yield from self._read_object(wrappers))
                case "A" if self._reads_whole and (yield from self._buffer.begins(_ACTION)):
                    return (yield from self._read_action(wrappers))
                case _:
                    found = yield from self._read_word(wrappers)
                    if isinstance(found, ForeignCall):
                        return found
                    wrappers.append(found)
        raise NotACallError

    def _begin(
        self, wrappers: Sequence[Wrapper], kind: EnvelopeKind, tool: str, format: Format | None
    ) -> ForeignCall:
        """Returns the call whose arguments come next; `kind`: that of a call without wrapper."""
        kind = wrappers[0].kind if wrappers else kind
        end = self._buffer.position
        return ForeignCall(kind, tool, start=self._begun, end=end, format=format)

    # Wrappers.

    def _read_fence(self) -> Steps[Wrapper]:
        """Reads the first line of a fence whose language is one of data."""
        yield from self._buffer.literal("```")
        language = yield from self._buffer.take_while(
            lambda next: next in "_+-" or (next.isascii() and next.isalnum())
        )
        if not _DATA.fullmatch(language):
            raise NotACallError
        yield from self._buffer.take_while(lambda next: next in " \t\r")
        yield from self._buffer.literal("\n")
        return write_fence(language)

    def _read_tag(self) -> Steps[str]:
        """Reads a tag. It may lack its last character, and end with the line."""
        tag = self._buffer.take(1)
        tag += yield from self._buffer.take_while(lambda next: next not in "<>\n{`", _MAX_TAG - 1)
        if (yield from self._buffer.need()) == ">":
            tag += self._buffer.take(1)
        elif not _CUT_TAG.fullmatch(tag):
            raise NotACallError
        if len(tag) < 3 or tag.startswith("</"):
            raise NotACallError
        return tag

    def _read_square_tag(self) -> Steps[str]:
        """Reads a tag such as `[TOOL_CALLS]`; returns "" and reads nothing if it is a list."""
        if not (yield from self._buffer.need(2))[1].isupper():
            return ""
        tag = yield from self._buffer.take_while(lambda next: next not in "]\n{", _MAX_TAG - 1)
        tag += self._buffer.take(1)
        if not _SQUARE_TAG.fullmatch(tag):
            raise NotACallError
        return tag

    # A call whose name stands in a tag, or that is written like one of a function.

    def _read_after_tag(
        self, wrappers: Sequence[Wrapper], tag: str, name: str
    ) -> Steps[ForeignCall]:
        following = yield from self._buffer.next_visible()
        if following == "{":
            before, _, after = tag.partition(name)
            word = tag[1:].split("=")[0].split()[0]
            format = wrap(wrappers, write_tagged_call(before, f"{after}\n", f"\n</{word}>"))
        elif following == "<":
            format = _find_registered(wrappers, tag, name)
        else:
            raise NotACallError
        return self._begin(wrappers, EnvelopeKind.TAG, name, format)

    def _read_word(self, wrappers: Sequence[Wrapper]) -> Steps[ForeignCall | Wrapper]:
        """Reads a call of a function, or a tag that lacks its first character."""
        word = ""
        while (character := (yield from self._buffer.need())).isalnum() or character in "_-.:":
            word += self._buffer.take(1)
            if not any(known.startswith(word) for known in self._known):
                raise NotACallError
        name = self._words.find_tool(word)
        if character == ">" and word in TAG_WORDS:
            return write_tag(word + self._buffer.take(1))
        if not name:
            raise NotACallError
        if character == "(":
            self._buffer.take(1)
            return (yield from self._read_parenthesis(wrappers, name))
        if not wrappers or wrappers[-1].kind is not EnvelopeKind.TAG:
            raise NotACallError
        following = yield from self._buffer.next_visible()
        if following == "{":
            format = wrap(wrappers, NAME_AND_JSON)
        elif following == "[":
            yield from self._buffer.literal(_ARGUMENTS_TAG)
            yield from self._buffer.next_visible()
            format = wrap(wrappers, (Name(), Literal(_ARGUMENTS_TAG), JsonArguments(LOOSE)))
        elif following == "<":
            format = _find_registered(wrappers[:-1], wrappers[-1].opener.strip() + word, name)
        else:
            raise NotACallError
        return self._begin(wrappers, EnvelopeKind.TAG, name, format)

    def _read_parenthesis(self, wrappers: Sequence[Wrapper], name: str) -> Steps[ForeignCall]:
        if (yield from self._buffer.next_visible()) == "{":
            return self._begin(
                wrappers, EnvelopeKind.FUNCTION, name, wrap(wrappers, FUNCTION_OF_JSON)
            )
        if not (yield from self._buffer.peek(self._read_keyword(name))):
            raise NotACallError
        format = wrap(wrappers, FUNCTION_OF_KEYWORDS)
        return self._begin(wrappers, EnvelopeKind.FUNCTION, name, format)

    def _read_keyword(self, name: str) -> Steps[bool]:
        """Reads a key; returns whether it is a declared keyword, and no part of a comparison."""
        key = yield from self._buffer.take_while(lambda next: next.isalnum() or next == "_")
        yield from self._buffer.space()
        yield from self._buffer.literal("=")
        return (yield from self._buffer.need()) != "=" and self._words.declares(name, key)

    # JSON up to its end.

    def _read_action(self, wrappers: Sequence[Wrapper]) -> Steps[WholeCalls]:
        self._buffer.take(len(_ACTION))
        yield from self._buffer.next_visible()
        line = yield from self._buffer.take_while(lambda next: next != "\n")
        name = self._words.find_tool(line.strip())
        if not name:
            raise NotACallError
        yield from self._buffer.next_visible()
        yield from self._buffer.literal(_ACTION_INPUT)
        if (yield from self._buffer.next_visible()) == "`":
            wrappers = (*wrappers, (yield from self._read_fence()))
        arguments = yield from self._read_json()
        if not isinstance(arguments, dict):
            raise NotACallError
        call = CallParts(name, arguments=cast(dict[str, Json], arguments))
        return WholeCalls([call], _list_closers(wrappers))

    def _read_whole(self, wrappers: Sequence[Wrapper]) -> Steps[WholeCalls]:
        value = yield from self._read_json()
        try:
            calls = self._words.list_calls(value)
        except ValueError:
            raise NotACallError from None
        return WholeCalls(calls, _list_closers(wrappers))

    def _read_json(self) -> Steps[Json]:
        start = self._buffer.position
        if self._in_vain > _MAX_IN_VAIN:
            raise NotACallError
        try:
            return read_json((yield from self._buffer.value(ValueReader(_EITHER_QUOTES))))
        except (ValueError, CutError):
            self._in_vain += self._buffer.position - start
            raise NotACallError from None

    # An object, up to the arguments of the call in it.

    def _read_object(self, wrappers: Sequence[Wrapper]) -> Steps[ForeignCall]:
        """Reads an object up to its arguments, which may also be those of an object in it."""
        self._buffer.take(1)
        name, name_key, has_arguments = "", "", False
        while True:
            key = yield from self._read_string()
            yield from self._buffer.space()
            yield from self._buffer.literal(":")
            following = yield from self._buffer.next_visible()
            if key in GROUP_KEYS and not name and following in "{[":
                wrapper = Wrapper(EnvelopeKind.OBJECT, f'{{"{key}": ', "}")
                if following == "[":
                    wrapper = Wrapper(EnvelopeKind.LIST, f'{{"{key}": [', "]}")
                    self._buffer.take(1)
                    if (yield from self._buffer.next_visible()) != "{":
                        raise NotACallError
                return (yield from self._read_object((*wrappers, wrapper)))
            if key in NAME_KEYS and not name and following == "{":
                wrapper = Wrapper(EnvelopeKind.OBJECT, f'{{"{key}": ', "}")
                return (yield from self._read_object((*wrappers, wrapper)))
            if key in NAME_KEYS and not name and following in "\"'":
                name, name_key = self._words.find_tool((yield from self._read_string())), key
                if not name:
                    raise NotACallError
            elif key in ARGUMENT_KEYS and name:
                encoded = yield from self._read_arguments_start(key, name, following)
                call = write_json_call(name_key, key, encoded=encoded)
                return self._begin(wrappers, EnvelopeKind.OBJECT, name, wrap(wrappers, call))
            elif key in ARGUMENT_KEYS and not has_arguments and following in "{\"'":
                has_arguments = True
                yield from self._skip_value()
            elif not says_nothing(key, (yield from self._read_scalar(following))):
                raise NotACallError
            if name and has_arguments:
                # What stands before the name is written again, under the mask.
                return self._begin(wrappers, EnvelopeKind.OBJECT, name, None)
            yield from self._buffer.space()
            yield from self._buffer.literal(",")

    def _read_arguments_start(self, key: str, name: str, following: str) -> Steps[bool]:
        """Checks that arguments come next; returns whether they are the text of a string."""
        if following in "\"'":
            if (yield from self._buffer.need(2))[1] != "{":
                raise NotACallError
            return True
        if following != "{":
            raise NotACallError
        if key == "parameters" and (yield from self._sees_schema(name)):
            raise NotACallError
        return False

    def _sees_schema(self, name: str) -> Steps[bool]:
        """Returns whether an object with the first key of a schema comes next."""
        self._buffer.mark()
        try:
            self._buffer.take(1)
            if (yield from self._buffer.next_visible()) not in "\"'":
                return False
            quote = self._buffer.take(1)
            key = yield from self._buffer.take_while(lambda next: next != quote)
            return self._words.is_schema_key(name, key)
        finally:
            self._buffer.unread(self._buffer.forget())

    def _read_string(self) -> Steps[str]:
        if (yield from self._buffer.next_visible()) not in "\"'":
            raise NotACallError
        quote = self._buffer.take(1)
        ends = quote + "\\\n"  # no name or key of a call has the latter
        text = yield from self._buffer.take_while(lambda next: next not in ends)
        if self._buffer.take(1) != quote:
            raise NotACallError
        return text

    def _read_scalar(self, following: str) -> Steps[Json]:
        """Reads the value of a member that is no part of the call."""
        if following in "\"'":
            return (yield from self._read_string())
        text = yield from self._buffer.take_while(lambda next: next.isalnum() or next in "-+.")
        try:
            return read_json(text)
        except ValueError:
            raise NotACallError from None

    def _skip_value(self) -> Steps[None]:
        try:
            yield from self._buffer.value(ValueReader(_EITHER_QUOTES))
        except ValueError:
            raise NotACallError from None


def _list_closers(wrappers: Sequence[Wrapper]) -> Sequence[str]:
    return tuple(wrapper.closer.strip() for wrapper in wrappers if wrapper.closer)


def _find_registered(wrappers: Sequence[Wrapper], ending: str, name: str) -> Format | None:
    """Returns the registered format in which a call of this tool begins so, up to its name or the
    text after it, and whose arguments are between tags. The wrappers around the calls count, unless
    they are those of the format."""
    for format in NATIVE:
        if not isinstance(format.hole, TaggedArguments):
            continue
        opening = squeeze(render_opening(format, name))
        if not opening.endswith(squeeze(ending)):
            continue
        opener = "".join(wrapper.opener for wrapper in wrappers)
        if opening == squeeze(opener + ending) or not (wrappers or format.opening):
            return format
        if not wrappers:
            return replace(format, closing=(), closes_one=False)
        around = wrap(wrappers, format.call)
        return replace(format, opening=around.opening, closing=around.closing, closes_one=False)
    return None
