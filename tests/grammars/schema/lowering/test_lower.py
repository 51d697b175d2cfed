"""JSON Schema as the mask sees it: what becomes of each keyword, and what is refused."""

from typing import Any

import pytest

from grammars.errors import SchemaError
from grammars.regex.texts import Texts
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Extra,
    Null,
    Number,
    Object,
    Reference,
    Schema,
    String,
    Union,
)


def lower_value(schema: Any, **definitions: Any) -> Schema:
    """The lowered schema of a property."""
    root = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    member = lower(root | ({"$defs": definitions} if definitions else {})).find_members("v")[0]
    assert member is not None
    return member


def checked(schema: Schema) -> list[tuple[str, str]]:
    return [(f.pointer, f.keyword) for f in schema.report.checked]


@pytest.mark.parametrize(
    ("schema", "node"),
    [
        (True, AnyValue()),
        ({}, AnyValue()),
        ({"description": "d"}, AnyValue()),
        ({"type": "string"}, String()),
        ({"type": "string", "minLength": 1, "maxLength": 3.0}, String(1, 3)),
        ({"type": "boolean"}, Boolean()),
        ({"type": "null"}, Null()),
        ({"type": "integer", "minimum": 1}, Number(True, {"minimum": 1})),
        ({"type": ["number", "null"]}, Union((Number(), Null()))),
        ({"type": "array"}, Array()),
        ({"type": "array", "items": {"type": "null"}, "minItems": 1}, Array((), Null(), 1)),
        ({"type": "array", "items": False}, Array((), None, 0, 0)),
        ({"prefixItems": [{"type": "null"}], "type": "array"}, Array((Null(),))),
        ({"type": "array", "prefixItems": [False]}, Array((), None, 0, 0)),
        ({"enum": [1, 1, "a"]}, Constant((1, "a"))),
        ({"const": None}, Constant((None,))),
        ({"enum": [1, "a", None], "type": "string"}, Constant(("a",))),
        ({"enum": ["a", "bb"], "minLength": 2}, Constant(("bb",))),
        ({"type": "number", "enum": [1, True]}, Constant((1,))),
        ({"anyOf": [{"type": "null"}, False]}, Null()),
        ({"type": "string", "oneOf": [{"minLength": 2}, {"const": ""}]},
         Union((String(2), Constant(("",))))),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["null", "array"]}]}, Null()),
        ({"allOf": [True, {"type": "null"}]}, Null()),
        ({"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    {"anyOf": [{"type": "string"}, {"type": "null"}]}]}, String()),
        ({"anyOf": [{"type": "null"}], "oneOf": [{"type": ["null", "string"]}]}, Null()),
    ],
)  # fmt: skip
def test_values_are_lowered(schema: Any, node: Any) -> None:
    assert lower_value(schema).node == node


def test_objects_that_declare_properties_are_closed_unless_they_say_otherwise() -> None:
    declares = {"type": "object", "properties": {"a": {}}}
    a = (lower({"type": "object", "properties": {"a": {}}}).node,)
    assert a[0].additional is None
    assert lower(declares, close=False).node.additional == AnyValue()
    assert lower(declares | {"additionalProperties": True}).node.additional == AnyValue()
    assert lower(declares | {"additionalProperties": {"type": "null"}}).node.additional == Null()
    assert lower({"type": "object"}).node == Object()
    assert lower(True).node == Object()


def test_undeclared_keys_are_found_where_the_object_is_closed() -> None:
    items = {"type": "array", "prefixItems": [{"properties": {"a": {}}}], "items": {"type": "null"}}
    schema = lower({"type": "object", "properties": {"b": items, "c": {"type": "object"}}})
    assert schema.admits({"b": [{"a": 1}, None], "c": {"x": 1}})
    assert [e.pointer for e in schema.find_errors({"b": [{"x/y": 1}]})] == ["/b/0/x~1y"]
    assert [e.pointer for e in schema.find_errors({"z": 1})] == ["/z"]
    closed = lower({"type": "object", "properties": {"b": {"type": "array", "items": False}}})
    assert not closed.admits({"b": [1]})


