"""How a style writes values: the template's own spelling, and further spellings that are accepted.

A string is JSON's, Python's (either kind of quote, escapes of both languages), or raw text between
quotes that it cannot contain.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object
from grammars.wire.format import JsonStyle, KeywordArguments, TaggedArguments

EXACT_LEVELS = 6
"""For this many levels below the value, white space must match the template's indentation. Deeper,
any white space is allowed, since a context-free grammar cannot count levels."""
_MAX_PLAIN_LENGTH = 24
_EXPONENT = re.compile("e([-+])0")
"""The exponent of a double as Python writes it (`1e-07`); JavaScript writes no leading zero."""
_NUMBERED = re.compile(r"\\\\|\\u[0-9a-f]{4}")
_PLAIN = re.compile(r"[ !#-%(-*,-.0-;=?-\[\]-_a-~]*")
"""Strings that all encoders write in the same way: printable ASCII without characters that JSON or
HTML escapes."""
_MISREAD = re.compile("[\"'<>&+`\u2028\u2029]")
_BEYOND_ASCII = "\x7f-\U0010ffff"
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
NEVER_BARE = r"\x00-\x1f\x7f-\xa0:,{}\[\]"
"""The characters, in a set of a regular expression, that no key without quotes may contain."""
_NOT_BARE = re.compile(rf"[{NEVER_BARE}]|^\s|\s$|^$")


@dataclass(frozen=True)
class Breaks:
    """The texts after the opening bracket of a list or object, between two items, and before the
    closing bracket. If `loose`, any white space may follow or precede them."""

    open: str
    item: str
    close: str
    loose: bool = False


def speaks_json(style: JsonStyle) -> bool:
    words = style.true + style.false + style.null
    return has_json_strings(style) and not style.bare_keys and set(words) <= set(_WORDS)


def has_json_strings(style: JsonStyle) -> bool:
    return style.escapes and style.quotes == ('"',)


def deepen(style: JsonStyle, level: int) -> int:
    """Returns the level inside a list or object of this level. Levels without indentation, and
    levels deeper than `EXACT_LEVELS`, are all the same."""
    return min(level + 1, style.level + EXACT_LEVELS + 1) if style.indent else level


def find_breaks(style: JsonStyle, level: int) -> Breaks:
    """Returns the texts between parts on this level. As in `json.dumps`, no line ends with a
    space."""
    if not style.indent:
        return Breaks("", style.item, "", loose=style.loose)
    item = style.item.rstrip()
    if level > style.level + EXACT_LEVELS:
        return Breaks("", item, "", loose=True)
    inner, outer = ("\n" + " " * (style.indent * n) for n in (level + 1, level))
    return Breaks(inner, item + inner, outer)


def spell(value: Json, style: JsonStyle) -> str:
    """Writes a value as the template does, even if a raw string contains its quote."""
    if not speaks_json(style) or style.sorted_keys:
        return _write(value, style, style.level)
    if not style.indent:
        separators = (style.item, style.key)
        return json.dumps(value, ensure_ascii=style.ascii, separators=separators)
    separators = (style.item.rstrip(), style.key)
    text = json.dumps(value, ensure_ascii=style.ascii, separators=separators, indent=style.indent)
    return text.replace("\n", "\n" + " " * (style.indent * style.level))


def _write(value: Json, style: JsonStyle, level: int) -> str:
    breaks, inner = find_breaks(style, level), level + 1
    match value:
        case str():
            return spell_string(value, style)
        case list():
            items = [_write(item, style, inner) for item in cast(list[Json], value)]
        case dict():
            members = cast(dict[str, Json], value)
            items: list[str] = []
            for key in sort_keys(members, style):
                spelled = key if style.bare_keys else spell_string(key, style)
                items.append(spelled + style.key + _write(members[key], style, inner))
        case _:
            return spell_scalar(value, style)[0]
    opener, closer = "[]" if isinstance(value, list) else "{}"
    if not items:
        return opener + closer
    return opener + breaks.open + breaks.item.join(items) + breaks.close + closer


Sorting = JsonStyle | TaggedArguments | KeywordArguments
"""A style or hole that says whether keys are sorted."""


def sort_keys(keys: Iterable[str], style: Sorting) -> list[str]:
    """Returns the keys in the order in which the style writes them."""
    return sorted(keys, key=str.lower) if style.sorted_keys else list(keys)


def spell_string(text: str, style: JsonStyle) -> str:
    if has_json_strings(style):
        return json.dumps(text, ensure_ascii=style.ascii)
    if not style.escapes:
        return style.quotes[0] + text + style.quotes[0]
    own, *others = style.quotes
    quote = next((q for q in others if own in text and q not in text), own)
    return _quote_in_python(text, quote)


def spell_scalar(value: Json, style: JsonStyle) -> tuple[str, ...]:
    """Returns all accepted spellings of a scalar, the template's own first."""
    match value:
        case True:
            return style.true
        case False:
            return style.false
        case None:
            return style.null
        case str():
            return _spell_strings(value, style)
        case _:
            return spell_number(value)


