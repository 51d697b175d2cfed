"""Infers keyword arguments, such as those of a call in Python, `name(key=value, ...)`, and of other
lists in which the end of each value is clear from the value itself. They are inferred from calls
with no, one and two arguments."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from grammars.errors import DetectError
from grammars.infer.arguments import ARRAY, OBJECT, WriteCall, WrittenOut, are_sorted
from grammars.infer.detection import NoFormat, attempt
from grammars.infer.probes import KEYS, VALUES
from grammars.infer.styles import find_style
from grammars.infer.text import common_prefix, common_suffix
from grammars.schema.json_values import Json
from grammars.spelling.styles import spell
from grammars.wire.format import JsonStyle, KeywordArguments

_KEY, _VALUE = re.escape(KEYS[0]), re.escape(VALUES[0])
_CALL = re.compile(
    rf"(?P<before>.*?){_KEY}(?P<after_key>.+?)(?P<quote>[\"']){_VALUE}(?P=quote)(?P<rest>.*)",
    re.DOTALL,
)
_AFTER_KEY = re.compile(r"\s*[=:]\s*")
_ITEM = re.compile(r"\s*[,;]\s*|\s*\n\s*")
PART_OF_VALUE = re.compile(r"[\w.+-]")  # of a number or a word, which could go on with it
_HARD = """it's "so" \\ `x`"""
_TEXTS = (VALUES[0], _HARD, "ü\n")
_WORDS: tuple[Json, ...] = (True, False, None)


def infer_keyword_arguments(
    write_call: WriteCall,
) -> WrittenOut[KeywordArguments] | NoFormat | None:
    """Infers the texts around keyword arguments. None if it is no such list; no format if it may be
    one whose values are spelled in an unknown way, or something else.

    Args:
        write_call: writes a call with given arguments.

    Raises:
        DetectError: it looks like Python, but its values are spelled in an unknown way.
    """
    one = _CALL.fullmatch(write_call({KEYS[0]: VALUES[0]}))
    if one is None:
        return None
    before, after_key = one["before"], one["after_key"]
    quote, rest = one["quote"], one["rest"]
    two = write_call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
    first, second = (f"{after_key}{quote}{value}{quote}" for value in VALUES[:2])
    item = two.removeprefix(before + KEYS[0] + first).partition(KEYS[1])[0]
    is_list = two == before + KEYS[0] + first + item + KEYS[1] + second + rest
    if not is_list or not item or PART_OF_VALUE.match(item) or PART_OF_VALUE.match(rest):
        return None

    def spell_argument(value: Json) -> str:
        text = write_call({KEYS[0]: value})
        start = before + KEYS[0] + after_key
        if not text.startswith(start) or not text.endswith(rest):
            raise DetectError(f"the argument {value!r} is closed in another way: {text!r}")
        return text[len(start) : len(text) - len(rest)]

    is_usual = bool(_ITEM.fullmatch(item) and _AFTER_KEY.fullmatch(after_key))
    spelled = attempt(partial(_read_values, spell_argument))
    if isinstance(spelled, NoFormat):
        if is_usual:
            raise DetectError(spelled.message)
        return spelled
    is_raw = spell_argument(_HARD) == quote + _HARD + quote
    if is_raw and not is_usual:
        return None  # such a quote is only a part of the text around raw text
    empty = write_call({})
    after = common_suffix(rest, empty)
    opener = common_prefix(before, empty.removesuffix(after))
    hole = KeywordArguments(
        item=item,
        after_key=after_key,
        style=spelled.style,
        objects=spelled.objects,
        strings=None if is_raw else spelled.strings,
        quote=quote if is_raw else "",
        first=before.removeprefix(opener),
        last=rest.removesuffix(after),
        empty=empty[len(opener) : len(empty) - len(after)],
        sorted_keys=are_sorted(write_call),
    )
    return WrittenOut(opener, hole, after)


@dataclass(frozen=True)
class _Styles:
    """The styles of values; those of objects and strings, if they differ."""

    style: JsonStyle
    objects: JsonStyle
    strings: JsonStyle | None


def _read_values(spell_argument: Callable[[Json], str]) -> _Styles:
    words = [(word, spell_argument(word)) for word in _WORDS]
    style = _require_style((ARRAY, spell_argument(ARRAY)), *words)
    objects = _require_style((OBJECT, spell_argument(OBJECT)))
    texts = [(text, spell_argument(text)) for text in _TEXTS]
    strings = find_style(*texts)
    is_alike = all(spell(text, style) == spelled for text, spelled in texts)
    return _Styles(style, objects, None if is_alike else strings)


def _require_style(*pairs: tuple[Json, str]) -> JsonStyle:
    style = find_style(*pairs)
    if style is None:
        raise DetectError(f"values are written in an unknown way: {pairs[0][1]!r}")
    return style
