"""What a schema's report lists as enforced by the mask, and what as checked afterwards."""

from typing import Any

import pytest

from grammars.errors import SchemaError
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Null, Number, Object, String, flatten


def report(value: Any) -> tuple[list[str], list[str]]:
    """The keywords of a property that are enforced, and those that are checked."""
    found = lower({"type": "object", "properties": {"v": value}}).report
    enforced = [f.keyword for f in found.enforced if f.pointer.startswith("/properties/v")]
    return enforced, [f.keyword for f in found.checked]


@pytest.mark.parametrize(
    ("schema", "enforced", "checked"),
    [
        ({"type": "string", "minLength": 1}, ["type", "minLength"], []),
        ({"type": "string", "pattern": "^a$"}, ["type", "pattern"], []),
        ({"type": "string", "pattern": "(a|b)\\1"}, ["type"], ["pattern"]),
        ({"type": "string", "format": "date"}, ["type", "format"], []),
        ({"type": "string", "format": "regex"}, ["type"], ["format"]),
        ({"type": "string", "format": "date", "pattern": "^2"}, ["type", "pattern", "format"], []),
        ({"type": "string", "format": "date", "pattern": "^x"}, ["type", "pattern"], ["format"]),
        ({"type": "string", "format": "topic"}, ["type", "format"], []),
        ({"type": "integer", "multipleOf": 2}, ["type", "multipleOf"], []),
        ({"type": "array", "uniqueItems": True}, ["type"], ["uniqueItems"]),
        ({"type": "string", "items": {}}, ["type"], []),
        ({"not": {"type": "null"}}, ["not", "type"], []),
        ({"not": {"pattern": "a"}}, ["not", "type", "pattern"], []),
        ({"not": {"pattern": "a."}}, ["not", "type", "pattern"], []),
        ({"not": {"pattern": "(a)\\1"}}, [], ["not"]),
        ({"enum": [1]}, ["enum"], []),
        ({"const": 1}, ["const"], []),
        ({"anyOf": [{"type": "null"}]}, ["anyOf", "type"], []),
        ({"allOf": [{"multipleOf": 2}, {"multipleOf": 3, "type": "number"}]},
         ["type", "multipleOf"], []),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b", "type": "string"}]},
         ["type", "pattern"], []),
        ({"allOf": [{"pattern": "a"}, {"pattern": "(a|b)\\1", "type": "string"}]},
         ["type"], ["pattern"]),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, ["type", "type", "oneOf"], []),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, ["type", "minLength", "oneOf"], []),
        ({"oneOf": [{"type": "string"}, {"pattern": "a"}]}, ["type", "pattern", "oneOf"], []),
        ({"oneOf": [{"type": "string"}, {"pattern": "a."}]}, ["type", "pattern", "oneOf"], []),
        ({"oneOf": [{"type": "string"}, {"pattern": "()\\1"}]}, ["type"], ["pattern", "oneOf"]),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, ["const", "const", "oneOf"], []),
        ({"oneOf": [{"const": 1}, {"enum": [2, 1]}]}, ["const", "enum", "oneOf"], []),
        ({"oneOf": [{"const": 1}, {"type": "object"}]}, ["const", "type", "oneOf"], []),
    ],
)  # fmt: skip
def test_each_keyword_is_listed_once(schema: Any, enforced: list[str], checked: list[str]) -> None:
    found = report(schema)
    assert sorted(found[0]) == sorted(enforced)
    assert found[1] == checked


@pytest.mark.parametrize(
    "idle",
    [
        {"propertyNames": {"type": "string"}},
        {"propertyNames": True},
        {"uniqueItems": False},
        {"minProperties": 0},
        {"unevaluatedProperties": True},
        {"additionalItems": False},
        {"nullable": False},
        {"then": {}, "else": {}},
        {"x-enum-names": ["a"]},
        {"title": "t", "examples": [1]},
    ],
)
def test_keywords_that_exclude_nothing_are_not_listed(idle: Any) -> None:
    assert report({"type": "object", **idle}) == (["type"], [])


