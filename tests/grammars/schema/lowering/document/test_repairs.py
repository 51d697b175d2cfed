"""Schemas that contradict themselves although it is plain what they mean."""

from contextlib import suppress
from typing import Any

import pytest

from grammars.errors import SchemaError
from grammars.schema.lowering.document.reached import drop_unused
from grammars.schema.lowering.document.reading import read_document
from grammars.schema.lowering.document.repairs import repair
from grammars.schema.lowering.lower import lower

DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "meant", "keywords"),
    [
        ({"type": "STRING"}, {"type": "string"}, ["type"]),
        ({"type": "dict"}, {"type": "object"}, ["type"]),
        ({"type": "Option<HashMap<String, i64>>"},
         {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}},
                    {"type": "null"}]}, ["type"]),
        ({"type": "frozenset[Guid]"},
         {"type": "array", "items": {"type": "string", "format": "uuid"}}, ["type"]),
        ({"type": ["float", "None"]}, {"type": ["number", "null"]}, ["type"]),
        ({"type": ["string", "string"]}, {"type": ["string"]}, ["type"]),
        ({"type": "any", "title": "t"}, {"title": "t"}, ["type"]),
        ({"type": "integer", "const": "5"}, {"type": "integer", "const": 5}, ["const"]),
        ({"properties": []}, {"properties": {}}, ["properties"]),
        ({"properties": {"a": []}, "additionalProperties": []},
         {"properties": {"a": {}}, "additionalProperties": {}},
         ["additionalProperties", "properties"]),
        ({"pattern": r"^[\w-\.]+@[a-\d]\[x-\d$"}, {"pattern": r"^[\w\-\.]+@[a\-\d]\[x-\d$"},
         ["pattern"]),
        ({"pattern": r"[^\\\w-.^-\d]"}, {"pattern": r"[^\\\w\-.^\-\d]"}, ["pattern"]),
        ({"type": "integer", "enum": ["1", "2", "any"]}, {"enum": [1, 2, "any"]}, ["enum"]),
        ({"type": "integer", "enum": ["1", "-2"]}, {"type": "integer", "enum": [1, -2]}, ["enum"]),
        ({"type": "number", "enum": ["0.5", "2"]}, {"type": "number", "enum": [0.5, 2]}, ["enum"]),
        ({"type": "number", "enum": ["nan", "Infinity", "1e999", "1"]},
         {"enum": ["nan", "Infinity", "1e999", 1]}, ["enum"]),
        ({"type": "integer", "enum": ["1_0", "1"]}, {"enum": ["1_0", 1]}, ["enum"]),
        ({"type": "boolean", "enum": ["True", "false"]},
         {"type": "boolean", "enum": [True, False]}, ["enum"]),
        ({"type": "array", "enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}, ["enum"]),
        ({"type": "array", "enum": ["a"], "items": {"type": "string"}},
         {"type": "array", "items": {"type": "string", "enum": ["a"]}}, ["enum"]),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}, ["nullable"]),
        ({"enum": ["a"], "nullable": True}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]},
         ["nullable"]),
        ({"type": "string", "$ref": "#/a", "nullable": True},
         {"anyOf": [{"type": "string", "$ref": "#/a"}, {"type": "null"}]}, ["nullable"]),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, ["exclusiveMinimum"]),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}, ["exclusiveMaximum"]),
        ({"properties": {"a": {"type": "null", "required": True}, "b": {"required": False}}},
         {"properties": {"a": {"type": "null"}, "b": {}}, "required": ["a"]}, ["required"]),
        ({"type": "string", "required": True}, {"type": "string"}, ["required"]),
        ({"type": "string", "description": None}, {"type": "string"}, ["description"]),
        ({"items": {"type": "int"}}, {"items": {"type": "integer"}}, ["type"]),
        ({"type": ["str", "NoneType"]}, {"type": ["string", "null"]}, ["type"]),
        ({"type": "date"}, {"type": "string", "format": "date"}, ["type"]),
        ({"type": "datetime", "format": "date"}, {"type": "string", "format": "date"}, ["type"]),
        ({"type": "string|null"}, {"type": ["string", "null"]}, ["type"]),
        ({"type": "string, number"}, {"type": ["string", "number"]}, ["type"]),
        ({"type": "integer?"}, {"type": ["integer", "null"]}, ["type"]),
        ({"type": "string[]"}, {"type": "array", "items": {"type": "string"}}, ["type"]),
        ({"type": "<class 'int'>"}, {"type": "integer"}, ["type"]),
        ({"type": "typing.Optional[typing.List[str]]"},
         {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}, ["type"]),
        ({"type": "Union[int, Dict[str, Any]]"},
         {"anyOf": [{"type": "integer"}, {"type": "object", "additionalProperties": {}}]},
         ["type"]),
        ({"type": "array<number>", "minItems": 1},
         {"type": "array", "items": {"type": "number"}, "minItems": 1}, ["type"]),
        ({"type": "list[int]", "items": {"minimum": 1}},
         {"type": "array", "items": {"minimum": 1}}, ["type"]),
        ({"type": "enum", "enum": ["a"]}, {"enum": ["a"]}, ["type"]),
        ({"type": "Literal['a', \"b's\", -1.5, True, None]"},
         {"enum": ["a", "b's", -1.5, True, None]}, ["type"]),
        ({"type": "'asc' | 'desc'"}, {"enum": ["asc", "desc"]}, ["type"]),
        ({"type": "List['a' | 'b' | None]"},
         {"type": "array", "items": {"enum": ["a", "b", None]}}, ["type"]),
        ({"type": "Optional[Literal[1]]"}, {"anyOf": [{"enum": [1]}, {"type": "null"}]}, ["type"]),
        ({"type": "int or None"}, {"type": ["integer", "null"]}, ["type"]),
        ({"type": "list of strings"}, {"type": "array", "items": {"type": "string"}}, ["type"]),
        ({"type": "str, optional"}, {"type": "string"}, ["type"]),
        ({"type": "number (optional)"}, {"type": "number"}, ["type"]),
        ({"type": "Dict[str, Optional[int]], Optional"},
         {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}, ["type"]),
        ({"type": "Literal['asc (optional)', 'b, optional']"},
         {"enum": ["asc (optional)", "b, optional"]}, ["type"]),
        ({"type": ["string", {"minimum": 1}]}, {"anyOf": [{"type": "string"}, {"minimum": 1}]},
         ["type"]),
        ({"type": ""}, {}, ["type"]),
        ({"type": "string", "anyOf": [], "allOf": []}, {"type": "string"}, ["allOf", "anyOf"]),
        ({"properties": {"a": "string", "b": None}},
         {"properties": {"a": {"type": "string"}, "b": {}}}, ["properties"]),
        ({"items": "int"}, {"items": {"type": "integer"}}, ["items"]),
        ({"anyOf": ["string", {"minimum": 1}]}, {"anyOf": [{"type": "string"}, {"minimum": 1}]},
         ["anyOf"]),
        ({"minimum": "0", "maximum": "1.5", "multipleOf": "x"},
         {"minimum": 0, "maximum": 1.5, "multipleOf": "x"}, ["minimum", "maximum"]),
        ({"maxLength": "5", "uniqueItems": "true"}, {"maxLength": 5, "uniqueItems": True},
         ["maxLength", "uniqueItems"]),
        ({"additionalProperties": "False"}, {"additionalProperties": False},
         ["additionalProperties"]),
        ({"properties": {"a": {"required": "true"}}}, {"properties": {"a": {}}, "required": ["a"]},
         ["required"]),
        ({"properties": {"a": {}}, "required": "a"}, {"properties": {"a": {}}, "required": ["a"]},
         ["required"]),
        ({"dependencies": {"a": "b"}}, {"dependencies": {"a": ["b"]}}, ["dependencies"]),
        ({"title": 3, "description": ["a"], "examples": "x", "deprecated": "no"}, {},
         ["title", "description", "examples", "deprecated"]),
        ({"pattern": r"\A[\A]\Z"}, {"pattern": r"^[\A]$"}, ["pattern"]),
        ({"pattern": r"/^\d+$/i"}, {"pattern": r"(?i)^\d+$"}, ["pattern"]),
        ({"$schema": DRAFT_2020, "items": [{}], "additionalItems": False},
         {"$schema": DRAFT_2020, "prefixItems": [{}], "items": False}, ["items"]),
        ({"$schema": DRAFT_3, "divisibleBy": 2, "extends": {"minimum": 1}, "disallow": "null"},
         {"$schema": DRAFT_4, "multipleOf": 2, "allOf": [{"minimum": 1}], "not": {"type": "null"}},
         ["divisibleBy", "extends", "disallow", "$schema"]),
        ({"$schema": DRAFT_3, "format": "ip-address"}, {"$schema": DRAFT_4, "format": "ipv4"},
         ["format", "$schema"]),
    ],
)  # fmt: skip
def test_what_is_plainly_meant_is_read(schema: Any, meant: Any, keywords: list[str]) -> None:
    repaired, findings = repair(schema)
    assert repaired == meant
    assert [finding.keyword for finding in findings] == keywords


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "objekt"},
        {"type": "'string'"},
        {"type": "5"},
        {"type": "Literal[a, 'b']"},
        {"type": "List['Item']"},
        {"type": "'Item'[]"},
        {"type": "list of 'Item'"},
        {"type": "Dict[str, 'Item']"},
        {"type": "Optional['Item']"},
        {"type": "'Item' | None"},
        {"type": "int | 'Item'"},
        {"type": "Union['Item', 'User']"},
        {"type": "Union[[], int]"},
        {"type": "string of lists"},
        {"pattern": r"^[\\w-z]+[^-\w][^-a\\d-f][\d-]$"},
        {"type": "string", "const": 5},
        {"type": "integer", "enum": [1, "2"]},
        {"type": "string", "enum": [1]},
        {"type": "object", "enum": ["a"]},
        {"type": "array", "enum": [["a"]]},
        {"properties": {"nullable": {"type": "boolean"}, "required": {}, "type": {"enum": ["a"]}}},
        {"enum": [{"type": "dict"}, None], "default": None, "const": None},
        {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True},
    ],
)
def test_what_says_what_it_means_is_left_alone(schema: Any) -> None:
    repaired, findings = repair(schema)
    assert repaired is schema
    assert findings == ()


