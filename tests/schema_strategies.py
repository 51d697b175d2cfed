"""Strategies for JSON Schemas of tool arguments, each with the values that fit it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from grammars.regex.string_formats import FORMATS
from grammars.schema.validator import Validator
from tests.text_strategies import KEYS, TEXTS, texts_of_format

Json = Any

PATTERNS = {
    "^[a-z]+$": st.from_regex("[a-z]+", fullmatch=True),
    "^\\d{3}-\\d{4}$": st.from_regex("[0-9]{3}-[0-9]{4}", fullmatch=True),
    "^(get|set)_\\w*$": st.from_regex("(get|set)_[A-Za-z0-9_]*", fullmatch=True),
    '[/"]': TEXTS.map(lambda t: t + '/"'),
    "^a|b$": TEXTS.map(lambda t: "a" + t),
    "^[^\\s<>]+$": st.from_regex("[a-zé&/]+", fullmatch=True),
    '^[^"/]+$': st.text("ab\\\n\t\x01é😀", min_size=1, max_size=4),
    "^[\\s\\S]{2}$": st.text(min_size=2, max_size=2),
    "^.*\\.py$": st.text("abc/ é", max_size=5).map(lambda t: t + ".py"),
}


@dataclass(frozen=True)
class Shape:
    """A schema, and values that are meant to fit it."""

    schema: Json
    values: SearchStrategy[Json]


def fitting(shape: Shape, root: Json | None = None) -> SearchStrategy[Json]:
    """The values of the shape that jsonschema-rs takes."""
    root = shape.schema if root is None else root
    return shape.values.filter(Validator(shape.schema, root).admits)


INTEGERS = st.integers(-(10**18), 10**18) | st.integers(-20, 20)
NUMBERS = INTEGERS | st.floats(-1e200, 1e200) | st.integers(-800, 800).map(lambda n: n / 8)
SCALARS = TEXTS | NUMBERS | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def bounded(draw: DrawFn) -> Shape:
    """Numbers with bounds, integers or eighths."""
    low = draw(st.integers(-1000, 1000))
    high = low + draw(st.integers(0, 1000))
    lower, upper = draw(
        st.sampled_from([("minimum", "maximum"), ("minimum", ""), ("", "maximum")])
        if low == high
        else st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "maximum"), ("", "")])
    )
    bounds = {k: v for k, v in ((lower, low), (upper, high)) if k}
    if draw(st.booleans()):
        values: SearchStrategy[Json] = st.integers(low + (lower[:1] == "e"), high)
        return Shape({"type": "integer", **bounds}, values)
    eighths = st.integers(8 * low + (lower[:1] == "e"), 8 * high).map(lambda n: n / 8)
    return Shape({"type": "number", **bounds}, eighths)


@st.composite
def strings(draw: DrawFn) -> Shape:
    """Strings that are not free: by enum, const, pattern, length or format."""
    match draw(st.sampled_from(["enum", "const", "pattern", "length", "format"])):
        case "enum":
            options = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
            return Shape({"type": "string", "enum": options}, st.sampled_from(options))
        case "const":
            option = draw(TEXTS)
            return Shape({"const": option}, st.just(option))
        case "pattern":
            pattern = draw(st.sampled_from(sorted(PATTERNS)))
            return Shape({"type": "string", "pattern": pattern}, PATTERNS[pattern])
        case "length":
            low, more = draw(st.integers(0, 5)), draw(st.none() | st.integers(0, 5))
            high = None if more is None else low + more
            schema = {"type": "string", "minLength": low}
            schema |= {} if high is None else {"maxLength": high}
            return Shape(schema, st.text(min_size=low, max_size=high))
        case _:
            name = draw(st.sampled_from(sorted(FORMATS)))
            shape = Shape({"type": "string", "format": name}, texts_of_format(name))
            return Shape(shape.schema, fitting(shape))


FREE = [
    Shape({"type": "string"}, TEXTS),
    Shape({"type": "integer"}, INTEGERS),
    Shape({"type": "number"}, NUMBERS),
    Shape({"type": "boolean"}, st.booleans()),
    Shape({"type": "null"}, st.none()),
    Shape({"type": ["string", "null"]}, st.none() | TEXTS),
    Shape({"type": ["integer", "boolean"]}, st.booleans() | INTEGERS),
    Shape({"type": "array"}, st.lists(VALUES, max_size=2)),
    Shape({"type": "object"}, st.dictionaries(TEXTS, VALUES, max_size=2)),
    Shape({}, VALUES),
    Shape(True, VALUES),
]
_CASES = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
    "additionalProperties": False,
    "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
    "then": {"required": ["n"]},
}
_TAKEN_APART = [
    Shape({"type": "string", "not": {"enum": ["a", "no", 'a"']}}, TEXTS),
    Shape({"type": "integer", "not": {"const": 3}}, INTEGERS),
    Shape({"not": {"type": ["string", "array", "object"]}}, NUMBERS | st.none()),
    Shape({"type": "array", "items": {"enum": ["r", "w", 1]}, "uniqueItems": True},
          st.lists(st.sampled_from(["r", "w", 1]), unique=True)),
    Shape(_CASES, st.sampled_from([{"kind": "a", "n": 1}, {"kind": "b"}, {}, {"n": 2}])),
    Shape({"type": "object", "propertyNames": {"enum": ["x", "y"]},
           "additionalProperties": {"type": "boolean"}},
          st.sampled_from([{}, {"x": True}, {"y": False}])),
    Shape({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3},
           "additionalProperties": {"type": "boolean"}},
          st.sampled_from([{}, {"x": True}, {"abc": False, "z": True}])),
    Shape({"type": "object", "properties": {"no": False}, "additionalProperties": {"type": "null"}},
          st.sampled_from([{}, {"x": None}, {"non": None}])),
    Shape({"type": "array", "items": {"enum": list("abcdefg")}, "uniqueItems": True,
           "minItems": 1}, st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1)),
    Shape({"type": "array", "items": {"type": ["string", "integer"]},
           "contains": {"type": "string", "minLength": 1}, "maxItems": 3},
          st.lists(st.sampled_from(["a", "", 1, "b]"]), max_size=3)),
    Shape({"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
          st.lists(st.sampled_from([1, 20, "a", None]), max_size=5)),
    Shape({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [
        {"properties": {"b": {"type": "null"}}, "required": ["b"]},
        {"properties": {"c": {"type": "null"}}, "required": ["c"]}],
        "unevaluatedProperties": False},
          st.sampled_from([{"a": 1, "b": None}, {"c": None}, {"b": None, "c": None}])),
    Shape({"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]},
          INTEGERS),
]  # fmt: skip
TAKEN_APART = [Shape(shape.schema, fitting(shape)) for shape in _TAKEN_APART]
IDLE: list[dict[str, Json]] = [
    {"description": "Text", "title": "T", "default": None, "examples": []},
    {"$comment": "c", "deprecated": False, "x-order": 1, "uniqueItems": False},
    {"propertyNames": {"type": "string"}},
]


@st.composite
def mixed_enums(draw: DrawFn) -> Shape:
    """Enums over all types."""
    options = draw(st.lists(SCALARS | VALUES, min_size=1, max_size=3, unique_by=repr))
    return Shape({"enum": options}, st.sampled_from(options))


def leaves(references: Sequence[Shape]) -> SearchStrategy[Shape]:
    """Shapes without parts, and references."""
    plain = st.sampled_from([*FREE, FREE[0], FREE[0], *references, *references])
    return plain | strings() | bounded() | mixed_enums() | st.sampled_from(TAKEN_APART)


def shapes(references: Sequence[Shape] = ()) -> SearchStrategy[Shape]:
    """Shapes of one property."""
    return st.recursive(
        leaves(references),
        lambda inner: arrays(inner) | objects(inner, KEYS) | unions(inner) | wrapped(inner),
        max_leaves=4,
    )


@st.composite
def arrays(draw: DrawFn, inner: SearchStrategy[Shape]) -> Shape:
    item = draw(inner)
    if draw(st.integers(0, 3)) == 0:
        first = draw(inner)
        schema = {"type": "array", "prefixItems": [first.schema, item.schema], "items": False}
        return Shape(schema, st.tuples(first.values, item.values).map(list) | st.just([]))
    low, more = draw(st.integers(0, 2)), draw(st.none() | st.integers(0, 2))
    high = None if more is None else low + more
    schema = {"type": "array", "items": item.schema, "minItems": low}
    schema |= {} if high is None else {"maxItems": high}
    most = low + 2 if high is None else high
    return Shape(schema, st.lists(item.values, min_size=low, max_size=most))


@st.composite
def wrapped(draw: DrawFn, inner: SearchStrategy[Shape]) -> Shape:
    """The same, with keywords beside it that say nothing, or inside an `allOf`."""
    shape, idle = draw(inner), draw(st.sampled_from(IDLE))
    if isinstance(shape.schema, bool) or draw(st.booleans()):
        return Shape({"allOf": [shape.schema], **idle}, shape.values)
    return Shape({**idle, **shape.schema}, shape.values)


@st.composite
def unions(draw: DrawFn, inner: SearchStrategy[Shape]) -> Shape:
    branches = draw(st.lists(inner, min_size=2, max_size=3))
    types = [b.schema.get("type") if isinstance(b.schema, dict) else None for b in branches]
    plain = all(isinstance(t, str) for t in types) and not {"integer", "number"} <= {*types}
    apart = plain and len({*types}) == len(types)  # what fits two of them is no `oneOf`
    keyword = draw(st.sampled_from(["anyOf", "anyOf", "oneOf"])) if apart else "anyOf"
    schema = {keyword: [b.schema for b in branches]}
    return Shape(schema, st.one_of([b.values for b in branches]))


@st.composite
def objects(draw: DrawFn, inner: SearchStrategy[Shape], keys: Sequence[str]) -> Shape:
    """Objects of 0 to 4 properties: closed, silent or open to others; sometimes an `allOf`."""
    names = draw(st.lists(st.sampled_from(keys), max_size=4, unique=True))
    members = {name: draw(inner) for name in names}
    required = [name for name in names if draw(st.booleans())]
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {name: m.schema for name, m in members.items()},
    }
    schema |= {"required": required} if required else {}
    needed = {k: members[k].values for k in names if k in required}
    optional = {k: members[k].values for k in names if k not in required}
    values = st.fixed_dictionaries(needed, optional=optional).map(
        lambda value: {k: value[k] for k in names if k in value}
    )
    match draw(st.sampled_from(["silent", "closed", "open", "split", "patterned"])):
        case "closed":
            schema["additionalProperties"] = False
        case "open":
            extra = draw(inner)
            schema["additionalProperties"] = extra.schema
            others = st.dictionaries(st.sampled_from(["zz", "Z", "-x"]), extra.values, max_size=2)
            values = st.tuples(values, others).map(lambda two: two[0] | two[1])
        case "patterned":
            some, other = draw(inner), draw(inner)
            schema["patternProperties"] = {"^[zZ]": some.schema, "x$": other.schema}
            schema["additionalProperties"] = False
            first = st.dictionaries(st.sampled_from(["zz", "Zé"]), some.values, max_size=1)
            second = st.dictionaries(st.sampled_from(["-x", "yx"]), other.values, max_size=1)
            values = st.tuples(values, first, second).map(lambda t: t[0] | t[1] | t[2])
        case "split" if names:
            first = {"properties": {names[0]: schema["properties"].pop(names[0])}}
            schema = {"type": "object", "allOf": [first, schema]}
        case _:
            pass
    return Shape(schema, values)


def _tree(leaf: Shape) -> Shape:
    """A recursive definition, `#/$defs/Tree`."""
    schema = {
        "type": "object",
        "properties": {
            "value": leaf.schema,
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            "next": {"allOf": [{"$ref": "#/$defs/Tree"}], "description": "The next one"},
        },
        "required": ["value"],
    }
    value = st.fixed_dictionaries({"value": leaf.values})
    values = st.recursive(
        value,
        lambda inner: st.builds(
            lambda v, c, n: v | {"children": c} | ({} if n is None else {"next": n}),
            value,
            st.lists(inner, max_size=2),
            st.none() | inner,
        ),
        max_leaves=3,
    )
    return Shape(schema, values)


@st.composite
def parameters(draw: DrawFn, keys: Sequence[str] = KEYS) -> Shape:
    """The arguments of a tool: an object, perhaps with definitions."""
    plain = objects(_shapes(), keys)
    match draw(st.sampled_from(["plain", "plain", "union", "definitions"])):
        case "plain":
            return draw(plain)
        case "union":
            return draw(unions(plain))
        case _:
            pass
    definitions = {"Tree": _tree(draw(_leaves())), "Item": draw(_shapes())}
    references = [Shape({"$ref": f"#/$defs/{k}"}, d.values) for k, d in definitions.items()]
    shape = draw(objects(shapes(references), keys))
    defs = {name: d.schema for name, d in definitions.items()}
    return Shape({**shape.schema, "$defs": defs}, shape.values)


# To build a strategy anew for each example takes longer than to draw from it.
_shapes, _leaves = lru_cache(shapes), lru_cache(lambda: leaves([]))
