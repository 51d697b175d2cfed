"""Which keys an object may have; lists without repetitions; references by name."""

from typing import Any

import jsonschema_rs
import pytest

from constrained.inspect.replay.schemas import InstanceTrial
from grammars.errors import SchemaError
from grammars.schema.lowering.document.reading import read_document
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.nodes.keys import is_universal
from grammars.schema.lowering.nodes.listed import list_choices
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Null,
    Number,
    Schema,
    String,
    Union,
)
from grammars.schema.subschemas import find_keyword

OBJECT = {"type": "object"}


def lower_open(schema: Any) -> Schema:
    return lower(schema, close=False)


def checked(schema: Schema) -> set[str]:
    return {finding.keyword for finding in schema.report.checked}


@pytest.mark.parametrize("pattern", ["", "^", "$", ".*", "^[\\s\\S]*$", "^[a-z]*", "a|"])
def test_patterns_that_match_every_key(pattern: str) -> None:
    assert is_universal(pattern)
    schema = lower_open({**OBJECT, "patternProperties": {pattern: {"type": "null"}}})
    assert schema.node.additional == Null()
    assert not checked(schema)


@pytest.mark.parametrize("pattern", ["a", ".+", "^[a-z]*$"])
def test_patterns_that_tell_keys_apart(pattern: str) -> None:
    assert not is_universal(pattern)
    schema = lower_open({**OBJECT, "patternProperties": {pattern: {"type": "null"}}})
    matching, others = schema.node.extras
    assert (matching.node, others.node) == (Null(), AnyValue())
    assert matching.keys.accepts("a")
    assert others.keys.accepts("1") == (pattern != ".+")
    assert not checked(schema)


@pytest.mark.parametrize("pattern", ["(a|b)\\1", "(?!(a)\\1)"])
def test_patterns_that_cannot_be_read(pattern: str) -> None:
    schema = lower_open({**OBJECT, "patternProperties": {pattern: {"type": "null"}}})
    assert schema.node.additional == Union((Null(), AnyValue()))
    assert checked(schema) == {"patternProperties", "additionalProperties"}


def test_declared_keys_that_match_a_pattern() -> None:
    schema = lower_open(
        {
            **OBJECT,
            "properties": {"ab": {"type": "string"}, "b": {}},
            "patternProperties": {"^a": {"minLength": 2}},
            "required": ["ac"],
        }
    )
    nodes = {p.key: p.node for p in schema.node.properties}
    assert nodes["ab"] == String(2)
    assert nodes["b"] == AnyValue()
    assert list(nodes) == ["ab", "b", "ac"]


def test_names_that_are_listed() -> None:
    schema = lower_open(
        {
            **OBJECT,
            "properties": {"a": {"type": "null"}, "no": {}},
            "propertyNames": {"enum": ["a", "b", 1]},
            "additionalProperties": {"type": "integer"},
        }
    )
    nodes = {p.key: p.node for p in schema.node.properties}
    assert nodes == {"a": Null(), "b": Number(True)}
    assert schema.node.additional is None
    assert not checked(schema)


def test_names_by_pattern() -> None:
    names = {"propertyNames": {"pattern": "^[a-z]$"}}
    closed = {**OBJECT, "properties": {"a": {}, "A": {}}, "additionalProperties": False, **names}
    assert [p.key for p in lower_open(closed).node.properties] == ["a"]
    assert not checked(lower_open(closed))
    opened = lower_open({**OBJECT, **names})
    assert not checked(opened)
    assert opened.find_members("A") == [None]
    assert opened.can_have("ab")
    odd = {"propertyNames": {"pattern": "(a|b)\\1", "maxLength": 2}}
    assert checked(lower_open({**OBJECT, **odd})) == {"propertyNames"}


