"""Schemas of many keywords over few values: what the mask takes is what is valid, unless the report
says that a keyword is checked afterwards; and it takes all that is valid."""

from itertools import permutations
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from constrained.inspect.replay.schemas import check_schemas
from grammars.errors import SchemaError
from grammars.regex.string_formats import ASSERTED, FORMATS, FURTHER_FORMATS
from grammars.schema.lowering.keywords import is_format_validated, is_validated
from grammars.schema.lowering.lower import lower
from grammars.schema.validator import Validator

Json = Any

SCALARS: list[Json] = [None, True, False, -1, 0, 1, 2, 7, 0.5, 2.5, "", "a", "b", "ab", "abc"]
LISTS: list[Json] = [[], [0], ["a"], [0, 0], [0, "a"], [1, 2, 1]]
OBJECTS: list[Json] = [
    {}, {"a": 0}, {"a": "a"}, {"b": 1}, {"c": None}, {"a": 0, "b": 1}, {"a": "b", "b": "a"},
    {"a": 2, "c": 1}, {"ab": 0, "bb": "a"}, {"a": 1, "b": 1, "c": 1}, {"x": {"a": 0}}, {"x": [0]},
]  # fmt: skip
VALUES = SCALARS + LISTS + OBJECTS

TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]
KEYS = st.sampled_from(["a", "b", "c"])
PATTERNS = st.sampled_from(["", "^a", "b$", "^[bc]", "x|c"])
COUNTS = st.integers(0, 3)
LEAVES = st.one_of(
    st.builds(lambda t: {"type": t}, st.sampled_from(TYPES)),
    st.builds(lambda t: {"type": t}, st.lists(st.sampled_from(TYPES), min_size=1, unique=True)),
    st.builds(lambda v: {"enum": v}, st.lists(st.sampled_from(VALUES), min_size=1, max_size=4)),
    st.builds(lambda v: {"const": v}, st.sampled_from(VALUES)),
    st.builds(lambda k, n: {k: n}, st.sampled_from(["minLength", "maxLength"]), COUNTS),
    st.builds(lambda k, n: {k: n}, st.sampled_from(["minItems", "maxItems"]), COUNTS),
    st.builds(
        lambda k, n: {k: n},
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
        st.integers(-1, 3) | st.just(0.5),
    ),
    st.builds(lambda n: {"type": "integer", "multipleOf": n}, st.integers(1, 3)),
    st.builds(lambda p: {"pattern": p}, st.sampled_from(["^a", "b$", "^[ab]*$"])),
    st.builds(lambda k: {"required": k}, st.lists(KEYS, min_size=1, max_size=2, unique=True)),
    st.builds(lambda k: {"propertyNames": {"enum": k}}, st.lists(KEYS, min_size=1, unique=True)),
    st.builds(
        lambda n: {"propertyNames": n},
        st.sampled_from(
            [{"pattern": "^[ab]"}, {"maxLength": 1}, {"pattern": "b", "minLength": 2}, False]
        ),
    ),
    st.just({"additionalProperties": False}),
    st.just({"uniqueItems": True}),
    st.booleans(),
)


def _grow(inner: SearchStrategy[Json]) -> SearchStrategy[Json]:
    parts = st.lists(inner, min_size=1, max_size=3)
    members = st.dictionaries(KEYS, inner, min_size=1, max_size=2)
    return st.one_of(
        st.builds(lambda s: {"not": s}, inner),
        st.builds(lambda k, p: {k: p}, st.sampled_from(["anyOf", "allOf", "oneOf"]), parts),
        st.builds(lambda i, t, e: {"if": i, "then": t, "else": e}, inner, inner, inner),
        st.builds(lambda i, t: {"if": i, "then": t}, inner, inner),
        st.builds(lambda p: {"properties": p}, members),
        st.builds(lambda p: {"type": "object", "properties": p}, members),
        st.builds(lambda p, r: {"type": "object", "properties": p, "required": sorted(r)},
                  members, st.sets(KEYS, min_size=1, max_size=2)),
        st.builds(lambda s: {"items": s}, inner),
        st.builds(lambda s: {"contains": s}, inner),
        st.builds(lambda s, k, n: {"contains": s, k: n},
                  inner, st.sampled_from(["minContains", "maxContains", "maxItems"]), COUNTS),
        st.builds(lambda k, s: {"dependentSchemas": {k: s}}, KEYS, inner),
        st.builds(lambda p: {"patternProperties": p}, st.dictionaries(PATTERNS, inner, max_size=3)),
        st.builds(lambda s: {"additionalProperties": s}, inner),
        st.builds(lambda s, k: {**_beside(s, {}), f"unevaluated{k}": False},
                  inner, st.sampled_from(["Properties", "Items"])),
        st.builds(lambda p: {"prefixItems": p}, parts),
        st.builds(_beside, inner, inner),
    )  # fmt: skip


def _beside(a: Json, b: Json) -> Json:
    """Keywords of both side by side."""
    return {**a, **b} if isinstance(a, dict) and isinstance(b, dict) else {"allOf": [a, b]}


SCHEMAS = st.recursive(LEAVES, _grow, max_leaves=6)


def _orders(value: Json) -> list[Json]:
    """The value with its keys in any order."""
    if not isinstance(value, dict):
        return [value]
    return [dict(items) for items in permutations(value.items())]


