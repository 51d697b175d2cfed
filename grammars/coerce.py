"""Raw text between tags -> a typed value, led by the schema.

A schema that admits only strings takes the text as it is. Otherwise the types that it admits are
tried in a fixed order, JSON spelling before the template's own words, strings last; the first
candidate that fits the schema is the value. Nothing is ever changed to make it fit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grammars.errors import CoerceError
from grammars.reading import read_json, read_value
from grammars.schema import (
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
from grammars.spelling import speaks_json
from grammars.wire import JsonStyle

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None, "none": None}
_KINDS: tuple[tuple[str, Callable[[Json], bool]], ...] = (
    ("null", lambda v: v is None),
    ("boolean", lambda v: isinstance(v, bool)),
    ("integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    ("number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    ("array", lambda v: isinstance(v, list)),
    ("object", lambda v: isinstance(v, dict)),
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
    admitted = {kind for node in flatten(schema.node, schema.definitions) for kind in _kinds(node)}
    candidates: list[Json] = []
    if admitted != {"string"}:
        readings = list(read_words(raw, style))
        for kind, fits in _KINDS:
            if kind in admitted:
                candidates += [v for v in readings if fits(v)]
    if "string" in admitted:
        candidates.append(raw)
    for candidate in candidates:
        if schema.admits(candidate):
            return candidate
    raise _refusal(raw, candidates, schema, admitted)


@dataclass(frozen=True)
class Told:
    """Raw text of which it is told whether it is text or JSON."""

    raw: str
    is_text: bool
    style: JsonStyle | None = None

    def __bool__(self) -> bool:
        return bool(self.raw)

    @property
    def value(self) -> Json:
        """What it says it is; the text itself, if it is not that."""
        if self.is_text:
            return self.raw
        readings = list(read_words(self.raw, self.style))
        return readings[0] if readings else self.raw


Raw: TypeAlias = str | Told


def untell(raws: Mapping[str, Raw]) -> dict[str, Json]:
    """The members of an object of which no schema is known."""
    return {key: raw.value if isinstance(raw, Told) else raw for key, raw in raws.items()}


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
        values[key] = raw.value if isinstance(raw, Told) else raw
        if member is None:
            errors.append(Unfit(f"/{escape(key)}", f"{key!r} is not declared"))
            continue
        if isinstance(raw, Told):
            if member.admits(values[key]):
                continue
            raw = raw.raw  # models tell the wrong type
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
                yield next((kind for kind, fits in _KINDS if fits(value)), "string")
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
    """The values other than strings that the text can be read as."""
    text = raw.strip()
    try:
        value = _read(text, style)
    except ValueError:
        pass
    else:
        if not isinstance(value, str):
            yield value
    if text.lower() in _WORDS and text not in ("true", "false", "null"):
        yield _WORDS[text.lower()]


def _read(text: str, style: JsonStyle | None) -> Json:
    try:
        return read_json(text)
    except ValueError:
        if style is None or speaks_json(style):
            raise
    return read_value(text, style)
