"""Finds how a template spells values, by spelling them in every style; and how it writes arguments
one by one, between tags or as in Python, from calls with no, one and two arguments."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import mode
from typing import Generic, TypeVar

from grammars.errors import DetectError
from grammars.infer.detection import NoFormat, attempt
from grammars.infer.probes import KEYS, VALUES
from grammars.infer.text import TAG, common_prefix, common_suffix, drop_numbers, find_tag
from grammars.schema.json_values import Json
from grammars.spelling.styles import spell
from grammars.wire.format import PYTHON, JsonStyle, KeywordArguments, TaggedArguments, TextWrapper

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


def _styles() -> Iterator[JsonStyle]:
    """Yields the possible styles, the usual ones first."""
    for is_sorted in (False, True):
        for ascii in (False, True):
            for key in (": ", ":"):
                for item in (", ", ","):
                    yield JsonStyle(item=item, key=key, ascii=ascii, sorted_keys=is_sorted)
        yield replace(PYTHON, sorted_keys=is_sorted)
        for ascii in (False, True):  # words as in Python, which a macro writes, and strings of JSON
            quotes = JsonStyle().quotes
            yield replace(PYTHON, quotes=quotes, ascii=ascii, sorted_keys=is_sorted)
        for ascii in (False, True):  # JavaScript writes keys without quotes
            yield JsonStyle(ascii=ascii, bare_keys=True, sorted_keys=is_sorted)
    # Command R+ writes every member of a call on a line of its own.
    for ascii in (False, True):
        for indent in (4, 2, 1, 3, 8):
            for level in range(4):
                yield JsonStyle(ascii=ascii, indent=indent, level=level)


_STYLES = tuple(_styles())


def _raw_styles(quote: str) -> Iterator[JsonStyle]:
    """Yields styles whose strings are raw text between special marks. Gemma 4 writes `<|"|>`."""
    raw = JsonStyle(quotes=(quote,), escapes=False)
    raw_in_python = replace(raw, true=PYTHON.true, false=PYTHON.false)
    for words, null in product((raw, raw_in_python), (raw.null, PYTHON.null)):
        for key, item in product((": ", ":"), (", ", ",")):
            for is_bare, is_sorted in product((True, False), (False, True)):
                own = replace(words, null=null, key=key, item=item)
                yield replace(own, bare_keys=is_bare, sorted_keys=is_sorted)


def find_style(*pairs: tuple[Json, str], quote: str = "") -> JsonStyle | None:
    """Returns the first known style that spells every value as given. `quote`: the text around a
    string; "": what JSON or Python write."""
    known: Iterable[JsonStyle] = _STYLES
    if quote not in ("", '"', "'"):
        known = _raw_styles(quote)
    for style in known:
        if all(spell(value, style) == text for value, text in pairs):
            return style
    return None


def require_style(*pairs: tuple[Json, str], quote: str = "") -> JsonStyle:
    """As `find_style`, but raises a `DetectError` if there is no such style."""
    style = find_style(*pairs, quote=quote)
    if style is None:
        raise DetectError(f"values are written in an unknown way: {pairs[0][1]!r}")
    return style


def decode_string(string: str) -> str:
    """Returns the text of a JSON string that is spelled as most encoders do. Raises a `DetectError`
    if it is not a string, or is spelled in another way."""
    try:
        text = json.loads(string)
    except ValueError:
        text = None
    if not isinstance(text, str) or json.dumps(text, ensure_ascii=False) != string:
        raise DetectError(f"arguments are no JSON in a JSON string: {string!r}")
    return text


@dataclass(frozen=True)
class WrittenOut(Generic[H]):
    """Arguments that are written one by one, with the text before them and the rest of the call."""

    before: str
    hole: H
    rest: str


def are_sorted(write_call: WriteCall) -> bool:
    text = write_call({KEYS[1]: VALUES[1], KEYS[0]: VALUES[0]})
    return text.find(VALUES[0]) < text.find(VALUES[1])


def infer_tagged(write_call: WriteCall, suffix: str) -> WrittenOut[TaggedArguments]:
    """Infers the tags around arguments; raises a `DetectError` if there are none. `suffix`: the
    text after the last value, to the end of the call."""
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
    head, opener, close = _read_tags(write_call, suffix)
    end, rest = suffix[len(close) :], ""
    if tag := find_tag(end):
        end, rest = end[: tag.end()], end[tag.end() :]
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
    text = write_call({})
    if not text.startswith(before) or not text.endswith(rest):
        raise DetectError(f"a call without arguments is written in another way: {text!r}")
    empty = text[len(before) : len(text) - len(rest)]
    if empty != end:  # DeepSeek V4 adds a line break
        hole = replace(hole, empty=empty)
    return WrittenOut(before, hole, rest)


def _read_tags(write_call: WriteCall, suffix: str) -> tuple[str, str, str]:
    """Returns the text in front of the first key, the part of it that opens an argument, and its
    closer."""
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
        found = re.match(rf"{TAG}|\S+(?=\s)", common_prefix(middle, suffix))
        close = found[0] if found else ""
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
        if len(common_suffix(*map(drop_numbers, (head, middle)))) > len(drop_numbers(shared)):
            raise DetectError(f"arguments are numbered: {two!r}")
        raise DetectError(f"nothing tells where the value of an argument ends: {one!r}")
    return head, opener, close


@dataclass(frozen=True)
class _Values:
    """Calls with one argument. `head`: the text before the value, its key included; `suffix`: after
    it."""

    write_call: WriteCall
    head: str
    suffix: str

    def find(self, value: Json) -> str | None:
        """Returns the text from the key to the end of the value; None if the argument is left
        out."""
        text = self.write_call({KEYS[0]: value})
        if not text.startswith(self.head):
            return None
        if not text.endswith(self.suffix):
            raise DetectError(f"the argument {value!r} is closed in another way: {text!r}")
        return text[len(self.head) : len(text) - len(self.suffix)]

    def spell(self, value: Json) -> str:
        """As `find`, for an argument that must not be left out."""
        text = self.find(value)
        if text is None:
            call = self.write_call({KEYS[0]: value})
            raise DetectError(f"the text in front of an argument depends on its value: {call!r}")
        return text

    def spell_word(self, word: str) -> tuple[str, ...]:
        """Returns the spellings of true, false or null, the template's own first."""
        value, spellings = _WORDS[word]
        own = _find_ending(self.find(value) or word, spellings)
        return tuple(dict.fromkeys([own, word]))

    def read_kinds(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for kind, (value, spellings) in _SCALARS.items():
            text = self.find(value)
            if text is not None:
                found[kind] = text.removesuffix(_find_ending(text, spellings))
        before_object, _ = self.cut_value(OBJECT)
        found["array"], _ = self.cut_value(ARRAY)
        found["object"] = before_object
        return found

    def cut_value(self, value: Json) -> tuple[str, str]:
        """Returns the text between the key and a list or an object, and the spelling of that;
        brackets of the former may stand in front of the value: `{key}{{"a": 1}}`."""
        text = self.spell(value)
        for place in re.finditer(r"[\[{]", text):
            spelled = text[place.start() :]
            if find_style((value, spelled)) is not None:
                return text[: place.start()], spelled
        raise DetectError(f"{value!r} is written in an unknown way: {text!r}")

    def read_style(self) -> JsonStyle:
        return require_style(*((value, self.cut_value(value)[1]) for value in (ARRAY, OBJECT)))


def _find_ending(text: str, endings: Iterable[str]) -> str:
    for ending in endings:
        if text.endswith(ending):
            return ending
    raise DetectError(f"a value is written in an unknown way: {text!r}")


def _name_kinds(between: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...], str]:
    """Returns the text after a key, the name of each type that follows, and the text after that
    name. `between`: the text between the key and a value, for each type."""
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