def spell_number(value: float) -> tuple[str, ...]:
    """Returns the accepted spellings of a number in an enum. All of them are read as the same
    number, and as an integer only if the schema lists one."""
    own = json.dumps(value)
    words = [own, _EXPONENT.sub(r"e\1", own), own.replace("e+", "e")]
    plain = format(Decimal(own), "f")
    if "." in plain and len(plain) <= _MAX_PLAIN_LENGTH:
        words.append(plain)
    return tuple(dict.fromkeys(words))


def _spell_strings(text: str, style: JsonStyle) -> tuple[str, ...]:
    if has_json_strings(style) and _PLAIN.fullmatch(text):
        return (f'"{text}"',)
    own = spell_string(text, style)
    if has_json_strings(style):
        return tuple(dict.fromkeys([own, *_escape_all(text)]))
    if not style.escapes:
        return (own,)
    quoted = [_quote_in_python(text, quote) for quote in style.quotes]
    as_json = [json.dumps(text, ensure_ascii=False)] if '"' in style.quotes else []
    return tuple(dict.fromkeys([own, *quoted, *as_json]))


def _escape_all(text: str) -> Iterator[str]:
    """Yields the spellings that JSON encoders use: characters beyond ASCII directly or as numbers,
    slashes escaped or not, characters special in HTML directly or as numbers."""
    for slash in ("/", "\\/") if "/" in text else ("/",):
        for is_ascii in (False, True):
            spelled = json.dumps(text, ensure_ascii=is_ascii).replace("/", slash)
            yield spelled
            yield _NUMBERED.sub(_raise_digits, spelled)
    if _MISREAD.search(text):
        yield _number(text, "<>&\u2028\u2029")  # Go
        yield _number(text, f"<>&'{_BEYOND_ASCII}")  # jinja's `tojson`
        yield _NUMBERED.sub(_raise_digits, _number(text, f"\"'<>&+`{_BEYOND_ASCII}"))  # C#


def _number(text: str, numbered: str) -> str:
    """Returns the JSON string with the characters of a regular expression's set as numeric
    escapes."""
    parts: list[str] = []
    for part in re.split(f"([{numbered}])", text):
        if re.fullmatch(f"[{numbered}]", part):
            units = part.encode("utf-16-be").hex()
            parts += [f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)]
        else:
            parts.append(json.dumps(part, ensure_ascii=False)[1:-1])
    return f'"{"".join(parts)}"'


def _raise_digits(match: re.Match[str]) -> str:
    """Returns a numeric escape with its digits in upper case."""
    return match[0][:2] + match[0][2:].upper()


def spell_keys(key: str, style: JsonStyle) -> tuple[str, ...]:
    """Returns all accepted spellings of a key, the template's own first."""
    return (key,) if style.bare_keys else _spell_strings(key, style)


def _quote_in_python(text: str, quote: str) -> str:
    """Returns the text as Python's `repr` writes it, in this kind of quote."""
    body = repr('"' + text)[2:-1]  # the leading quote makes `repr` choose the other kind
    if quote == '"':
        swaps = {"\\'": "'", '"': '\\"'}
        body = re.sub(r"\\.|\"", lambda match: swaps.get(match[0], match[0]), body)
    return quote + body + quote


def is_writable(text: str, style: JsonStyle) -> bool:
    """Returns whether the style can write this string. A raw string cannot contain its quote, or
    end with the beginning of the quote if the end would then be found too early."""
    if style.escapes:
        return True
    quote = style.quotes[0]
    return (text + quote).find(quote) == len(text)


def is_bare(key: str, style: JsonStyle) -> bool:
    return not _NOT_BARE.search(key) and style.quotes[0] not in key


def holds(value: Json, style: JsonStyle) -> bool:
    """Returns whether the style can write this value so that it is read back unchanged."""
    for text, is_key in list_texts(value):
        fits = is_bare if is_key and style.bare_keys else is_writable
        if not fits(text, style):
            return False
    return True


def list_texts(value: Json) -> Iterator[tuple[str, bool]]:
    """Yields the strings and keys in a value, each with whether it is a key."""
    queue = [value]
    while queue:
        part = queue.pop()
        if isinstance(part, str):
            yield part, False
        elif is_list(part):
            queue += part
        elif is_object(part):
            yield from ((key, True) for key in part)
            queue += part.values()