def test_repairs_are_reported_with_their_place() -> None:
    schema = lower({"type": "object", "properties": {"n": {"type": "integer", "enum": ["1"]}}})
    assert [(f.pointer, f.keyword) for f in schema.report.repaired] == [("/properties/n", "enum")]
    assert schema.admits({"n": 1})
    assert not schema.admits({"n": "1"})


def test_old_drafts() -> None:
    old = {"$schema": DRAFT_3, "properties": {"a": {"type": "string", "required": True}}}
    document, findings, _, _ = read_document(old)
    assert document["$schema"] == DRAFT_4
    assert {f.keyword for f in findings} == {"$schema", "required"}
    document, findings, _, _ = read_document({"items": [{"type": "null"}]})
    assert document["$schema"] == DRAFT_7
    assert [f.keyword for f in findings] == ["$schema"]
    empty = {"$schema": DRAFT_4, "type": "object", "required": []}
    assert lower(empty, close=False).admits({})


def test_what_is_no_keyword_is_listed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "minimun": 1, "x-a": 2}}}
    ignored = lower(schema).report.ignored
    assert [(f.pointer, f.keyword) for f in ignored] == [("/properties/a", "minimun")]


@pytest.mark.parametrize(
    "rubbish",
    [1, "a", [], [1], {"a": 1}, {"a": "b"}, {"type": 1}, None, {"": [None]}, ["String", {}]],
)
@pytest.mark.parametrize(
    "keyword",
    "type enum const properties required items allOf anyOf not if nullable $ref $id $anchor "
    "minimum exclusiveMinimum pattern format dependencies patternProperties propertyNames "
    "additionalProperties oneOf $defs multipleOf uniqueItems $schema dependentRequired then "
    "contains dependentSchemas prefixItems minContains unevaluatedItems "
    "unevaluatedProperties".split(),
)
def test_rubbish_is_refused_or_read(keyword: str, rubbish: Any) -> None:
    base = {"contains": {"type": "integer"}, "if": {"required": ["a"]}}
    old: Any = {"$schema": DRAFT_4, **base, keyword: rubbish}
    for schema in ({keyword: rubbish}, {"type": "object", keyword: rubbish, "properties": {}}, old):
        with suppress(SchemaError):
            lower(schema, only_object=False)


