"""References by name: `$id`, `$anchor`, and those whose target depends on the path to them."""

from typing import Any

import jsonschema_rs
import pytest

from constrained.inspect.replay.schemas import InstanceTrial
from grammars.errors import SchemaError
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.lowering.checked import find_checked
from grammars.schema.lowering.document.references import is_dynamic, localize
from grammars.schema.lowering.lower import lower

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LIST: Any = {
    "$id": "list",
    "type": "array",
    "items": {"$dynamicRef": "#item"},
    "$defs": {"any": {"$dynamicAnchor": "item"}},
}
"""A generic list: who refers to it says what its items are."""


@pytest.mark.parametrize(
    ("document", "target"),
    [
        ({"items": {"$dynamicRef": "#"}}, "#"),
        ({"items": {"$dynamicRef": "#n"}, "not": {"$dynamicAnchor": "n"}}, "#/not"),
        ({"items": {"$dynamicRef": "#n"}, "not": {"$anchor": "n"}}, "#/not"),
        ({"items": {"$dynamicRef": "#/not"}, "not": {"$dynamicAnchor": "n"}}, "#/not"),
        ({"$schema": DRAFT_2020, "items": {"$dynamicRef": "#n"}, "$dynamicAnchor": "n"}, "#"),
        ({"items": {"$ref": "#n"}, "not": {"$dynamicAnchor": "n"}}, "#/not"),
        ({"$schema": DRAFT_2019, "items": {"$recursiveRef": "#"}}, "#"),
        ({"$schema": DRAFT_2019, "$recursiveAnchor": True, "items": {"$recursiveRef": "#"}}, "#"),
    ],
)
def test_dynamic_references_are_pointers(document: dict[str, Any], target: str) -> None:
    local = localize(document).document
    assert local["items"] == {"$ref": target}
    assert not is_dynamic(local)


def test_a_dynamic_reference_in_an_unknown_keyword_is_checked() -> None:
    """A `$ref` leads there. Without its anchor, the document would be read as draft 7, in which a
    `$dynamicRef` means nothing."""
    document = {
        "type": "object",
        "$dynamicAnchor": "node",
        "properties": {"c": {"$ref": "#/components/schemas/List"}},
        "components": {"schemas": {"List": {"type": "array", "items": {"$dynamicRef": "#node"}}}},
    }
    schema = lower(document)
    assert [finding.keyword for finding in schema.report.checked] == ["$dynamicRef"]
    assert (schema.admits({"c": [{}]}), schema.admits({"c": [1]})) == (True, False)


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({}, "Anchor 'nowhere' does not exist"),
        ({"prefixItems": 1}, "/prefixItems"),
        ({"items": [{}]}, "/items"),  # valid in draft 7
        ({"items": {"$dynamicRef": 5}}, "/items/\\$dynamicRef"),
    ],
)
def test_a_dynamic_reference_to_nothing_is_not_read_as_draft_7(extra: Any, problem: str) -> None:
    lists = {"X": {"items": {"$dynamicRef": "#nowhere"}}}
    reference = {"$ref": "#/components/X"}
    document = {"type": "object", "not": reference, "components": lists, **extra}
    with pytest.raises(SchemaError, match=problem):
        lower(document)


@pytest.mark.parametrize(
    ("inner", "others"),
    [
        ({"not": {"$ref": "#/x-parts/a"}, "x-parts": {"a": {"$ref": "#/$defs/b"}}}, {}),
        # nobody knows where this dynamic reference leads, so no name may be removed
        ({"$ref": "#/$defs/b"}, {"c": {"x-parts": {"$dynamicRef": "#item"}}}),
    ],
)
def test_a_pointer_that_would_be_read_from_another_root(inner: Any, others: Any) -> None:
    part = {"$id": "inner", **inner, "$defs": {"b": {"type": "integer"}}}
    definitions = {"inner": part, "b": {"type": "string"}, **others}
    document = {"properties": {"a": {"$ref": "#/$defs/inner"}}, "$defs": definitions}
    with pytest.raises(SchemaError, match="starts at its") as raised:
        localize(document)
    assert raised.value.where == "/$defs/inner"