def test_a_key_of_an_enum_is_declared() -> None:
    union = {"anyOf": [{"enum": [{"a": 1}]}, {"type": "object", "properties": {}}]}
    assert lower({"type": "object", "properties": {"v": union}}).admits({"v": {"a": 1}})


def test_pattern_properties_of_a_closed_object() -> None:
    schema = lower(
        {
            "type": "object",
            "patternProperties": {"^x": {"type": "string"}},
            "additionalProperties": False,
        }
    )
    (extra,) = schema.objects[0].extras
    assert extra == Extra(String(), {"type": "string"}, Texts(("x(?s:.)*",)))
    assert not checked(schema)


def test_all_of_is_one_object() -> None:
    schema = lower(
        {
            "allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["b"]}],
            "properties": {"b": {"type": "null"}, "a": {"minLength": 1}},
        }
    )
    assert isinstance(schema.node, Object)
    keys = [(p.key, p.node, p.required) for p in schema.node.properties]
    assert keys == [("b", Null(), True), ("a", String(1), False)]
    assert schema.node.additional is None


def test_a_closed_part_closes_the_whole() -> None:
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    schema = lower({"allOf": [closed, {"properties": {"b": {}}}]})
    assert [p.key for p in schema.node.properties] == ["a"]
    with pytest.raises(SchemaError, match="allows no object"):
        lower({"allOf": [closed, {"properties": {"b": {}}, "required": ["b"]}]})


def test_branches_are_lowered_with_what_stands_beside_them() -> None:
    schema = lower(
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "anyOf": [{"required": ["a"], "properties": {"a": True}}, {"required": ["b"]}],
        }
    )
    assert isinstance(schema.node, Union)
    required = [[p.key for p in b.properties if p.required] for b in schema.node.branches]
    assert required == [["a"], ["b"]]


def test_references() -> None:
    assert lower_value({"$ref": "#/$defs/A"}, A={"type": "null"}).node == Reference("#/$defs/A")
    pydantic = {"allOf": [{"$ref": "#/$defs/A"}], "description": "d", "default": None}
    assert lower_value(pydantic, A={"type": "null"}).node == Reference("#/$defs/A")
    beside = {"$ref": "#/$defs/A", "minLength": 2}
    assert lower_value(beside, A={"type": "string"}).node == String(2)
    odd = {"a/b": {"anyOf": [{"properties": {"c%": {"type": "null"}}}]}}
    pointer = "#/$defs/a~1b/anyOf/0/properties/c%25"
    assert lower_value({"$ref": pointer}, **odd).definitions == {pointer: Null()}


def test_before_2019_nothing_counts_beside_a_reference() -> None:
    root = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"v": {"$ref": "#/definitions/A", "minLength": 2}},
        "definitions": {"A": {"type": "string"}},
    }
    assert lower(root).node.properties[0].node == Reference("#/definitions/A")
    root["properties"] = {"v": {"allOf": [{"$ref": "#/definitions/A", "minLength": 2}, {}]}}
    assert lower(root).node.properties[0].node == String()


