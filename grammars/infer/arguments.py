"""Infers arguments between tags, from calls of the template with no, one and two arguments."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import mode
from typing import Generic, TypeVar

from grammars.errors import DetectError
from grammars.infer.probes import KEYS, VALUES
from grammars.infer.styles import find_style
from grammars.infer.text import TAG, common_prefix, common_suffix, find_tag
from grammars.schema.json_values import Json
from grammars.wire.format import JsonStyle, KeywordArguments, TaggedArguments, TextWrapper

H = TypeVar("H", bound=TaggedArguments | KeywordArguments, covariant=True)

WriteCall = Callable[[Mapping[str, Json]], str]
"""Returns the text of a call with these arguments, from after its name to its end."""

_Spelled = tuple[Json, tuple[str, ...]]
"""A value, and the spellings that it may have between tags."""

_WORDS: dict[str, _Spelled] = {
    "true": (True, ("true", "True")),
    "false": (False, ("false", "False")),
    "null": (None, ("null", "None")),
}
_SCALARS: dict[str, _Spelled] = {
    "string": (VALUES[0], (VALUES[0],)),
    "integer": (12345, ("12345",)),
    "number": (1.5, ("1.5",)),
    "boolean": _WORDS["true"],
    "null": _WORDS["null"],
}
ARRAY: Json = [1, "é/", [True, None], {"b": False, "A": 1.5}]
OBJECT: Json = {"b": [1, "é/", True], "A": {"deep": None}, "c": False}


@dataclass(frozen=True)
class WrittenOut(Generic[H]):
    """Arguments that are written one by one, the fixed text in front of them, and the rest of the
    call."""

    before: str
    hole: H
    rest: str


def _drop_numbers(text: str) -> str:
    return re.sub("[0-9]+", "", text)


def are_sorted(write_call: WriteCall) -> bool:
    """Returns whether the template sorts arguments by their keys."""
    text = write_call({KEYS[1]: VALUES[1], KEYS[0]: VALUES[0]})
    return text.find(VALUES[0]) < text.find(VALUES[1])


def infer_tagged(write_call: WriteCall, suffix: str) -> WrittenOut[TaggedArguments]:
    """Infers the tags around arguments.

    Args:
        write_call: writes a call with given arguments.
        suffix: the text after the last value, to the end of the call.

    Raises:
        DetectError: the texts have no such tags.
    """
    wrapper = _find_wrapper(write_call, suffix)
    if wrapper is None:
        return _infer_plain(write_call, suffix)

    def write_unwrapped(arguments: Mapping[str, Json]) -> str:
        text = write_call(arguments)
        for value in arguments.values():
            if isinstance(value, str):
                text = text.replace(wrapper.opener + value + wrapper.closer, value)
        return text

    plain = _infer_plain(write_unwrapped, suffix.removeprefix(wrapper.closer))
    return replace(plain, hole=replace(plain.hole, wrapper=wrapper))


def _find_wrapper(write_call: WriteCall, suffix: str) -> TextWrapper | None:
    """Returns the texts around every string, if no other value has them; else None."""
    number = str(_SCALARS["integer"][0])
    head, _, tail = write_call({KEYS[0]: int(number)}).partition(number)
    before = write_call({KEYS[0]: VALUES[0]}).partition(VALUES[0])[0]
    opener, closer = before.removeprefix(head), suffix.removesuffix(tail)
    if not tail or not before.startswith(head) or not suffix.endswith(tail):
        return None
    return TextWrapper(opener, closer, triggers=("",)) if opener and closer else None


def _infer_plain(write_call: WriteCall, suffix: str) -> WrittenOut[TaggedArguments]:
    """Infers the tags if strings are written between them without a wrapper."""
    head, opener, close = _read_tags(write_call, suffix)
    end, rest = _cut_end(suffix[len(close) :])
    before = head.removesuffix(opener)
    close, found, close_key = close.partition(KEYS[0])
    values = _Values(write_call, head + KEYS[0], suffix)
    after_key, kinds, after_kind = _name_kinds(values.read_kinds())
    hole = TaggedArguments(
        open=opener,
        after_key=after_key,
        close=close,
        end=end,
        true=values.spell_word("true"),
        false=values.spell_word("false"),
        null=values.spell_word("null"),
        style=values.read_style(),
        kinds=kinds,
        after_kind=after_kind,
        close_key=close_key if found else None,
        sorted_keys=are_sorted(write_call),
    )
    empty = _read_empty(write_call({}), before=before, rest=rest)
    if empty != end:
        hole = replace(hole, empty=empty)
    return WrittenOut(before, hole, rest)


def _read_tags(write_call: WriteCall, suffix: str) -> tuple[str, str, str]:
    """Returns the text in front of the first key, the part of it that opens an argument, and the
    text that closes an argument."""
    one = write_call({KEYS[0]: VALUES[0]})
    two = write_call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
    head = one.partition(KEYS[0])[0]
    middle = two.partition(VALUES[0])[2].partition(KEYS[1])[0]
    if KEYS[1] not in two or not one.endswith(VALUES[0] + suffix):
        raise DetectError("arguments are not written one after the other")
    shared = common_suffix(head, middle)
    opener = shared.lstrip()
    close = middle.removesuffix(opener)
    while len(opener) < len(shared) and not suffix.startswith(close):
        opener = shared[-len(opener) - 1 :]  # arguments are indented, and their end is not
        close = middle.removesuffix(opener)
    if not close:  # the name is closed as each value is: `{name}\n\arg{key}{value}\n`
        close = _find_first_run(common_prefix(middle, suffix))
        opener = middle.removeprefix(close)
    if not opener:  # a key stands at the beginning of a line
        close, opener = close.rstrip(), close[len(close.rstrip()) :]
    # Without a closer of its own, a value ends at the next tag, which has to be one.
    is_closed = bool(close) or bool(find_tag(opener) and re.match(TAG, suffix))
    # A key that begins a line has to be told from what ends the arguments.
    is_opened = bool(opener.strip() or (opener and suffix.removeprefix(close).strip()))
    if not is_opened:
        raise DetectError(f"nothing tells where an argument begins: {one!r}")
    if not (is_closed and suffix.startswith(close)):
        if len(common_suffix(*map(_drop_numbers, (head, middle)))) > len(_drop_numbers(shared)):
            raise DetectError(f"arguments are numbered: {two!r}")
        raise DetectError(f"nothing tells where the value of an argument ends: {one!r}")
    return head, opener, close


def _find_first_run(text: str) -> str:
    """Returns the first tag of a text; or what it begins with, up to the white space in it."""
    found = re.match(rf"{TAG}|\S+(?=\s)", text)
    return found[0] if found else ""


def _cut_end(text: str) -> tuple[str, str]:
    """Splits off the text that closes the arguments, up to the first tag. Returns it and the
    rest."""
    tag = find_tag(text)
    end = tag.end() if tag else len(text)
    return text[:end], text[end:]


def _read_empty(text: str, *, before: str, rest: str) -> str:
    """Returns the text that a call without arguments has instead of them. (DeepSeek V4 adds a line
    break.)"""
    if not text.startswith(before) or not text.endswith(rest):
        raise DetectError(f"a call without arguments is written in another way: {text!r}")
    return text[len(before) : len(text) - len(rest)]


@dataclass(frozen=True)
class _Values:
    """Calls with one argument, of each type.

    Args:
        write_call: writes a call with given arguments.
        head: the text in front of the value, its key included.
        suffix: the text after the value.
    """

    write_call: WriteCall
    head: str
    suffix: str

    def write(self, value: Json) -> str | None:
        """Returns the text from the key to the end of the value; None if the argument is left
        out."""
        text = self.write_call({KEYS[0]: value})
        if not text.startswith(self.head):
            return None
        if not text.endswith(self.suffix):
            raise DetectError(f"the argument {value!r} is closed in another way: {text!r}")
        return text[len(self.head) : len(text) - len(self.suffix)]

    def spell_word(self, word: str) -> tuple[str, ...]:
        """Returns the spellings of true, false or null, the template's own first."""
        value, spellings = _WORDS[word]
        text = self.write(value) or word
        own = _find_ending(text, spellings)
        if own is None:
            raise DetectError(f"{word} is not written as a word: {text!r}")
        return tuple(dict.fromkeys([own, word]))

    def read_kinds(self) -> dict[str, str]:
        """Returns the text between the key and a value, for each type."""
        found: dict[str, str] = {}
        for kind, (value, spellings) in _SCALARS.items():
            text = self.write(value)
            if text is not None:
                own = _find_ending(text, spellings)
                if own is None:
                    raise DetectError(f"{value!r} is written in an unknown way: {text!r}")
                found[kind] = text.removesuffix(own)
        before_object, _ = self._cut_value("{", OBJECT)
        found["array"], _ = self._cut_value("[", ARRAY)
        found["object"] = before_object
        return found

    def _cut_value(self, bracket: str, value: Json) -> tuple[str, str]:
        """Returns the text between the key and a list or an object, and the spelling of that;
        brackets of the former may stand in front of the value: `{key}{{"a": 1}}`."""
        text = self.write(value)
        if text is None:
            call = self.write_call({KEYS[0]: value})
            raise DetectError(f"the text in front of an argument depends on its value: {call!r}")
        for place in re.finditer(re.escape(bracket), text):
            spelled = text[place.start() :]
            if find_style((value, spelled)) is not None:
                return text[: place.start()], spelled
        raise DetectError(f"{value!r} is written in an unknown way: {text!r}")

    def read_style(self) -> JsonStyle:
        """Returns the style in which lists and objects are spelled."""
        _, object = self._cut_value("{", OBJECT)
        _, array = self._cut_value("[", ARRAY)
        style = find_style((ARRAY, array), (OBJECT, object))
        if style is None:
            raise DetectError(f"lists and objects are written in an unknown way: {object!r}")
        return style


def _find_ending(text: str, endings: Iterable[str]) -> str | None:
    """Returns the first of these endings that the text has; None if it has none."""
    for ending in endings:
        if text.endswith(ending):
            return ending
    return None


def _name_kinds(between: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...], str]:
    """Returns the text after a key, the name of each type that follows, and the text after that
    name.

    Args:
        between: the text between the key and a value, for each type.
    """
    # DeepSeek V3.2 writes `string="true"` or `string="false"` after each key; most write nothing.
    texts = list(between.values())
    if len(set(texts)) == 1:
        return texts[0], (), ""
    after_key = common_prefix(*texts)
    after_kind = common_suffix(*(text.removeprefix(after_key) for text in texts))
    names: dict[str, str] = {}
    for kind, text in between.items():
        names[kind] = text[len(after_key) : len(text) - len(after_kind)]
    if names.get("integer") == names.get("number"):  # `find_kind` falls back to the latter
        names.pop("integer", None)
    usual = mode(name for kind, name in names.items() if kind != "string")
    kinds = [(kind, name) for kind, name in names.items() if name != usual]
    if names.get("integer") == usual and "number" in dict(kinds):
        kinds.append(("integer", usual))  # an integer is a number, too
    return after_key, (*kinds, ("", usual)), after_kind