def test_unknown_keywords_that_differ_are_no_reason_to_check() -> None:
    parts = [{"x-order": 1, "minLength": 1}, {"x-order": 2, "maxLength": 5}]
    assert report({"type": "string", "allOf": parts}) == (["type", "minLength", "maxLength"], [])
    encoded = [{"contentEncoding": "base64"}, {"contentEncoding": "base32"}]
    assert report({"type": "string", "allOf": encoded})[1] == ["contentEncoding"]


def test_a_tag_tells_objects_apart() -> None:
    def tagged(*kinds: str, required: bool = True) -> Any:
        branches = [
            {"type": "object", "properties": {"kind": {"const": k}, "a": {}}} for k in kinds
        ]
        return {"oneOf": [b | ({"required": ["kind"]} if required else {}) for b in branches]}

    assert report(tagged("a", "b"))[1] == []
    assert report(tagged("a", "a"))[1] == ["oneOf"]
    assert report(tagged("a", "b", required=False))[1] == []  # neither fits without the tag
    assert report({"oneOf": [{"type": "object"}, {"type": "object"}]})[1] == ["oneOf"]


def test_tuples_as_drafts_before_2020_write_them() -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    value = {"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "string"}}
    node = lower({"$schema": draft, "type": "object", "properties": {"v": value}}).node
    assert isinstance(node, Object)
    assert node.properties[0].node.items == String()


def test_exclusive_bounds_as_draft_4_writes_them() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    value = {"type": "number", "minimum": 1, "exclusiveMinimum": True}
    schema = lower({"$schema": draft, "type": "object", "properties": {"v": value}})
    assert schema.node.properties[0].node == Number(False, {"exclusiveMinimum": 1})
    assert not schema.report.checked
    assert not schema.admits({"v": 1})


def test_a_reference_counts_once() -> None:
    value = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}
    schema = lower({"type": "object", "properties": {"v": value}, "$defs": {"A": {"type": "null"}}})
    member = schema.find_members("v")[0]
    assert member is not None
    assert list(flatten(member.node, member.definitions)) == [Null()]


def test_references_in_a_circle_tell_nothing_apart() -> None:
    circle = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}
    value = {"oneOf": [{"$ref": "#/$defs/A"}, {"type": "null"}, {"$ref": "#/$defs/C"}]}
    root = {"type": "object", "properties": {"v": value}, "$defs": circle | {"C": {"const": 1}}}
    assert [f.keyword for f in lower(root).report.checked] == ["oneOf"]


@pytest.mark.parametrize(
    ("draft", "is_checked"),
    [
        ("http://json-schema.org/draft-06/schema#", True),
        ("http://json-schema.org/draft-07/schema#", True),
        ("https://json-schema.org/draft/2020-12/schema", False),
    ],
)
def test_the_encoding_of_content_is_checked_where_the_draft_asserts_it(
    draft: str, is_checked: bool
) -> None:
    schema = {"$schema": draft, "type": "string", "contentEncoding": "base64"}
    lowered = lower(schema, only_object=False)
    assert lowered.admits("a") == (not is_checked)
    assert [f.keyword for f in lowered.report.checked] == ["contentEncoding"] * is_checked


@pytest.mark.parametrize("keyword", ["pattern", "format"])
def test_what_is_refused_of_characters_is_told(keyword: str) -> None:
    values = {"pattern": r"^\p{L}\p{L}\p{L}\p{L}\p{L}$", "format": "email"}
    found = lower({"type": "string", keyword: values[keyword]}, only_object=False).report
    assert [f.keyword for f in found.narrowed] == [keyword]


MULTIPLE = {"type": "integer", "multipleOf": 3}