NAMED = {"Item": {"type": "object", "properties": {"n": {"type": "integer"}}}}


@pytest.mark.parametrize(
    ("schema", "at", "meant"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/Item", "$defs": NAMED}}}, "a",
         "#/properties/a/$defs/Item"),
        ({"properties": {"a": {"items": {"$ref": "#/definitions/Item"}, "definitions": NAMED}}},
         "a/items", "#/properties/a/definitions/Item"),
        ({"properties": {"a": {"$ref": "#/definitions/Item"}}, "$defs": NAMED}, "a",
         "#/$defs/Item"),
        ({"properties": {"a": {"$ref": "#/components/schemas/Item"}}, "definitions": NAMED}, "a",
         "#/definitions/Item"),
        ({"properties": {"a": {"$ref": "Item"}}, "$defs": NAMED}, "a", "#/$defs/Item"),
        ({"properties": {"a": {"$ref": "/$defs/Item"}}, "$defs": NAMED}, "a", "#/$defs/Item"),
        ({"properties": {"a": {"items": {"$ref": "2/b~1c"}}, "b/c": {}}}, "a/items",
         "#/properties/b~1c"),
        ({"properties": {"a": {"items": {"$ref": "3"}}}}, "a/items", "#"),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_mended(schema: Any, at: str, meant: str) -> None:
    document, findings, problem, _ = read_document(schema)
    assert problem is None
    assert [(finding.keyword, finding.reason) for finding in findings] == [
        ("$ref", f"leads nowhere, read as {meant}")
    ]
    part = document["properties"]
    for step in at.split("/"):
        part = part[step]
    assert part["$ref"] == meant
    lowered = lower({"type": "object", **schema})
    assert lowered.report.repaired


@pytest.mark.parametrize(
    "reference",
    [
        "0", "9/a", "2/nothing", "#Item", "https://a.b/Item", "Other", "#/$defs/Twice",
        "#/$defs/Item/x",
        "#/properties/owner/properties/Item", "#/properties/Item",
    ],
)  # fmt: skip
def test_a_reference_that_may_mean_two_things_or_nothing_is_refused(reference: str) -> None:
    twice = {"$defs": {**NAMED, "Item2": {}}, "definitions": {"Twice": {}}}
    twice["components"] = {"schemas": {"Twice": {"type": "null"}}}
    with pytest.raises(SchemaError):
        lower({"properties": {"a": {"$ref": reference}}, **twice})


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": {"x": {"properties": {"a": {"$ref": "#/properties/a"}}}}},
         "/properties/x/properties/a/$ref"),
        ({"$defs": {"a": {"$ref": "a"}}, "properties": {"x": {"$ref": "#/$defs/a"}}},
         "/$defs/a/$ref"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "a"}, {}]}}, "properties": {"x": {"$ref": "a"}}},
         "/$defs/a/anyOf/0/$ref"),
        ({"$defs": {"a": {"$ref": "b"}, "b": {"$ref": "#/$defs/c"}, "c": {"$ref": "a"}},
          "properties": {"x": {"$ref": "b"}}}, "/$defs/c/$ref"),
        ({"properties": {"x": {"type": "object", "properties": {
            "type": "object", "properties": {"city": {"type": "string"}}}}}},
         "/properties/x/properties/type"),
    ],
)  # fmt: skip
def test_what_has_no_sensible_meaning_is_refused_with_its_place(schema: Any, where: str) -> None:
    with pytest.raises(SchemaError) as caught:
        lower({"type": "object", **schema})
    assert caught.value.where == where


