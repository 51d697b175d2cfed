"""Raw text between tags -> a typed value, led by the schema.

A schema that admits only strings takes the text as it is. Otherwise it is tried, in this order, as

1. JSON, or what the template writes in its place;
2. a string that an `enum` or `const` lists, letter by letter;
3. words and containers of Python (`None`, `TRUE`, `{'a': True}`);
4. any other string;
5. an integer that is written as a float without fraction (`2.0`, `1e3`).

The first candidate that fits the schema is the value, with the numbers that the schema means
(see `settling`). Nothing is ever changed to make it fit: no number is rounded or made of `5.`,
`+5` or `007`, no quotes or blanks are taken off a string, and JSON inside a JSON string stays a
string. What spells no value is refused: it may have been cut, or been meant as something else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from grammars.errors import CoerceError
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Json,
    Null,
    Number,
    Object,
    Schema,
    String,
    Unfit,
    escape,
    flatten,
)
from grammars.schema.numbers import settle
from grammars.spelling.reading import read_json, read_value
from grammars.spelling.styles import speaks_json
from grammars.wire.format import JsonStyle
from grammars.wire.nodes import PYTHON

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None, "none": None}
_MAX_DIGITS = 308
_KINDS: tuple[tuple[str, Callable[[Json], bool]], ...] = (
    ("null", lambda v: v is None),
    ("boolean", lambda v: isinstance(v, bool)),
    ("integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    ("number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    ("array", lambda v: isinstance(v, list)),
    ("object", lambda v: isinstance(v, dict)),
    ("string", lambda v: isinstance(v, str)),
)


def coerce(raw: str, schema: Schema, style: JsonStyle | None = None) -> Json:
    """The typed value that `raw` spells.

    Args:
        raw: the text between the tags.
        schema: what it has to fit.
        style: how values other than strings may be spelled beside JSON.

    Raises:
        CoerceError: no type that the schema admits can hold the text; `where` is the pointer of
            the first thing that does not fit.
    """
    nodes = list(flatten(schema.node, schema.definitions))
    admitted: set[str] = set()
    for node in nodes:
        admitted.update(_kinds(node))
    readings: Iterable[Json] = [raw]
    if admitted != {"string"}:
        is_listed = any(isinstance(node, Constant) and raw in node.values for node in nodes)
        readings = _read_all(raw, is_listed, style)
    tests = [fits for kind, fits in _KINDS if kind in admitted]
    candidates = [value for value in readings if any(fits(value) for fits in tests)]
    for candidate in candidates:
        if schema.admits(candidate):
            return settle(candidate, schema)
    raise _refusal(raw, candidates, schema, admitted)


def _read_all(raw: str, is_listed: bool, style: JsonStyle | None) -> Iterator[Json]:
    """All that the text can be read as; what is likeliest comes first."""
    spelled = list(_read_spelled(raw, style))
    yield from spelled
    if is_listed:
        yield raw
    yield from _read_loosely(raw)
    yield raw
    if spelled and isinstance(spelled[0], float):
        yield from _read_whole(raw)


@dataclass(frozen=True)
class TypedText:
    """Raw text whose spelling shows whether it is a string or JSON."""

    raw: str
    is_text: bool
    style: JsonStyle | None = None

    def __bool__(self) -> bool:
        return bool(self.raw)

    @property
    def value(self) -> Json:
        """The value; the raw text where it should be JSON but is not."""
        if self.is_text:
            return self.raw
        readings = list(read_words(self.raw, self.style))
        return readings[0] if readings else self.raw


Raw: TypeAlias = str | TypedText


def read_undeclared(raws: Mapping[str, Raw]) -> dict[str, Json]:
    """Returns the members of an object that has no schema."""
    return {key: raw.value if isinstance(raw, TypedText) else raw for key, raw in raws.items()}


def coerce_members(
    raws: Mapping[str, Raw], schema: Schema, style: JsonStyle | None = None
) -> tuple[dict[str, Json], tuple[Unfit, ...]]:
    """The typed members of an object, and why they do not fit; a raw string where no type does.

    Of several objects that the schema admits, it is read as the first that all of it fits.
    """
    options = zip(*(schema.find_members(key) for key in raws), strict=True) if raws else [()]
    readings = [_read_members(raws, members, schema, style) for members in options]
    return next((reading for reading in readings if not reading[1]), readings[0])


def _read_members(
    raws: Mapping[str, Raw],
    members: Sequence[Schema | None],
    schema: Schema,
    style: JsonStyle | None,
) -> tuple[dict[str, Json], tuple[Unfit, ...]]:
    values: dict[str, Json] = {}
    errors: list[Unfit] = []
    for (key, raw), member in zip(raws.items(), members, strict=True):
        values[key] = raw.value if isinstance(raw, TypedText) else raw
        if member is None:
            errors.append(Unfit(f"/{escape(key)}", f"{key!r} is not declared"))
            continue
        if isinstance(raw, TypedText):
            if member.admits(values[key]):
                values[key] = settle(values[key], member)
                continue
            raw = raw.raw  # models write the wrong type
        try:
            values[key] = coerce(raw, member, style)
        except CoerceError as e:
            errors.append(Unfit(f"/{escape(key)}{e.where or ''}", e.message))
    return values, tuple(errors) or schema.find_errors(values)


def _refusal(raw: str, candidates: list[Json], schema: Schema, admitted: set[str]) -> CoerceError:
    if candidates:
        unfit = schema.find_errors(candidates[0])[0]
        return CoerceError(unfit.message, where=unfit.pointer)
    kinds = " or ".join(sorted(admitted)) or "anything"
    shown = raw if len(raw) <= 60 else raw[:57] + "..."
    return CoerceError(f"{shown!r} is not {kinds}", where="")


def _kinds(node: Flat) -> Iterator[str]:
    """The names of the types that a node admits; a number admits integers too."""
    match node:
        case AnyValue():
            yield from ("null", "boolean", "integer", "number", "array", "object", "string")
        case Constant(values):
            for value in values:
                yield next(kind for kind, fits in _KINDS if fits(value))
        case Number(integer):
            yield from ("integer",) if integer else ("integer", "number")
        case String():
            yield "string"
        case Boolean():
            yield "boolean"
        case Null():
            yield "null"
        case Array():
            yield "array"
        case Object():
            yield "object"


def read_words(raw: str, style: JsonStyle | None = None) -> Iterator[Json]:
    """The values other than strings that the text can be read as; no containers of Python."""
    yield from _read_spelled(raw, style)
    yield from _read_word(raw)


def _read_spelled(raw: str, style: JsonStyle | None) -> Iterator[Json]:
    """The value that the text spells in JSON, or else in the template's style; no string."""
    try:
        value = _read(raw.strip(), style)
    except ValueError:
        return
    if not isinstance(value, str):
        yield value


def _read(text: str, style: JsonStyle | None) -> Json:
    try:
        return read_json(text)
    except ValueError:
        if style is None or speaks_json(style):
            raise
    return read_value(text, style)


def _read_word(raw: str) -> Iterator[Json]:
    text = raw.strip()
    if text.lower() in _WORDS and text not in ("true", "false", "null"):
        yield _WORDS[text.lower()]


def _read_loosely(raw: str) -> Iterator[Json]:
    """The value that the text spells in Python, or in other letters."""
    yield from _read_word(raw)
    if raw.lstrip()[:1] in ("[", "{"):
        try:
            yield read_value(raw.strip(), PYTHON)
        except ValueError:
            return


def _read_whole(raw: str) -> Iterator[int]:
    """The integer that is written as a float, to the last digit."""
    try:
        value = Decimal(raw.strip())
    except InvalidOperation:  # an exponent without measure
        return
    if value.adjusted() < _MAX_DIGITS and value == value.to_integral_value():
        yield int(value)