@pytest.mark.parametrize(
    ("first", "second", "is_told"),
    [
        ({"type": "string"}, MULTIPLE, True),
        ({"type": "array"}, {"type": "string"}, True),
        ({"type": ["string", "object"]}, {"type": "string"}, True),
        ({"type": "string"}, {"type": "integer"}, False),
        ({"type": "array"}, MULTIPLE, False),
        ({"type": ["string", "array"]}, {"type": ["string", "array"]}, False),
    ],
)
def test_what_raw_text_covers_in_another_object_is_told(
    first: Any, second: Any, *, is_told: bool
) -> None:
    parts: list[Any] = []
    for kind, value in (("a", first), ("b", second)):
        parts.append({"properties": {"value": value, "kind": {"const": kind}}})
    whole = {"type": "object", "properties": {"kind": {}}, "required": ["kind"]}
    condition = {"if": parts[0], "then": parts[0], "else": parts[1]}
    for keyword, schema in (("oneOf", {**whole, "oneOf": parts}), ("if", {**whole, **condition})):
        told = [f.keyword for f in lower(schema).report.narrowed if "'value'" in f.reason]
        assert told == [keyword] * is_told


def test_the_places_of_a_report_are_in_the_document() -> None:
    """Conjunctions of alternatives are multiplied out: what is made so has no place of its own."""
    choices: list[Any] = []
    for number in range(8):
        required = [{"required": [f"{key}{number}"]} for key in "ab"]
        choices.append({"anyOf": [*required, {"pattern": "(x)\\1"}]})
    found = lower({"type": "object", "properties": {"v": {"allOf": choices}}}).report
    places = {finding.pointer for finding in (*found.enforced, *found.checked)}
    assert places <= {"", "/properties/v"}
    assert len(found.checked) <= 3


def test_each_keyword_of_a_place_is_listed_once_in_all() -> None:
    parts = [{"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, {"oneOf": [{"pattern": "c"}, {}]}]
    found = lower({"type": "object", "properties": {"v": {"allOf": parts}}}).report
    listed = [(f.pointer, f.keyword) for f in (*found.enforced, *found.checked)]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    "nothing",
    [
        {"enum": []},
        {"not": {}},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"$ref": "#/$defs/endless"},
    ],
)
def test_an_optional_key_that_nothing_fits_is_reported(nothing: Any) -> None:
    endless = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"$ref": "#/$defs/endless"}},
    }
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"properties": {"b": nothing, "c": {}}}}},
        "$defs": {"endless": endless},
    }
    lowered = lower(schema)
    found = [finding.pointer for finding in lowered.report.enforced if finding.reason]
    assert found == ["/properties/a/items/properties/b"]
    with pytest.raises(SchemaError, match="nothing fits /properties/b"):
        lower({"properties": {"b": nothing}, "required": ["b"], "$defs": schema["$defs"]})


def test_a_key_that_is_forbidden_or_that_one_alternative_lacks_is_not_reported() -> None:
    kinds = [
        {"properties": {"k": {"const": "a"}, "x": {"not": {}}}},
        {"properties": {"k": {"const": "b"}}, "required": ["x"]},
    ]
    declared = {"k": {"enum": ["a", "b"]}, "x": {"type": "integer"}, "y": False}
    schema = {"type": "object", "properties": declared, "required": ["k"], "allOf": [
        {"if": kinds[0], "then": kinds[0], "else": kinds[1]}]}  # fmt: skip
    assert not any(finding.reason for finding in lower(schema).report.enforced)


def test_the_reason_of_a_keyword_that_the_draft_does_not_have_is_said_once() -> None:
    draft = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    names = {"b": {"propertyNames": {"pattern": "^(a)\\1"}}}
    report = lower({**draft, "properties": names}).report
    (finding,) = report.ignored
    assert "propertyNames" not in {enforced.keyword for enforced in report.enforced}
    assert finding.reason == "not enforced by the mask, and not checked: not in this draft"