@pytest.mark.parametrize(
    "following",
    [
        {"$ref": "#/$defs/A"},
        {"$ref": "#/$defs/A", "minProperties": 1},
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
        {"anyOf": [{"$ref": "#/$defs/A", "maxProperties": 3}, {"type": "null"}]},
    ],
)
def test_recursion_ends(following: Any) -> None:
    a = {"type": "object", "properties": {"x": following, "y": {"type": "null"}}}
    b = {"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}}
    schema = lower_value(following, A=a, B=b)
    assert schema.definitions
    assert schema.admits({"x": {"y": None}})


def test_a_reference_to_itself_says_nothing() -> None:
    assert lower({"$ref": "#"}).node == Object()
    assert lower_value({"$ref": "#/$defs/A", "minLength": 1}, A={"type": "string"}).node == String(
        1
    )


@pytest.mark.parametrize(
    ("schema", "where", "words"),
    [
        ([], "", "an object, true or false"),
        (False, "", "allows no object"),
        ({"type": "string"}, "", "allows no object"),
        ({"const": {}}, "", "enum or const"),
        ({"anyOf": [{"type": "object"}, {"enum": [{}]}]}, "", "enum or const"),
        ({"type": "objekt"}, "/type", 'JSON Schema: "objekt" is none of "array", "boolean"'),
        ({"type": ["string", "objekt"]}, "/type/1", '"objekt" is none of "array"'),
        ({"properties": {"a/b": {"minLength": -1}}}, "/properties/a~1b/minLength", "minimum"),
        ({"properties": {"a": {"pattern": "["}}}, "/properties/a/pattern", "regex"),
        ({"$schema": "https://no.where/schema"}, "/$schema", "not a JSON Schema: .* known draft"),
        ({"$schema": 7}, "/$schema", r"not a JSON Schema: \$schema must be a text"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "/properties/a/$ref", "points to nothing"),
        ({"properties": {"a": {"$ref": "#/type/3"}}, "type": "object"}, "/properties/a/$ref",
         "points to nothing"),
        ({"allOf": [{}], "properties": {"a": {"type": "null", "$ref": "#/allOf/²"}}},
         "/properties/a/$ref", "points to nothing"),
        ({"properties": {"a": {"$ref": "//["}}, "$id": "https://no.where"}, "/properties/a/$ref",
         "not local"),
        ({"properties": {"a": {"$ref": "//["}}, "$id": "https://["}, "/properties/a/$ref",
         "not local"),
        ({"dependentRequired": {"a": "b"}}, "/dependentRequired/a", "not of type"),
        ({"properties": {"a": {"$ref": "#b"}}, "$defs": {"b": {"$anchor": "c"}}},
         "/properties/a/$ref", "anchor"),
        ({"properties": {"a": {"items": [{}]}, "b": {"type": "file"}}}, "/properties/b/type",
         '"file" is none of'),
        ({"properties": {"a": {"items": [{}]}}, "$defs": {"b": {"type": "file"}},
          "not": {"$ref": "#/$defs/b"}}, "/$defs/b/type", '"file" is none of'),
        ({"properties": {"a": {"$ref": "https://no.where/s"}}}, "/properties/a/$ref", "not local"),
        ({"properties": {"a": {"not": {"$ref": "https://no.where/s"}}}}, "/properties/a/$ref",
         "not local"),
        ({"properties": {"a": {"enum": [1], "not": {"$ref": "https://no.where/s"}}}},
         "/properties/a", "another document"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(schema: Any, where: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as info:
        lower(schema)
    assert info.value.where == where


def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: Any = {}
    for _ in range(400):
        schema = {"properties": {"a": schema}}
    with pytest.raises(SchemaError, match="too deeply"):
        lower(schema)


def test_the_cause_of_an_empty_schema_is_named() -> None:
    inner = {"type": "object", "properties": {"b": {"not": {}}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    with pytest.raises(SchemaError, match="nothing fits") as info:
        lower(schema)
    assert info.value.where == "/properties/a/properties/b"


def test_a_key_that_is_required_but_not_declared_is_declared() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    node = lower(schema).node
    assert isinstance(node, Object)
    assert [(p.key, p.required) for p in node.properties] == [("a", True), ("b", True)]
    assert node.additional is None
    assert lower(schema).admits({"a": "x", "b": [1]})
    with pytest.raises(SchemaError, match="nothing fits /properties/b"):
        lower(schema | {"additionalProperties": False})


@pytest.mark.parametrize(
    "wrong", [{"items": 0}, {"minimum": "x"}, {"properties": {"a": {"items": 0}}}, {"enum": 3}]
)
def test_what_is_no_schema_is_none_in_defs_either(wrong: Any) -> None:
    """Draft 7, which documents of no draft may be meant for, does not know `$defs`."""
    with pytest.raises(SchemaError, match="not a JSON Schema"):
        lower({"$ref": "#/$defs/a", "$defs": {"a": wrong}}, only_object=False)


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("a(b", "at character 2: the group is not closed"),
        ("x[z-a]", "at character 3: the range is out of order"),
        ("a{2,1}", "at character 2: the numbers of the quantifier are out of order"),
    ],
)
def test_the_error_of_a_pattern_says_the_place_in_it(pattern: str, fault: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with pytest.raises(SchemaError, match=fault) as caught:
            lower(schema, only_object=False)
        assert str(caught.value.where).startswith("/pattern")