def test_the_outermost_resource_says_what_a_name_means() -> None:
    """Without the dynamic scope, any item would fit."""
    root = {"$id": "https://e/strings", "type": "object", "properties": {"v": {"$ref": "list"}}}
    text = {"$dynamicAnchor": "item", "type": "string"}
    document = {**root, "$defs": {"text": text, "list": LIST}}
    schema = lower(document)
    assert not schema.report.checked
    assert (schema.admits({"v": ["a"]}), schema.admits({"v": [1]})) == (True, False)
    free = lower({**root, "$defs": {"list": LIST}})
    assert free.admits({"v": [1]})


def test_a_resource_within_that_is_recursive() -> None:
    tree = {
        "$id": "tree",
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {"next": {"$recursiveRef": "#"}},
    }
    root = {"$schema": DRAFT_2019, "$id": "https://e/strict", "$ref": "tree"}
    strict = {**root, "$recursiveAnchor": True, "unevaluatedProperties": False}
    value = {"next": {"other": 1}}
    assert not lower({**strict, "$defs": {"tree": tree}}, close=False).admits(value)
    assert lower({**root, "$defs": {"tree": tree}}, close=False).admits(value)


TREE: Any = {
    "$id": "tree",
    "$dynamicAnchor": "node",
    "properties": {"sub": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}
STRICT: Any = {"$id": "strict", "$ref": "tree", "$dynamicAnchor": "node", "required": ["id"]}
TREES: list[Any] = [{}, {"id": 1}, {"id": 1, "sub": [{}]}, {"id": 1, "sub": [{"id": 2}]}]
OLD_TREE: Any = {
    "$id": "tree",
    "$recursiveAnchor": True,
    "properties": {"sub": {"items": {"$recursiveRef": "#"}}},
}


@pytest.mark.parametrize(
    ("document", "values"),
    [
        # one definition, which is a list of something else for each reference to it
        (
            {
                "properties": {"texts": {"$ref": "texts"}, "lists": {"$ref": "lists"}},
                "$defs": {
                    "texts": {"$id": "texts", "$ref": "list", "$defs": {
                        "t": {"$dynamicAnchor": "item", "type": "string"}}},
                    "lists": {"$id": "lists", "$ref": "list", "$defs": {
                        "a/b~": {"$dynamicAnchor": "item", "$ref": "texts"}}},
                    "list": {"$id": "list", "type": "array", "items": {"$dynamicRef": "#item"},
                        "$defs": {"any": {"$dynamicAnchor": "item", "not": {}}}},
                },
            },
            [{"texts": ["a"]}, {"texts": [1]}, {"texts": [["a"]]}, {"lists": [["a"]]},
             {"lists": ["a"]}, {"lists": [[["a"]]]}, {"lists": [], "texts": []}],
        ),
        # a tree in a strict tree is strict; beside it, it is not
        (
            {
                "properties": {"loose": {"$ref": "tree"}, "strict": {"$ref": "strict"}},
                "$defs": {"tree": TREE, "strict": STRICT},
            },
            [{key: tree} for key in ("loose", "strict") for tree in TREES],
        ),
        # the same schema, reached by a pointer into its resource and by its anchor
        (
            {
                "properties": {"a": {"$ref": "#/$defs/tree/properties/sub"}, "b": {"$ref": "#x"}},
                "$defs": {"tree": TREE, "strict": {**STRICT, "$defs": {"x": {"$anchor": "x"}}},
                    "x": {"$anchor": "x", "$ref": "strict"}},
            },
            [{"a": TREES[:1]}, {"a": [{"sub": 1}]}, *({"b": tree} for tree in TREES)],
        ),
        # draft 2019-09
        (
            {
                "$schema": DRAFT_2019,
                "properties": {"loose": {"$ref": "tree"}, "strict": {"$ref": "strict"}},
                "$defs": {"tree": OLD_TREE, "strict": {
                    "$id": "strict", "$ref": "tree", "$recursiveAnchor": True,
                    "required": ["id"]}},
            },
            [{key: tree} for key in ("loose", "strict") for tree in TREES],
        ),
    ],
)  # fmt: skip
def test_a_dynamic_reference_with_several_targets(document: Any, values: list[Any]) -> None:
    """The definitions are copied; nothing is left for the check, and the validator agrees about
    the document as it was."""
    document = {"$id": "https://example.com/root", "type": "object", **document}
    schema = lower(document, close=False)
    assert not schema.report.checked
    reference = jsonschema_rs.validator_for(document)
    assert {reference.is_valid(value) for value in values} == {True, False}
    trial = InstanceTrial(schema)
    for value in values:
        assert schema.admits(value) == reference.is_valid(value), value
        assert (trial.find_refusal(value) is None) == reference.is_valid(value), value


def test_too_many_targets_are_not_written_out() -> None:
    """Each reference may give each of the names another meaning."""
    names = [f"n{i}" for i in range(9)]
    definitions: dict[str, Any] = {}
    for name in names:
        for kind in ("string", "null"):
            anchor = {"x": {"$dynamicAnchor": name, "type": kind}}
            some = {"anyOf": [{"$ref": f"{other}-null"} for other in names]}
            definitions[f"{name}-{kind}"] = {"$id": f"{name}-{kind}", "$defs": anchor,
                "properties": {"a": some, "b": {"$dynamicRef": f"#{name}"}}}  # fmt: skip
    references = [{"$ref": name} for name in definitions]
    document = {"anyOf": references, "$defs": definitions}
    assert localize(document).document is document


def copied(big: Any, count: int) -> Any:
    """A document with a definition that means something else in each of its resources."""
    big = {"$id": "big", "$defs": {}, **big, "items": {"$dynamicRef": "#n"}}
    big["$defs"] = {**big["$defs"], "n": {"$dynamicAnchor": "n"}}
    definitions: dict[str, Any] = {"big": big}
    for i in range(count):
        own = {"n": {"$dynamicAnchor": "n", "minLength": i}}
        definitions[f"r{i}"] = {"$id": f"r{i}", "$defs": own, "$ref": "big"}
    return {"properties": {name: {"$ref": name} for name in definitions}, "$defs": definitions}


@pytest.mark.parametrize(
    "big",
    [
        {"$defs": {f"d{i}": {"$dynamicAnchor": f"m{i}"} for i in range(2_000)}},
        {"enum": list(range(10_000))},
        {f"x-{i}": i for i in range(4_000)},
    ],
    ids=["names", "data", "unknown keywords"],
)
def test_copies_are_counted_as_work(big: Any) -> None:
    with limit_steps(60_000):
        localize(copied(big, 1))
    with pytest.raises(StepsError), limit_steps(60_000):
        localize(copied(big, 60))


def test_copies_count_as_subschemas_while_they_are_written() -> None:
    document = copied({"properties": {f"p{i}": {} for i in range(1_000)}}, 60)
    with pytest.raises(StepsError), limit_steps(60_000):
        localize(document)


def lists_of(texts: Any, numbers: Any) -> Any:
    """Two kinds of lists; the name of one of them is that of a copy of the other."""
    return {
        "type": "object",
        "properties": {"texts": {"$ref": "texts"}, "numbers": {"$ref": "numbers"}},
        "$defs": {
            "list": LIST,
            "texts": {"$id": "texts", "$ref": "list", "$defs": {
                "größe": {"$dynamicAnchor": "item", **texts}}},
            "list-3": {"$id": "numbers", "$ref": "list", "$defs": {
                "n": {"$dynamicAnchor": "item", **numbers}}},
        },
    }  # fmt: skip


LARGE = [rf"(.)\1?\p{{L}}{{1,200}}{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        ({"type": "string", "pattern": "("}, "/pattern"),
        ({"type": "string", "minLength": -1}, "/minLength"),
        ({"type": "array", "contains": {"$ref": "https://e/x"}}, "/contains/$ref"),
        ({"patternProperties": dict.fromkeys(LARGE, True)}, f"/patternProperties/{LARGE[-1]}"),
    ],
)
def test_errors_point_to_the_definition_and_not_to_its_copy(texts: Any, where: str) -> None:
    with pytest.raises(SchemaError) as raised:
        lower(lists_of(texts, {}))
    assert raised.value.where == "/$defs/texts/$defs/größe" + where


def test_findings_point_to_the_definition_and_not_to_its_copy() -> None:
    texts = {"type": "string", "pattern": "^(a|b)\\1", "unit": 1}
    schema = lower(lists_of(texts, {"type": "number", "multipleOf": 7}))
    report = schema.report
    texts_pointer, numbers_pointer = "/$defs/texts/$defs/größe", "/$defs/list-3/$defs/n"
    assert [finding.pointer for finding in report.checked] == [texts_pointer]
    assert [finding.pointer for finding in report.ignored] == [texts_pointer]
    assert {finding.pointer for finding in report.narrowed} == {numbers_pointer}
    pointers = {"", "/$defs/list", texts_pointer, numbers_pointer}
    assert {finding.pointer for finding in report.enforced} == pointers
    held = find_checked(schema)
    assert (held.whole, held.keys) == (False, {"texts"})


def test_a_dynamic_reference_beside_others() -> None:
    document = {"$ref": "#/$defs/a", "$dynamicRef": "#b", "allOf": [{}], "$defs": {
        "a": {"type": "object"}, "b": {"$dynamicAnchor": "b", "required": ["x"]}}}  # fmt: skip
    local = localize(document).document
    assert local["$ref"] == "#/$defs/a"
    assert local["allOf"] == [{}, {"$ref": "#/$defs/b"}]


@pytest.mark.parametrize("conjuncts", [5, {"b": 1}, "ab", False])
def test_a_dynamic_reference_beside_what_is_no_list(conjuncts: Any) -> None:
    part = {"allOf": conjuncts, "$ref": "#/$defs/a", "$dynamicRef": "#b"}
    document = {"$dynamicAnchor": "b", "properties": {"p": part}, "$defs": {"a": {}}}
    with pytest.raises(SchemaError) as raised:
        lower(document)
    assert raised.value.where == "/properties/p/allOf"


@pytest.mark.parametrize(
    "document",
    [
        {"$schema": DRAFT_7, "items": {"$dynamicRef": "#n"}},
        {"$schema": DRAFT_2019, "items": {"$dynamicRef": "#n"}},
        {"$schema": DRAFT_2020, "items": {"$recursiveRef": "#"}},
        {"items": {"$recursiveRef": "#"}},  # without $schema, a document is of 2020-12
        {"enum": [{"$dynamicRef": "#n"}]},
    ],
)
def test_what_is_no_dynamic_reference_stays(document: Any) -> None:
    assert localize(document).document is document


def test_a_name_of_another_draft_is_read_where_nothing_else_has_it() -> None:
    """As Jackson writes references: by the `id` of draft 3, in documents without `$schema`."""
    document = {
        "type": "object",
        "id": "urn:jsonschema:Args",
        "properties": {"child": {"$ref": "urn:jsonschema:Args"}, "n": {"type": "integer"}},
    }
    schema = lower(document)
    assert [finding.pointer for finding in schema.report.repaired] == ["/properties/child"]
    assert schema.admits({"child": {"n": 1}})
    assert not schema.admits({"child": {"n": "1"}})
