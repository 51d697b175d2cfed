"""References by name: `$id`, `$anchor`, and those whose target depends on the path to them."""

from typing import Any

import pytest

from grammars.errors import SchemaError
from grammars.lowering.document.references import is_dynamic, localize
from grammars.lowering.lower import lower

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
    local = localize(document)
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
        # the target of this dynamic reference depends on the path, so no name may be removed
        (
            {"$ref": "#/$defs/b"},
            {"list": LIST, "one": {"$id": "one", "$ref": "list", "$dynamicAnchor": "item"}},
        ),
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


def test_a_dynamic_reference_beside_others() -> None:
    document = {"$ref": "#/$defs/a", "$dynamicRef": "#b", "allOf": [{}], "$defs": {
        "a": {"type": "object"}, "b": {"$dynamicAnchor": "b", "required": ["x"]}}}  # fmt: skip
    local = localize(document)
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
        {
            "items": {"$ref": "list"},
            "prefixItems": [{"$id": "one", "$ref": "list", "$dynamicAnchor": "item"}],
            "$defs": {"list": LIST},
        },
    ],
)
def test_what_is_no_dynamic_reference_or_has_several_targets_stays(document: Any) -> None:
    assert localize(document) is document


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