@pytest.mark.parametrize(
    ("names", "fit", "excluded"),
    [
        ({"$ref": "#/$defs/Color"}, ["red", "blue"], ["green", "re", ""]),
        ({"$ref": "#/$defs/Short"}, ["ab", "a"], ["abc", "b"]),
        ({"anyOf": [{"const": "m"}, {"format": "starts_with", "pattern": "^n"}]}, ["m", "no"],
         ["mm", "o"]),
        ({"anyOf": [{"const": "m"}, {"$ref": "#/$defs/Color"}]}, ["m", "red"], ["n"]),
        ({"not": {"enum": ["__proto__", "constructor"]}}, ["proto", "constructor1"],
         ["__proto__", "constructor"]),
        ({"not": {"pattern": "^_"}, "maxLength": 2}, ["a_", ""], ["_a", "abc"]),
        ({"not": {"not": {"$ref": "#/$defs/A"}}}, ["a"], ["b"]),
    ],
)  # fmt: skip
def test_names_by_reference_and_alternatives(
    names: Any, fit: list[str], excluded: list[str]
) -> None:
    definitions = {
        "Color": {"type": "string", "enum": ["red", "blue"]},
        "A": {"pattern": "^a"},
        "Short": {"allOf": [{"$ref": "#/$defs/A"}, {"maxLength": 2}]},
    }
    rest = {"propertyNames": names, "additionalProperties": {"type": "integer"}}
    schema = lower_open({**OBJECT, **rest, "$defs": definitions})
    assert not checked(schema)
    trial = InstanceTrial(schema)
    for name in (*fit, *excluded):
        assert (trial.find_refusal({name: 1}) is None) == (name in fit), name
        assert schema.admits({name: 1}) == (name in fit)