def test_a_long_chain_of_names_is_followed_once() -> None:
    names = {f"a{i}": {"$ref": f"a{i + 1}"} for i in range(400)}
    document, findings, _, _ = read_document(
        {"$ref": "#/$defs/a0", "$defs": {**names, "a400": {"type": "string"}}}
    )
    assert len(findings) == 400
    assert document["$defs"]["a0"] == {"$ref": "#/$defs/a1"}


NAMES = [
    "My Type", "List<string>", "Foo[Bar]", "Dict`2", "Größe", "用户", "100%", "x#y", "a|b", 'q"t',
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("draft", [{}, {"$schema": DRAFT_7}])
def test_a_reference_may_have_characters_that_no_uri_has(name: str, draft: Any) -> None:
    schema = lower(
        {
            **draft,
            "type": "object",
            "properties": {"a": {"$ref": f"#/definitions/{name}"}},
            "definitions": {name: {"type": "integer"}},
        }
    )
    assert [finding.keyword for finding in schema.report.repaired] == ["$ref"]
    assert schema.admits({"a": 1})
    assert not schema.admits({"a": "1"})


def test_a_reference_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SchemaError):
        lower({"type": "object", "properties": {"a": {"$ref": "#/$defs/\ud800"}}})


@pytest.mark.parametrize(
    ("given", "draft"),
    [
        ("https://json-schema.org/v1", DRAFT_2020),
        ("https://json-schema.org/v1/2026", DRAFT_2020),
        ("https://spec.openapis.org/oas/3.1/dialect/2024-11-10", DRAFT_2020),
        ("https://json-schema.org/draft/2020-12/schema/", DRAFT_2020),
        ("http://json-schema.org/draft-07/hyper-schema#", DRAFT_7),
        ("http://www.json-schema.org/draft-07/schema#", DRAFT_7),
        (" HTTP://json-schema.org/draft-07/schema# ", DRAFT_7),
        ("http://json-schema.org/draft-05/schema#", DRAFT_4),
    ],
)
def test_drafts_by_other_spellings_of_their_names(given: str, draft: str) -> None:
    document, findings, problem, _ = read_document({"$schema": given, "type": "object"})
    assert problem is None
    assert document["$schema"] == draft
    assert [finding.keyword for finding in findings] == ["$schema"]


