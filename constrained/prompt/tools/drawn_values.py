"""Tries whether a type takes what the mask of its schema writes, with a few values: when a tool is
made, not when a model has written a call in vain."""

import reprlib
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args
from weakref import WeakSet

from pydantic import ValidationError
from pydantic_core.core_schema import ErrorType

from constrained.errors import RefusedValueWarning
from constrained.prompt.tools.python_types import TypeReader
from grammars.errors import SchemaError, ToolError
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.corner_values import draw_corner_values
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.pointers import point_to

_MAX_STEPS = 20_000
_MAX_REASON = 160  # characters
_OWN_TYPES = frozenset(get_args(ErrorType))
_CODE = frozenset(["value_error", "assertion_error"])
"""Errors that validators raise which users have written."""
_LIMITS = ("greater_", "less_", "multiple", "too_", "_past", "_future", "decimal_", "pattern")
"""Parts of the names of errors for a value that has the right form, but is out of range: a model
that reads the description may well write another one."""
_tried: WeakSet[object] = WeakSet()


@dataclass(frozen=True)
class _Refusal:
    place: tuple[int | str, ...]
    kind: str
    reason: str

    @property
    def is_of_form(self) -> bool:
        if self.kind not in _OWN_TYPES or self.kind in _CODE:
            return False
        return not any(part in self.kind for part in _LIMITS)


def try_drawn_values(schema: Json, reader: TypeReader, *, of: str, owner: object) -> None:
    """Converts a few values of a schema once for each owner, a function or class. ToolError: no
    value of a parameter or field could be converted, because of its form."""
    with suppress(TypeError):  # it has no hash, or no weak references
        if owner in _tried:
            return
    outcomes = list(_convert(schema, reader))
    refused: dict[tuple[int | str, ...], tuple[Json, _Refusal]] = {}
    for value, refusals in outcomes:
        for refusal in refusals:
            refused.setdefault(refusal.place[:1], (value, refusal))
    for key in refused:
        _check_form(key, outcomes, of)
    if refused:
        _warn([_describe(*found) for found in refused.values()], of)
    with suppress(TypeError):
        _tried.add(owner)


def _convert(schema: Json, reader: TypeReader) -> Iterator[tuple[Json, list[_Refusal]]]:
    try:
        lowered = lower(schema, only_object=False)
        with limit_steps(_MAX_STEPS):
            values = draw_corner_values(lowered)
    except (SchemaError, StepsError, RecursionError):  # whoever uses the schema says so
        return
    for value in values:
        refusals = list(_find_refusals(reader, value))
        if not refusals or lowered.admits(value):
            yield value, refusals


def _find_refusals(reader: TypeReader, value: Json) -> Iterator[_Refusal]:
    try:
        reader.read(value)
    except ValidationError as e:
        for error in e.errors(include_url=False, include_context=False):
            yield _Refusal(error["loc"], error["type"], error["msg"])
    except Exception as e:  # of a validator that the user has written
        yield _Refusal((), "value_error", f"{type(e).__name__}: {e}")


def _check_form(
    key: tuple[int | str, ...], outcomes: Sequence[tuple[Json, Sequence[_Refusal]]], of: str
) -> None:
    """Raises ToolError if all values were refused in the same place, by their form."""
    common: dict[tuple[int | str, ...], _Refusal] | None = None
    example: Json = None
    for value, refusals in outcomes:
        if key and not (isinstance(value, dict) and key[0] in value):
            continue
        found = {one.place: one for one in refusals if one.place[:1] == key and one.is_of_form}
        if common is None:
            common, example = found, value
        common = {place: one for place, one in common.items() if place in found}
    if not common:
        return
    first = next(iter(common.values()))
    raise ToolError(
        f"{of}: {_describe(example, first)}",
        hint="No value that its JSON Schema allows was taken: use another type, or describe it "
        "(WithJsonSchema of pydantic)",
    )


def _describe(value: Json, refusal: _Refusal) -> str:
    tried = value
    for step in refusal.place:
        with suppress(LookupError, TypeError):  # pydantic also names the branches of unions
            tried = tried[step]
    if refusal.place[-1:] == ("[key]",):
        tried = refusal.place[-2]
    place = point_to(refusal.place) or "the value"
    reason = textwrap.shorten(refusal.reason, _MAX_REASON)
    return f"{place} does not take {reprlib.repr(tried)}: {reason}"


def _warn(descriptions: Sequence[str], of: str) -> None:
    text = "; ".join(descriptions)
    message = (
        f"{of}: {text}. Its JSON Schema allows such values: those raise CallError (ReplyError). "
        "Say what is demanded (Field(pattern=...), WithJsonSchema), or check another type yourself"
    )
    warnings.warn(message, RefusedValueWarning, stacklevel=5)
