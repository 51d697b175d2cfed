"""Schemas in any place that a reference reaches are read like definitions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.errors import SchemaError
from grammars.schema.lowering.document.reached import gather_reached
from grammars.schema.lowering.document.reading import read_document
from grammars.schema.lowering.lower import lower
from grammars.schema.pointers import point_to
from tests.schema_strategies import shapes

KEYS = st.sampled_from(["components", "schemas", "x-a", "a/b", "~", "A", "default"])
SCHEMAS = st.builds(
    lambda shape, dialect: {"allOf": [shape.schema], **dialect},
    shapes(),
    st.sampled_from([{}, {"nullable": True}, {"minimum": 1, "exclusiveMinimum": True}]),
)
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def put(place: list[str], schema: Any) -> Any:
    """A document that refers to the schema at this place, and again inside an array."""
    holder = schema
    for step in reversed(place):
        holder = {step: holder}
    reference = {"$ref": f"#{point_to(place)}"}
    members = {"one": reference, "more": {"type": "array", "items": reference}}
    return {"type": "object", "properties": members, **holder}


@given(schema=SCHEMAS, place=st.lists(KEYS, min_size=1, max_size=3), draft=st.booleans())
def test_a_schema_in_any_place_is_read_like_a_definition(
    schema: Any, place: list[str], draft: bool
) -> None:
    extra = {"$schema": DRAFT_7} if draft else {}
    known = lower(extra | put(["definitions", "A"], schema), only_object=False)
    found = lower(extra | put([*place, "A"], schema), only_object=False)
    assert [*found.definitions.values()] == [*known.definitions.values()]
    there, here = point_to([*place, "A"]), "/definitions/A"
    for state in ("enforced", "checked", "repaired", "narrowed"):
        expected = [vars(one) for one in getattr(known.report, state)]
        moved = [vars(one) for one in getattr(found.report, state)]
        for one in moved:
            if one["pointer"].startswith(there):
                one["pointer"] = here + one["pointer"].removeprefix(there)
        assert moved == expected


def test_a_place_that_only_a_repair_reaches_is_repaired() -> None:
    part = {"$ref": "#/x/A", "x": {"A": {"type": "str"}}}
    reading = read_document({"properties": {"p": part}})
    assert [(one.pointer, one.keyword) for one in reading.repaired] == [
        ("/properties/p", "$ref"),
        ("/properties/p/x/A", "type"),
    ]
    assert reading.problem is None


def test_what_is_wrong_there_has_its_pointer() -> None:
    with pytest.raises(SchemaError) as caught:
        lower(put(["x", "A"], {"type": "string", "maxLength": -1}), only_object=False)
    assert caught.value.where == "/x/A/maxLength"


def test_names_that_are_taken() -> None:
    source = {
        "allOf": [{"$ref": "#/x/A"}, {"$ref": "#/y/A"}, {"$ref": "#/$defs/A"}],
        "x": {"A": {"$ref": "#/y/A"}},
        "y": {"A": {"minimum": 1}},
        "$defs": {"A": {"minimum": 2}},
    }
    document, origins = gather_reached(source)
    assert document["$defs"] == {
        "A": {"minimum": 2},
        "A-2": {"minimum": 1},
        "A-3": {"$ref": "#/$defs/A-2"},
    }
    assert origins == {"/$defs/A-2": "/y/A", "/$defs/A-3": "/x/A"}


def test_references_that_start_at_an_id_are_left_to_it() -> None:
    source = {"properties": {"a": {"$id": "http://e.x/a", "not": {"$ref": "#/x"}}}, "x": {}}
    assert gather_reached(source).document is source


def test_schemas_that_are_reached_are_not_ignored() -> None:
    reached = lower(put(["x", "A"], {"type": "string"}), only_object=False)
    assert reached.report.ignored == ()
    other = lower({"x": {"A": {}}}, only_object=False)
    assert [one.keyword for one in other.report.ignored] == ["x"]
