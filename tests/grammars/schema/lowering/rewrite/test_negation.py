"""What a schema excludes, and cases, taken apart into what nodes can express."""

from typing import Any

import pytest

from constrained.inspect.replay.schemas import check_schemas
from grammars.schema.lowering.nodes.inhabitation import NEVER
from grammars.schema.lowering.nodes.listed import exclude
from grammars.schema.lowering.rewrite.negation import is_expressible, negate
from grammars.schema.nodes import Array, Boolean, Constant, Null, Number, Object, String, Union


def results(schema: Any, *data: Any, checked: tuple[str, ...] = ()) -> str:
    """For each instance: `d`elivered, `a`ccepted only, or `-`."""
    row = {"schema": schema, "tests": [{"data": value} for value in data]}
    (answer,) = check_schemas([row])
    assert tuple(f["keyword"] for f in answer["checked"]) == checked
    shown = {(True, True): "d", (True, False): "a", (False, False): "-"}
    return "".join(shown[r["accepted"], r["delivered"]] for r in answer["results"])


@pytest.mark.parametrize(
    ("schema", "excluded"),
    [
        (True, []),
        (False, [True]),
        ({}, []),
        ({"description": "d", "x-a": 1}, [{"not": {"x-a": 1}}]),
        ({"type": ["string", "number"]}, [{"type": ["object", "array", "boolean", "null"]}]),
        ({"type": "integer"}, [{"not": {"type": ["integer"]}}]),
        ({"const": 1}, [{"not": {"enum": [1]}}]),
        ({"required": ["a"]}, [{"type": "object", "properties": {"a": False}}]),
        ({"properties": {"a": {"minLength": 1}}},
         [{"type": "object", "required": ["a"],
           "properties": {"a": {"type": "string", "maxLength": 0}}}]),
        ({"not": {"type": "null"}}, [{"type": "null"}]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]},
         [{"type": "number", "exclusiveMaximum": 1}, {"type": "number", "exclusiveMinimum": 2}]),
        ({"anyOf": [{"minItems": 1}, {"maxItems": 2}]},
         [{"allOf": [{"type": "array", "maxItems": 0}, {"type": "array", "minItems": 3}]}]),
        ({"minLength": 0}, []),
        ({"pattern": "(a)\\1"}, [{"not": {"pattern": "(a)\\1"}}]),
        ({"pattern": "^a.$"}, [{"type": "string", "pattern": r"^(?![\s\S]*(?:^a.$))"}]),
        ({"$ref": "#/$defs/A"}, [{"not": {"$ref": "#/$defs/A"}}]),
    ],
)  # fmt: skip
def test_negations(schema: Any, excluded: Any) -> None:
    assert negate(schema) == excluded


