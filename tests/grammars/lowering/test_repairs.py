"""Schemas that contradict themselves although it is plain what they mean."""

from contextlib import suppress
from typing import Any

import pytest

from grammars.errors import SchemaError
from grammars.lowering.document.reading import read_document
from grammars.lowering.document.repairs import repair
from grammars.lowering.lower import lower

DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "meant", "keywords"),
    [
        ({"type": "STRING"}, {"type": "string"}, ["type"]),
        ({"type": "dict"}, {"type": "object"}, ["type"]),
        ({"type": ["float", "None"]}, {"type": ["number", "null"]}, ["type"]),
        ({"type": "any", "title": "t"}, {"title": "t"}, ["type"]),
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
    document, findings, _ = read_document(old)
    assert document["$schema"] == DRAFT_4
    assert {f.keyword for f in findings} == {"$schema", "required"}
    document, findings, _ = read_document({"items": [{"type": "null"}]})
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
