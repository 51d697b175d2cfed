"""What single keywords of JSON Schema mean to the mask."""

from collections.abc import Mapping, Sequence

from grammars.schema.nodes import (
    Array,
    Boolean,
    Constant,
    Json,
    Node,
    Null,
    Number,
    Object,
    Reference,
    String,
    identify,
)

TYPES = ("object", "array", "string", "number", "boolean", "null")
"""The types of values; `integer` is a part of `number`."""

HELD = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""The keywords that nodes can express, by the type that they speak of."""

MOST_REMAINDERS = 10_000
_LARGEST_DIVISOR = 10**7
_ASSERTING = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties "
    "minProperties required dependentRequired allOf anyOf oneOf not if then else dependentSchemas "
    "dependencies prefixItems items additionalItems contains properties patternProperties "
    "additionalProperties propertyNames unevaluatedItems unevaluatedProperties format $ref "
    "$dynamicRef $recursiveRef nullable".split()
)


def is_asserting(keyword: str) -> bool:
    """Does the keyword say which values are admitted? Others are nothing to a validator, either."""
    return keyword in _ASSERTING


def read_bounds(flat: Mapping[str, Json]) -> dict[str, float]:
    """The keywords for the range of a number, `exclusiveMinimum` always with its bound."""
    bounds = {k: flat[k] for k in HELD["number"] if k in flat}
    for bound in ("minimum", "maximum"):
        keyword = f"exclusive{bound.title()}"
        if isinstance(flag := bounds.get(keyword), bool):  # draft 4
            del bounds[keyword]
            if flag and bound in bounds:
                bounds[keyword] = bounds.pop(bound)
    return bounds


def is_light(divisor: float) -> bool:
    """Can multiples be told by few states? llguidance takes one for each remainder, and reads the
    digits of a divisor off its double."""
    if divisor > _LARGEST_DIVISOR:  # or than any double
        return False
    digits = float(divisor)
    for _ in range(15):
        if digits.is_integer():
            break
        digits *= 10
    if not digits.is_integer():
        return False
    whole = rest = int(digits)
    while rest % 10 == 0:
        rest //= 10
    return rest <= MOST_REMAINDERS and whole <= _LARGEST_DIVISOR


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
    """Keywords that stand there and exclude nothing (zod writes propertyNames for each record)."""
    value, kind = flat[keyword], _SPEAKS_OF.get(keyword)
    types = flat.get("type", kind)
    if kind is not None and kind not in (types if isinstance(types, list) else [types]):
        return True
    idle: dict[str, bool] = {
        "propertyNames": value in ({"type": "string"}, {}, True),
        "uniqueItems": value is False or flat.get("maxItems", 2) < 2,
        "minProperties": value == 0,
        "unevaluatedProperties": value in ({}, True),
        "unevaluatedItems": value in ({}, True),
        "additionalItems": not isinstance(flat.get("items"), list) or value is True,
        "nullable": True,  # repaired where it says something
        "patternProperties": value == {},
        "dependencies": value == {},
        "dependentSchemas": value == {},
        "dependentRequired": value == {},
        "minContains": "contains" not in flat,
        "maxContains": "contains" not in flat,
        "not": value is False,
        "if": not {"then", "else"} & set(flat),
        "then": "if" not in flat,
        "else": "if" not in flat,
    }
    return idle.get(keyword, keyword.startswith("x-"))


def find_types(values: Sequence[Json]) -> list[str]:
    """The types of JSON Schema that these values have; that of a number is `number`."""
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return list(dict.fromkeys(names[type(value)] for value in values))


def are_disjoint(branches: Sequence[Node], definitions: Mapping[str, Node]) -> bool:
    """Can no value fit two branches? Told by their kinds, or by a key with different constants."""
    resolved = [_resolve(branch, definitions) for branch in branches]
    kinds = {type(branch) for branch in resolved}
    if kinds <= {String, Number, Boolean, Null, Array, Object} and len(kinds) == len(resolved):
        return True
    constants = [b.values for b in resolved if isinstance(b, Constant)]
    if len(constants) == len(resolved):
        return _are_apart(constants)
    tags = [
        {p.key: p.node.values for p in b.properties if p.required and isinstance(p.node, Constant)}
        for b in resolved
        if isinstance(b, Object)
    ]
    if len(tags) < len(resolved):
        return False
    shared = [key for key in tags[0] if all(key in t for t in tags)]
    return any(_are_apart([t[key] for t in tags]) for key in shared)


def find_overlaps(branches: Sequence[Node], definitions: Mapping[str, Node]) -> list[list[int]]:
    """For each branch the indices of the others that are not plainly disjoint with it."""
    return [
        [
            j
            for j, other in enumerate(branches)
            if i != j and not are_disjoint([branch, other], definitions)
        ]
        for i, branch in enumerate(branches)
    ]


def _resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """The node itself, references followed; a reference if they lead in a circle."""
    seen: set[str] = set()
    while isinstance(node, Reference) and node.name not in seen:
        seen.add(node.name)
        node = definitions[node.name]
    return node


def _are_apart(groups: list[tuple[Json, ...]]) -> bool:
    found = [identify(v) for group in groups for v in group]
    return len(set(found)) == len(found)