def test_patterns_and_their_opposites() -> None:
    text = {"type": "string", "pattern": "^[a-z-]+$", "not": {"pattern": "--|^admin$"}}
    assert results(text, "admins", "a-b", "admin", "a--b", "A") == "dd---"
    assert results({"not": {"type": "string", "pattern": r"\."}}, "a", 1, "a.b") == "dd-"
    one = {"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "z$"}]}
    assert results(one, "ab", "bz", "az", "b") == "dd--"
    case = {"if": {"pattern": "^s3:"}, "then": {"minLength": 5}, "type": "string"}
    assert results(case, "s", "s3:ab", "s3:a") == "dd-"


def test_what_is_expressible() -> None:
    assert is_expressible([{"not": {"enum": [{"not": {}}]}}, {"properties": {"a": False}}])
    assert not is_expressible({"allOf": [{"not": {"pattern": "a"}}]})


@pytest.mark.parametrize(
    ("node", "without"),
    [
        (Boolean(), Constant((False,))),
        (Null(), Null()),
        (Constant((1.0, True, "a")), Constant(())),
        (Array(), Array()),
        (Object(), None),
        (Number(), Union((Number(False, {"exclusiveMaximum": 1}),
                          Number(False, {"exclusiveMinimum": 1})))),
        (Number(True, {"multipleOf": 2}), None),
        (String(2), String(2)),
        (String(pattern="b+"), String(pattern="b+")),
        (String(pattern="a?"), String(pattern="(?&(a?)|(?~(a)))")),
    ],
)  # fmt: skip
def test_nodes_without_values(node: Any, without: Any) -> None:
    assert exclude(node, [True, 1, "a", {}]) == without
    assert exclude(Null(), [None]) == NEVER


def test_words_are_excluded() -> None:
    schema = {"type": "string", "not": {"enum": ["root", "ro", 'a"\n']}}
    assert results(schema, "root", "ro", 'a"\n', "", "r", "roo", "roots", 'a"') == "---ddddd"
    long = {"type": "string", "not": {"const": "a" * 100}}
    assert results(long, "a" * 100, "a", checked=()) == "-d"
    held = {"type": "string", "pattern": "^a?$", "not": {"enum": ["a", "b"]}}
    assert results(held, "a", "", "b") == "-d-"


def test_cases() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b", "c"]}, "x": {"type": "integer"}},
        "required": ["kind"],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"required": ["x"], "properties": {"x": {"minimum": low}}},
            }
            for kind, low in (("a", 1), ("b", 5))
        ],
    }
    values = [{"kind": k} | ({} if x is None else {"x": x}) for k in "abc" for x in (None, 0, 2, 7)]
    assert results(schema, *values) == "--dd---ddddd"


def test_schemas_that_depend_on_a_key() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": False,
        "dependentSchemas": {"a": {"properties": {"b": {"minimum": 2}}, "required": ["b"]}},
    }
    assert results(schema, {}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}) == "d-d-d"


def test_branches_that_overlap_exclude_each_other() -> None:
    numbers = {"type": "integer"}
    schema = {"oneOf": [{**numbers, "minimum": 2}, {**numbers, "maximum": 5}]}
    assert results(schema, 1, 2, 5, 6, "a") == "d--d-"
    texts = {"oneOf": [{"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}]}
    assert results(texts, "a", "ab", "c") == "d--"
    inexact = {"oneOf": [{"type": "string", "pattern": "a"}, {"pattern": "(b)\\1"}]}
    assert results(inexact, "a", "abb", "c", checked=("pattern", "oneOf")) == "da-"


def test_open_objects_that_overlap_have_no_key_of_each_other() -> None:
    """The opposite of a format cannot be expressed: the parent of a page in Notion's API."""
    page = {"properties": {"page": {"type": "string", "format": "uuid"}}, "required": ["page"]}
    space = {"properties": {"space": {"format": "uuid"}}, "required": ["space"]}
    opened = {"type": "object", "additionalProperties": True}
    schema = {"oneOf": [{**page, **opened}, {**space, **opened}]}
    id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    values = [{"page": id}, {"space": id}, {"page": id, "space": id}, {"page": id, "more": 1}, {}]
    assert results(schema, *values) == "dd-d-"
    assert results({"oneOf": [{**page, **opened}, False]}, {"page": id}, {}) == "d-"


def test_taking_apart_has_an_end() -> None:
    many = {"not": {"anyOf": [{"type": "object", "required": ["a", str(i)]} for i in range(9)]}}
    assert results({"type": "object", **many}, {"a": 1}, {"a": 1, "3": 1}, checked=("not",)) == "da"
    both = {"allOf": [{"not": {"pattern": "a"}}, {"not": {"pattern": "b"}}]}
    assert results({"type": "string", **both}, "c", "a", "b") == "d--"
    both = {"allOf": [{"not": {"pattern": "(a)\\1"}}, {"not": {"pattern": "(b)\\1"}}]}
    assert results({"type": "string", **both}, "c", "aa", checked=("not",)) == "da"
    circle = {"not": {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}}
    assert results(circle, {}, {"a": {}}) == "d-"
