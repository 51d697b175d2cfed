"""Tries whether a type takes what the mask of its schema writes, with a few values: when a tool is
made, not when a model has written a call in vain."""

import reprlib
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias, get_args
from weakref import WeakSet

from pydantic import ValidationError
from pydantic_core import ErrorDetails
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


Place: TypeAlias = tuple[int | str, ...]


def try_drawn_values(schema: Json, reader: TypeReader, *, of: str, owner: object) -> None:
    """Converts a few values of a schema once for each owner, a function or class. ToolError: no
    value of a parameter or field could be converted, because of its form."""
    with suppress(TypeError):  # it has no hash, or no weak references
        if owner in _tried:
            return
    outcomes = list(_convert(schema, reader))
    refused: dict[Place, str] = {}
    for value, errors in outcomes:
        for error in errors:
            refused.setdefault(error["loc"][:1], _describe(value, error))
    for key in refused:
        _check_form(key, outcomes, of)
    if refused:
        message = (
            f"{of}: {'; '.join(refused.values())}. Its JSON Schema allows such values: those raise "
            "CallError (ReplyError). Say what is demanded (Field(pattern=...), WithJsonSchema), or "
            "check another type yourself"
        )
        warnings.warn(message, RefusedValueWarning, stacklevel=4)
    with suppress(TypeError):
        _tried.add(owner)


def _convert(schema: Json, reader: TypeReader) -> Iterator[tuple[Json, list[ErrorDetails]]]:
    try:
        lowered = lower(schema, only_object=False)
        with limit_steps(_MAX_STEPS):
            values = draw_corner_values(lowered)
    except (SchemaError, StepsError, RecursionError):  # whoever uses the schema says so
        return
    for value in values:
        errors = _find_errors(reader, value)
        if not errors or lowered.admits(value):
            yield value, errors


def _find_errors(reader: TypeReader, value: Json) -> list[ErrorDetails]:
    try:
        reader.read(value)
    except ValidationError as e:
        return e.errors(include_url=False, include_context=False)
    except Exception as e:  # of a validator that the user has written
        message = f"{type(e).__name__}: {e}"
        return [{"type": "value_error", "loc": (), "msg": message, "input": value}]
    return []


def _is_of_form(error: ErrorDetails) -> bool:
    kind = error["type"]
    if kind not in _OWN_TYPES or kind in _CODE:
        return False
    return not any(part in kind for part in _LIMITS)


def _check_form(
    key: Place, outcomes: Sequence[tuple[Json, Sequence[ErrorDetails]]], of: str
) -> None:
    """Raises ToolError if all values were refused in the same place, by their form."""
    common: dict[Place, ErrorDetails] | None = None
    example: Json = None
    for value, errors in outcomes:
        if key and not (isinstance(value, dict) and key[0] in value):
            continue
        found = {one["loc"]: one for one in errors if one["loc"][:1] == key and _is_of_form(one)}
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


def _describe(value: Json, error: ErrorDetails) -> str:
    place, tried = error["loc"], value
    for step in place:
        with suppress(LookupError, TypeError):  # pydantic also names the branches of unions
            tried = tried[step]
    if place[-1:] == ("[key]",):
        tried = place[-2]
    reason = textwrap.shorten(error["msg"], _MAX_REASON)
    return f"{point_to(place) or 'the value'} does not take {reprlib.repr(tried)}: {reason}"