DATA = [{"$ref": "#/$defs/data"}]


@pytest.mark.parametrize(
    ("part", "is_used"),
    [
        ({"properties": {"enum": {"items": DATA[0]}}}, True),
        ({"x-unknown": {"enum": DATA}}, True),
        ({"anyOf": [{"not": DATA[0]}]}, True),
        ({"$ref": "#/$defs/group/default"}, True),
        ({"$ref": "#/$defs/group%2Fdefault"}, True),
        ({"$ref": "#/properties/a/default", "default": DATA[0]}, True),
        ({"allOf": [{"$ref": "#/properties/a/allOf/1/enum/0"}, {"enum": DATA}]}, True),
        ({"$ref": "#/properties/default"}, False),
    ],
)
def test_a_definition_that_a_reference_names_is_used(part: Any, is_used: bool) -> None:
    group = {"default": {"not": DATA[0]}}
    definitions = {"data": {"type": "string"}, "group": group}
    document = drop_unused({"properties": {"a": part}, "$defs": definitions})
    assert ("data" in document["$defs"]) is is_used


def test_definitions_that_nothing_refers_to_are_not_read() -> None:
    definitions = {
        "used": {"properties": {"b": {"$ref": "#/definitions/a~1b%20c"}}},
        "a/b c": {"type": "null"},
        "note": "no schema",
        "unused": {"$ref": "#/definitions/nowhere"},
    }
    root = {"type": "object", "properties": {"a": {"$ref": "#/definitions/used"}}}
    for draft in ({}, {"$schema": DRAFT_7}):
        document, findings, problem, _ = read_document(
            {**draft, **root, "definitions": definitions}
        )
        assert problem is None
        assert findings == ()
        assert document["definitions"].keys() == {"used", "a/b c"}
        for name in ("#anchor", "/path.json", "used"):
            named = {**draft, **root, "definitions": definitions, "not": {"$ref": name}}
            assert read_document(named).problem is not None