@pytest.mark.parametrize(
    "names",
    [
        {"not": {"format": "email"}},  # the mask refuses some addresses, which would be let through
        {"$ref": "#/$defs/Loop"},
        {"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
    ],
)
def test_names_that_are_only_checked(names: Any) -> None:
    definitions = {"Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"pattern": "^a"}]}}
    schema = lower_open({**OBJECT, "propertyNames": names, "$defs": definitions})
    assert checked(schema) == {"propertyNames"}


def test_keys_that_match_several_patterns() -> None:
    patterns = {"^a": {"type": "string"}, "b$": {"minLength": 2}, "^c$": False, "^ab$": True}
    schema = lower_open({**OBJECT, "patternProperties": patterns, "additionalProperties": False})
    (both,) = schema.find_members("acb")
    assert both is not None
    assert both.node == String(2)
    for key, fits in (("a", True), ("xb", True), ("c", False), ("d", False), ("ab", True)):
        assert schema.can_have([key]) == fits
    assert schema.find_errors({"ab": "x"})
    assert schema.admits({"ab": "xy", "a": ""})
    assert not checked(schema)


def test_many_patterns_that_overlap_are_checked() -> None:
    patterns = {letter: {"minLength": i} for i, letter in enumerate("abcdefgh")}
    schema = lower_open({**OBJECT, "patternProperties": patterns})
    assert checked(schema) == {"patternProperties", "additionalProperties"}


def test_keys_that_nothing_fits() -> None:
    schema = lower_open({**OBJECT, "properties": {"a": False}})
    assert not checked(schema)
    assert schema.find_members("a") == [None]
    assert schema.can_have(["aa"])


@pytest.mark.parametrize(
    ("node", "lists"),
    [
        (Array((), Constant(("a", "b"))), Constant(([], ["a"], ["b"], ["a", "b"], ["b", "a"]))),
        (Array((), Constant((1, 1.0, True)), 2), Constant(([1.0, True], [True, 1.0]))),
        (Array((), Union((Null(), Boolean())), 1, 1), Constant(([None], [True], [False]))),
        (Array((), Null(), 2), Union(())),
        (
            Array((), Constant(tuple("abcdef"))),
            Array((), Constant(tuple("abcdef")), 0, 6, distinct=True),
        ),
        (Array((), Constant(tuple(range(61)))), None),
        (Array((), Constant(([], "a"))), None),
        (Array((), String()), None),
        (Array((Null(),), Null()), None),
        (Array(), None),
    ],
)
def test_lists_without_repetitions(node: Array, lists: Any) -> None:
    assert list_choices(node) == lists


def test_references_by_name() -> None:
    document, *_ = read_document(
        {
            "$id": "https://example.org/root",
            "properties": {
                "a": {"$ref": "#name"},
                "b": {"$ref": "other"},
                "c": {"$ref": "https://example.org/other#/$defs/in%20it"},
                "d": {"$ref": "#/$defs/n"},
                "e": {"$ref": "https://example.org/root"},
                "f": {"$ref": "else.json"},
            },
            "$defs": {
                "n": {"$anchor": "name", "type": "string"},
                "o": {"$id": "other", "$defs": {"in it": {"type": "null"}}},
            },
        }
    )
    references = {key: value["$ref"] for key, value in document["properties"].items()}
    assert references == {
        "a": "#/$defs/n",
        "b": "#/$defs/o",
        "c": "#/$defs/o/$defs/in%20it",
        "d": "#/$defs/n",
        "e": "#",
        "f": "else.json",
    }
    assert document["$defs"]["n"] == {"type": "string"}
    with pytest.raises(SchemaError, match="not local"):
        lower(document)


def test_names_as_old_drafts_write_them() -> None:
    four = {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x.y/", **OBJECT}
    four |= {"properties": {"a": {"$ref": "b#c"}}, "definitions": {"b": {"id": "b", "items": {}}}}
    four["definitions"]["b"]["items"] = {"id": "#c", "type": "null"}
    assert read_document(four)[0]["properties"]["a"] == {"$ref": "#/definitions/b/items"}
    seven = {"$schema": "http://json-schema.org/draft-07/schema#", **OBJECT}
    seven |= {"properties": {"a": {"$ref": "#c"}}, "definitions": {"b": {"$id": "#c"}}}
    assert read_document(seven)[0]["properties"]["a"] == {"$ref": "#/definitions/b"}


def test_drafts_themselves_are_checked() -> None:
    draft = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    schema = lower({**OBJECT, "properties": {"schema": draft}, "required": ["schema"]})
    assert checked(schema) == {"$ref"}
    assert schema.admits({"schema": {"type": "null"}})
    assert not schema.admits({"schema": {"type": "x"}})


@pytest.mark.parametrize(
    ("where", "keyword"),
    [
        ("", ""),
        ("/type", "type"),
        ("/properties/type", ""),
        ("/properties/type/type", "type"),
        ("/properties", "properties"),
        ("/anyOf/0/items/$ref", "$ref"),
        ("/items/0", ""),
        ("/not", ""),
    ],
)
def test_the_keyword_of_a_pointer(where: str, keyword: str) -> None:
    assert find_keyword(where) == keyword


@pytest.mark.parametrize(
    "excluded",
    [
        {"allOf": [{"pattern": "^x-"}, {"pattern": "^(?!x-ok)"}]},
        {"anyOf": [{"const": "b"}, {"allOf": [{"pattern": "^x-"}, {"pattern": "^(?!x-ok)"}]}]},
        {"$ref": "#/$defs/inner", "pattern": "no$"},
        {"not": {"anyOf": [{"pattern": "^[^x]"}, {"pattern": "ok$"}]}},
    ],
)
def test_excluded_names_that_cannot_be_merged(excluded: Any) -> None:
    """Inside a `not`, a keyword that is left out would exclude more."""
    source = {**OBJECT, "propertyNames": {"not": excluded}}
    source["$defs"] = {"inner": {"pattern": "^x-(?!y)"}}
    schema = lower_open(source)
    trial = InstanceTrial(schema)
    for name in ("x-ok", "x-no", "x-y-no", "a", "b", "x", "xok"):
        is_taken = trial.find_refusal({name: 1}) is None
        if jsonschema_rs.is_valid(source, {name: 1}):
            assert is_taken, name
        else:
            assert not is_taken or checked(schema), name