@settings(suppress_health_check=list(HealthCheck))
@given(SCHEMAS)
def test_the_mask_takes_what_is_valid(schema: Json) -> None:
    valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    try:
        report = lower(schema, close=False, only_object=False).report
    except SchemaError:
        assert not any(map(valid, VALUES))
        return
    if report.repaired:
        return
    tests = [{"data": written} for value in VALUES for written in _orders(value)]
    (answer,) = check_schemas([{"schema": schema, "tests": tests}])
    assert answer["compiles"], answer["error"]
    assert answer["error"] is None
    event("checked" if report.checked else "exact")
    results = iter(answer["results"])
    for value in VALUES:
        found = [next(results) for _ in _orders(value)]
        accepted = any(result["accepted"] for result in found)
        assert not any(result["delivered"] for result in found) or valid(value), value
        assert accepted or not valid(value), f"{value} is refused"
        assert report.checked or not accepted or valid(value), f"{value} is taken"


DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
VIOLATIONS: list[tuple[str, dict[str, Json], Json]] = [
    ("const", {"const": 1}, 2),
    ("contains", {"contains": {"type": "string"}}, [1]),
    ("minContains", {"contains": True, "minContains": 2}, [1]),
    ("maxContains", {"contains": True, "maxContains": 1}, [1, 2]),
    ("maxContains", {"items": {"const": 1}, "contains": {}, "maxContains": 1}, [1, 1]),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, {"aa": 1}),
    ("if", {"if": {}, "then": {"type": "null"}}, 1),
    ("then", {"if": {}, "then": {"type": "null"}}, 1),
    ("else", {"if": {"not": {}}, "else": {"type": "null"}}, 1),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    ("dependentSchemas", {"dependentSchemas": {"a": {"maxProperties": 0}}}, {"a": 1}),
    ("dependencies", {"dependencies": {"a": ["b"]}}, {"a": 1}),
    ("unevaluatedProperties", {"unevaluatedProperties": False}, {"a": 1}),
    ("unevaluatedItems", {"unevaluatedItems": False}, [1]),
    ("prefixItems", {"prefixItems": [{"type": "null"}]}, [1]),
    ("$recursiveRef", {"type": "object", "minProperties": 1, "properties": {
        "a": {"$recursiveRef": "#"}}}, {"a": {}}),
    ("$dynamicRef", {"type": "object", "minProperties": 1, "properties": {
        "a": {"$dynamicRef": "#"}}}, {"a": {}}),
    ("not", {"not": {"type": "integer"}}, 1),
    ("patternProperties", {"patternProperties": {"a": {"type": "null"}}}, {"a": 1}),
    ("uniqueItems", {"uniqueItems": True}, [1, 1]),
]  # fmt: skip
WRONG_FORMATS = {
    "date": "x", "time": "x", "date-time": "x", "duration": "x", "uuid": "x", "ipv4": "x",
    "ipv6": "x", "email": "x", "idn-email": "x", "hostname": "-", "idn-hostname": "-",
    "uri": "x", "uri-reference": "\\", "iri": "x", "iri-reference": "\\", "uri-template": "{",
    "json-pointer": "x", "relative-json-pointer": "x", "regex": "(",
    **dict.fromkeys(FURTHER_FORMATS, "x"),
}  # fmt: skip


@pytest.mark.parametrize(("number", "uri"), DRAFTS.items())
def test_what_is_reported_as_checked_is_checked_in_that_draft(number: int, uri: str) -> None:
    for keyword, schema, value in VIOLATIONS:
        source = {"$schema": uri, **schema}
        assert is_validated(keyword, number) != Validator(source, source).admits(value), keyword
    for name, value in WRONG_FORMATS.items():
        source = {"$schema": uri, "format": name}
        assert is_format_validated(name, number) != Validator(source, source).admits(value), name
    assert WRONG_FORMATS.keys() == FORMATS.keys() | ASSERTED


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"properties": {"a": {"$recursiveRef": "#"}}}, "$recursiveRef"),
        ({"$schema": DRAFTS[7], "properties": {"a": {"$dynamicRef": "#"}}}, "$dynamicRef"),
        ({"$schema": DRAFTS[7], "properties": {"a": {"type": "array", "contains": {}, "minContains":
            999, "items": {"type": "string"}}}}, "minContains"),
        ({"$schema": DRAFTS[7], "properties": {"a": {"format": "uuid", "type": "string", "pattern":
            "^.$"}}}, "format"),
    ],
)  # fmt: skip
def test_what_nothing_checks_is_not_reported_as_checked(schema: Json, keyword: str) -> None:
    lowered = lower({"type": "object", **schema})
    assert keyword not in {finding.keyword for finding in lowered.report.checked}
    (finding,) = lowered.report.ignored
    assert (finding.pointer, finding.keyword) == ("/properties/a", keyword)
    assert "not in this draft" in finding.reason


@pytest.mark.parametrize(
    ("pattern", "name", "narrowed"),
    [
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "uuid", False),
        ("^[a-z-]+@[a-z-]+[.][a-z]{2}$", "email", True),
        ("example", "email", True),
    ],
)
def test_a_format_beside_a_pattern_is_enforced(pattern: str, name: str, narrowed: bool) -> None:
    report = lower({"type": "string", "format": name, "pattern": pattern}, only_object=False).report
    assert not report.checked
    assert bool(report.narrowed) == narrowed


def test_a_format_and_a_pattern_that_the_mask_cannot_hold_together_are_not_refused() -> None:
    """A quoted local part, which the mask does not write in an address."""
    schema = {"type": "string", "format": "email", "pattern": '^"a b"@c.de$'}
    (finding,) = lower(schema, only_object=False).report.checked
    assert finding.keyword == "format"
