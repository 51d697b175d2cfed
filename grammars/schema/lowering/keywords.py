"""Facts about single keywords of JSON Schema (Core, sections 10 and 11; Validation, section 6): to
which types they apply, which of them a mask can enforce, which restrict nothing."""

import re
from collections.abc import Mapping

from grammars.regex.time_bounds import LOWER, UPPER
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list

_RANGE = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TYPES = ("object", "array", "string", "number", "boolean", "null")
"""The types of values; `integer` is a subset of `number`."""

EXPRESSIBLE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format", *LOWER, *UPPER),
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

MAX_REMAINDERS = 5_000
"""The limit for the remainders that a mask follows at one time. With vocabularies that have all
numbers of three digits as tokens, one mask meets all remainders. With twice as many, it exceeds its
limit."""
_ASSERTING = frozenset(
    "type enum const uniqueItems maxContains minContains maxProperties minProperties "
    "dependentRequired allOf anyOf oneOf not if then else dependentSchemas dependencies contains "
    "patternProperties propertyNames unevaluatedItems unevaluatedProperties $ref $dynamicRef "
    "$recursiveRef nullable".split()
).union(*EXPRESSIBLE.values())


_FIRST_DRAFT = {
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    **dict.fromkeys(CASES, 7),
    **dict.fromkeys(
        "dependentRequired dependentSchemas minContains maxContains unevaluatedItems "
        "unevaluatedProperties $recursiveRef".split(),
        2019,
    ),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), 2020),
}
"""By keyword, the first draft in which the validator reads it; the others are in all drafts."""
_LAST_DRAFT = {"$recursiveRef": 2019, "additionalItems": 2019}
_FIRST_DRAFT_OF_FORMAT = {
    **dict.fromkeys(("json-pointer", "uri-reference", "uri-template"), 6),
    **dict.fromkeys(("idn-hostname", "iri", "iri-reference", "relative-json-pointer"), 7),
    **dict.fromkeys(("duration", "uuid"), 2019),
}
_DRAFT_NUMBER = re.compile(r"draft(?:/|-0)(\d+)")
_LATEST_NUMBER = 2020


def number_draft(uri: str) -> int:
    """The number of the draft with this `$schema`: 4, 6, 7, 2019 or 2020; without one, 2020."""
    found = _DRAFT_NUMBER.search(uri)
    return int(found[1]) if found else _LATEST_NUMBER


def is_validated(keyword: str, draft: int) -> bool:
    """True if the validator reads the keyword in this draft (see `number_draft`)."""
    return _FIRST_DRAFT.get(keyword, 0) <= draft <= _LAST_DRAFT.get(keyword, draft)


def is_format_validated(name: str, draft: int) -> bool:
    """True if the validator checks this known format in this draft."""
    return _FIRST_DRAFT_OF_FORMAT.get(name, 0) <= draft


def is_asserting(keyword: str) -> bool:
    """Returns whether the keyword restricts values. A validator ignores unknown keywords, too."""
    return keyword in _ASSERTING


def read_bounds(flat: Mapping[str, Json]) -> dict[str, float]:
    """Returns the keywords for the range of a number, as in draft 6 and later: `exclusiveMinimum`
    is the bound itself; in draft 4 it is a flag beside `minimum`."""
    bounds = {k: flat[k] for k in EXPRESSIBLE["number"] if k in flat}
    apply_flags(bounds)
    return bounds


def apply_flags(flat: dict[str, Json]) -> dict[str, str]:
    """Applies the flag `exclusiveMinimum` (draft 4 and OpenAPI 3.0) to the bound beside it, and
    `exclusiveMaximum`; returns the flags that were there, each with the keyword of its bound."""
    applied: dict[str, str] = {}
    for bound in ("minimum", "maximum"):
        keyword = f"exclusive{bound.title()}"
        flag = flat.get(keyword)
        if isinstance(flag, bool):
            applied[keyword] = bound
            del flat[keyword]
            if flag and bound in flat:
                flat[keyword] = flat.pop(bound)
    return applied


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
    """Returns whether the keyword restricts nothing (zod: `propertyNames` of records)."""
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
    if is_list(value):
        return value
    return [value]
