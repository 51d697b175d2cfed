"""Converts raw text between tags to a typed value, guided by the schema.

If the schema allows only strings, the text is the value. Otherwise the text is read as each of
these, in this order:

1. JSON, or the template's own words for it;
2. a string that an `enum` or `const` lists, exactly;
3. words and containers of Python (`None`, `TRUE`, `{'a': True}`);
4. any other string;
5. an integer written as a float without a fraction (`2.0`, `1e3`).

The first candidate that fits the schema is the value, with numbers as the schema means them (see
`grammars.schema.numbers`). If none does, strings inside lists and objects are read in this way,
too, where the schema allows no string: `["10", "20"]` for integers. Otherwise, text is never
changed to make it fit: no number is rounded, `5.`, `+5` and `007` are not numbers, strings keep
their quotes and spaces, and JSON inside a JSON string stays a string. Text that fits no candidate
is refused, since it may be cut or mean something else.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import TypeAlias

from grammars.errors import CoerceError
from grammars.schema.json_values import Json
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Constant,
    Flat,
    Node,
    Object,
    Schema,
    Violation,
    escape,
    flatten,
)
from grammars.schema.numbers import normalise_numbers
from grammars.schema.subschemas import is_list, is_object
from grammars.spelling.styles import speaks_json
from grammars.spelling.types import has_type, list_types
from grammars.spelling.value_reader import read_value
from grammars.wire.format import JsonStyle
from grammars.wire.nodes import PYTHON

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None, "none": None}
_MAX_DIGITS = 308


def coerce(raw: str, schema: Schema, style: JsonStyle | None = None) -> Json:
    """Returns the typed value of a raw text; `style` is that of values other than strings, beside
    JSON. Raises CoerceError if it fits no type; `where` points to the first part that does not
    fit."""
    candidates = _list_candidates(raw, schema, style)
    read_inside = (_read_texts(value, schema.node, schema.definitions) for value in candidates)
    for candidate in chain(candidates, read_inside):
        settled = normalise_numbers(candidate, schema)  # draft 4 takes 2.0 for no integer
        if schema.admits(settled):
            return settled
    raise _refusal(raw, candidates, schema)


def _list_candidates(raw: str, schema: Schema, style: JsonStyle | None) -> list[Json]:
    """Returns the values of allowed types that the text can be read as, the likeliest first."""
    nodes = list(flatten(schema.node, schema.definitions))
    admitted = _list_types(nodes)
    readings: Iterable[Json] = [raw]
    if admitted != {"string"}:
        is_listed = any(isinstance(node, Constant) and raw in node.values for node in nodes)
        readings = _read_all(raw, is_listed, style)
    return [value for value in readings if has_type(value, admitted)]


def _read_texts(value: Json, node: Node, definitions: Mapping[str, Node]) -> Json:
    """Returns a list or object with each string in it that the schema allows no string for read as
    a number, a boolean or null. The value is unchanged where the schema has alternatives."""
    branches = list(flatten(node, definitions))
    arrays = [branch for branch in branches if isinstance(branch, Array)]
    objects = [branch for branch in branches if isinstance(branch, Object)]
    if isinstance(value, str):
        return _read_scalar(value, _list_types(branches))
    if is_list(value) and len(arrays) == 1:
        items: list[Json] = []
        for i, item in enumerate(value):
            items.append(_read_texts(item, arrays[0].find(i) or AnyValue(), definitions))
        return items
    if is_object(value) and len(objects) == 1:
        members: dict[str, Json] = {}
        for key, member in value.items():
            declared = objects[0].find(key)
            inner = AnyValue() if declared is None else declared.node
            members[key] = _read_texts(member, inner, definitions)
        return members
    return value


def _read_scalar(text: str, kinds: Container[str]) -> Json:
    """Returns the value of a text that is no string; the text if there is none."""
    if "string" in kinds:
        return text
    for value in _read_all(text, is_listed=False, style=None):
        if not isinstance(value, list | dict) and has_type(value, kinds):
            return value
    return text


def _read_all(raw: str, is_listed: bool, style: JsonStyle | None) -> Iterator[Json]:
    """Yields all values that the text can be read as, the likeliest first."""
    spelled = list(_read_spelled(raw, style))
    yield from spelled
    if is_listed:
        yield raw
    if not spelled:  # else this would be the same value
        yield from _read_loosely(raw)
    yield raw
    if spelled and isinstance(spelled[0], float):
        yield from _read_whole(raw)


@dataclass(frozen=True)
class TypedText:
    """Raw text that shows by its spelling whether it is a string or JSON."""

    raw: str
    is_text: bool
    style: JsonStyle | None = None

    def __bool__(self) -> bool:
        return bool(self.raw)

    @property
    def value(self) -> Json:
        """The value; the raw text if it should be JSON but is not."""
        if self.is_text:
            return self.raw
        readings = list(read_words(self.raw, self.style))
        return readings[0] if readings else self.raw


Raw: TypeAlias = str | TypedText


def read_undeclared(raws: Mapping[str, Raw]) -> dict[str, Json]:
    """Returns the members of an object that has no schema."""
    members: dict[str, Json] = {}
    for key, raw in raws.items():
        members[key] = raw.value if isinstance(raw, TypedText) else raw
    return members


def coerce_members(
    raws: Mapping[str, Raw], schema: Schema, style: JsonStyle | None = None
) -> tuple[dict[str, Json], tuple[Violation, ...]]:
    """Converts the members of an object; also returns why they do not fit. A raw text that fits no
    type stays a string; of a list or object whose parts do not fit, these stay as they are. If the
    schema allows several objects, the members are read as the first one that all of them fit."""
    options = zip(*(schema.find_members(key) for key in raws), strict=True) if raws else [()]
    readings = [_read_members(raws, members, schema, style) for members in options]
    return next((reading for reading in readings if not reading[1]), readings[0])


def _read_members(
    raws: Mapping[str, Raw],
    members: Sequence[Schema | None],
    schema: Schema,
    style: JsonStyle | None,
) -> tuple[dict[str, Json], tuple[Violation, ...]]:
    values: dict[str, Json] = {}
    errors: list[Violation] = []
    for (key, raw), member in zip(raws.items(), members, strict=True):
        values[key] = raw.value if isinstance(raw, TypedText) else raw
        if member is None:
            errors.append(Violation(f"/{escape(key)}", f"{key!r} is not declared"))
            continue
        if isinstance(raw, TypedText):
            settled = normalise_numbers(values[key], member)
            if member.admits(settled):
                values[key] = settled
                continue
            raw = raw.raw  # models may mark the wrong type
        try:
            values[key] = coerce(raw, member, style)
        except CoerceError as e:
            if e.where:  # it leads into a list or object
                values[key] = _list_candidates(raw, member, style)[0]
            errors.append(Violation(f"/{escape(key)}{e.where or ''}", e.message))
    return values, tuple(errors) or schema.find_errors(values)


def _refusal(raw: str, candidates: list[Json], schema: Schema) -> CoerceError:
    if candidates:
        unfit = schema.find_errors(candidates[0])[0]
        return CoerceError(unfit.message, where=unfit.pointer)
    admitted = _list_types(flatten(schema.node, schema.definitions))
    kinds = " or ".join(sorted(admitted)) or "anything"
    shown = raw if len(raw) <= 60 else raw[:57] + "..."
    return CoerceError(f"{shown!r} is not {kinds}", where="")


def _list_types(nodes: Iterable[Flat]) -> set[str]:
    return {name for node in nodes for name in list_types(node)}


def read_words(raw: str, style: JsonStyle | None = None) -> Iterator[Json]:
    """Yields the values other than strings and Python containers that the text can be read as."""
    yield from _read_spelled(raw, style)
    yield from _read_word(raw)


def _read_spelled(raw: str, style: JsonStyle | None) -> Iterator[Json]:
    """Yields the value of the text in JSON, or else in the template's style; not a string."""
    styles = [JsonStyle()]
    if style is not None and not speaks_json(style):
        styles.append(style)
    for one in styles:
        with suppress(ValueError):
            value = read_value(raw.strip(), one)
            if not isinstance(value, str):
                yield value
            return


def _read_word(raw: str) -> Iterator[Json]:
    text = raw.strip()
    if text.lower() in _WORDS and text not in ("true", "false", "null"):
        yield _WORDS[text.lower()]


def _read_loosely(raw: str) -> Iterator[Json]:
    """Yields the value of the text in Python, or in other letter case."""
    yield from _read_word(raw)
    if raw.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):
            yield read_value(raw.strip(), PYTHON)


def _read_whole(raw: str) -> Iterator[int]:
    """Yields the exact integer of a text that is written as a float."""
    try:
        value = Decimal(raw.strip())
    except InvalidOperation:  # the exponent is too large
        return
    if value.adjusted() < _MAX_DIGITS and value == value.to_integral_value():
        yield int(value)