def infer_keyword_arguments(
    write_call: WriteCall,
) -> WrittenOut[KeywordArguments] | NoFormat | None:
    """Infers the texts around keyword arguments: those of a call in Python, `name(key=value, ...)`,
    and of other lists in which the end of each value is clear from the value itself. None if it is
    no such list; no format if it may be one whose values are spelled in an unknown way; a
    `DetectError` if that looks like Python."""
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
    values = _Values(write_call, before + KEYS[0] + after_key, rest)
    is_usual = bool(_ITEM.fullmatch(item) and _AFTER_KEY.fullmatch(after_key))
    styles = attempt(partial(_read_styles, values))
    if isinstance(styles, NoFormat):
        if is_usual:
            raise DetectError(styles.message)
        return styles
    style, objects, strings = styles
    is_raw = values.spell(_HARD) == quote + _HARD + quote
    if is_raw and not is_usual:
        return None  # such a quote is only a part of the text around raw text
    empty = write_call({})
    after = common_suffix(rest, empty)
    opener = common_prefix(before, empty.removesuffix(after))
    hole = KeywordArguments(
        item=item,
        after_key=after_key,
        style=style,
        objects=objects,
        strings=None if is_raw else strings,
        quote=quote if is_raw else "",
        first=before.removeprefix(opener),
        last=rest.removesuffix(after),
        empty=empty[len(opener) : len(empty) - len(after)],
        sorted_keys=are_sorted(write_call),
    )
    return WrittenOut(opener, hole, after)


def _read_styles(values: _Values) -> tuple[JsonStyle, JsonStyle, JsonStyle | None]:
    literals = [(literal, values.spell(literal)) for literal in (ARRAY, True, False, None)]
    style = require_style(*literals)
    objects = require_style((OBJECT, values.spell(OBJECT)))
    texts = [(text, values.spell(text)) for text in _TEXTS]
    is_alike = all(spell(text, style) == spelled for text, spelled in texts)
    return style, objects, None if is_alike else find_style(*texts)
