"""Facts about single keywords of JSON Schema (Core, sections 10 and 11; Validation, section 6): to
which types they apply, which of them a mask can enforce, which restrict nothing."""

from collections.abc import Mapping

from grammars.schema.nodes import Json
from grammars.schema.subschemas import is_list

_RANGE = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TYPES = ("object", "array", "string", "number", "boolean", "null")
"""The types of values; `integer` is a subset of `number`."""

EXPRESSIBLE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": _RANGE,
    "integer": _RANGE,
}
"""The keywords that nodes can express, by the type to which they apply."""

ANNOTATIONS = frozenset(
    "$schema $id $comment $anchor $defs definitions title description default examples example "
    "deprecated readOnly writeOnly optional discriminator contentMediaType contentEncoding "
    "contentSchema x-order x-guidance".split()
)
"""Keywords that do not restrict values."""

CASES = ("if", "then", "else")
"""Keywords that belong together."""

MAX_REMAINDERS = 10_000
_LARGEST_DIVISOR = 10**5
"""With more, a number of many digits takes llguidance to the end of its memory for states."""
_ASSERTING = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties "
    "minProperties required dependentRequired allOf anyOf oneOf not if then else dependentSchemas "
    "dependencies prefixItems items additionalItems contains properties patternProperties "
    "additionalProperties propertyNames unevaluatedItems unevaluatedProperties format $ref "
    "$dynamicRef $recursiveRef nullable".split()
)


def is_asserting(keyword: str) -> bool:
    """True if the keyword restricts values. A validator ignores unknown keywords, too."""
    return keyword in _ASSERTING


def read_bounds(flat: Mapping[str, Json]) -> dict[str, float]:
    """Returns the keywords for the range of a number, as in draft 6 and later: `exclusiveMinimum`
    is the bound itself; in draft 4 it is a flag beside `minimum`."""
    bounds = {k: flat[k] for k in EXPRESSIBLE["number"] if k in flat}
    for bound in ("minimum", "maximum"):
        keyword = f"exclusive{bound.title()}"
        flag = bounds.get(keyword)
        if isinstance(flag, bool):
            del bounds[keyword]
            if flag and bound in bounds:
                bounds[keyword] = bounds.pop(bound)
    return bounds


def is_light(divisor: float) -> bool:
    """True if the mask needs few states for multiples of the divisor.

    llguidance has a state for each remainder that it meets, and reads the decimal digits of the
    divisor's double. For the zeros at the end of the divisor it meets few.
    """
    if divisor > _LARGEST_DIVISOR:  # also if it is larger than any double
        return False
    digits = float(divisor)
    for _ in range(15):
        if digits.is_integer():
            break
        digits *= 10
    if not digits.is_integer():
        return False
    remainders = int(digits)
    if remainders > _LARGEST_DIVISOR:
        return False
    while remainders % 10 == 0:
        remainders //= 10
    return remainders <= MAX_REMAINDERS


_SPEAKS_OF = {
    **dict.fromkeys(
        "uniqueItems contains minContains maxContains unevaluatedItems additionalItems".split(),
        "array",
    ),
    **dict.fromkeys(
        "minProperties maxProperties patternProperties propertyNames dependentRequired "
        "dependentSchemas dependencies unevaluatedProperties".split(),
        "object",
    ),
}


def is_idle(keyword: str, flat: Mapping[str, Json]) -> bool:
    """True if the keyword restricts nothing (zod writes `propertyNames` for each record)."""
    value = flat[keyword]
    kind = _SPEAKS_OF.get(keyword)
    if kind is not None and kind not in as_list(flat.get("type", kind)):
        return True
    match keyword:
        case "propertyNames":
            return value in ({"type": "string"}, {}, True)
        case "uniqueItems":
            return value is False or flat.get("maxItems", 2) < 2
        case "minProperties":
            return value == 0
        case "unevaluatedProperties" | "unevaluatedItems":
            return value in ({}, True)
        case "additionalItems":
            return not isinstance(flat.get("items"), list) or value is True
        case "nullable":  # repaired if it has an effect
            return True
        case "patternProperties" | "dependencies" | "dependentSchemas" | "dependentRequired":
            return value == {}
        case "minContains" | "maxContains":
            return "contains" not in flat
        case "not":
            return value is False
        case "if":
            return "then" not in flat and "else" not in flat
        case "then" | "else":
            return "if" not in flat
        case _:
            return keyword.startswith("x-")


def drop_annotations(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the keywords of a schema that restrict values."""
    return {k: v for k, v in schema.items() if k not in ANNOTATIONS}


def list_values(flat: Mapping[str, Json]) -> list[Json]:
    """Returns the values of `enum`, or that of `const`."""
    if "enum" in flat:
        return flat["enum"]
    return [flat["const"]]


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, else a list with the value."""
    if is_list(value):
        return value
    return [value]
