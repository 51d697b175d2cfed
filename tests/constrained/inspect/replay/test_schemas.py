"""Schemas tried out: what is held, what is checked, and which instances get through."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import GrammarError
from constrained.inspect.replay.check import read_rows
from constrained.inspect.replay.schemas import check_schemas
from constrained.mask.matcher import Matcher
from tests.schema_strategies import VALUES, parameters, shapes


def check(schema: Any, *data: Any, close: bool = False) -> dict[str, Any]:
    row = {"id": 7, "schema": schema, "tests": [{"data": value} for value in data]}
    (answer,) = check_schemas([row], close=close)
    assert answer["id"] == 7
    return answer


def results(schema: Any, *data: Any, close: bool = False) -> str:
    """For each instance: `d`elivered, `a`ccepted only, or `-`."""
    answer = check(schema, *data, close=close)
    shown = {(True, True): "d", (True, False): "a", (False, False): "-"}
    return "".join(shown[r["accepted"], r["delivered"]] for r in answer["results"])


def test_the_report():
    schema = {
        "type": "array",
        "items": {"type": "string", "not": {"pattern": "^(?!()\\1yes)"}},
        "minItems": 1,
    }
    answer = check(schema, ["yes"], ["no"], [], [1])
    assert answer["compiles"]
    assert (answer["refused"], answer["error"]) == ([], None)
    named = [(f["pointer"], f["keyword"]) for f in answer["enforced"]]
    assert set(named) == {("", "type"), ("", "items"), ("", "minItems"), ("/items", "type")}
    assert [(f["pointer"], f["keyword"]) for f in answer["checked"]] == [("/items", "not")]
    assert answer["checked"][0]["reason"] == "not enforced by the mask"
    assert results(schema, ["yes"], ["no"], [], [1]) == "da--"


def test_true_and_false():
    values = [None, True, 1, -0.5, "é\n😀", [1, [2]], {"a": {"b": []}}, "\ud800"]
    assert results(True, *values) == "ddddddd-"  # nobody can write half a character
    answer = check(False, *values)
    assert not answer["compiles"]
    assert answer["refused"] == [
        {
            "pointer": "",
            "keyword": "",
            "reason": "the schema allows no value",
            "hint": "Loosen its constraints",
        }
    ]
    assert results(False, *values) == "--------"


def test_silent_objects_are_open_unless_closed():
    schema = {"properties": {"a": {"type": "integer"}}}
    assert results(schema, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"a": "x"}, 3) == "ddd-d"
    assert results(schema, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}, close=True) == "d--"
    assert results({"type": "object"}, {"b": 1}, close=True) == "d"
    assert results({**schema, "additionalProperties": True}, {"b": 1}, close=True) == "d"


def test_instances_may_have_any_order():
    schema = {"properties": {"a": True, "b": True}, "additionalProperties": False}
    assert results(schema, {"a": 1, "b": 2}, {"b": 2, "a": 1}) == "dd"


def test_drafts_and_formats():
    assert results({"format": "ipv6"}, "::1", "x") == "d-"
    assert results({"format": "regex"}, "a+", "[") == "da"
    tuple_ = {"items": [{"type": "integer"}], "additionalItems": False}
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_}
    assert results(draft7, [1], ["x"], [1, 2]) == "d--"


def test_numbers_of_one_value_are_one():
    one: Any = {"oneOf": [{"enum": [1, 2]}, {"enum": [1.0, 3]}]}
    assert results(one, 1, 1.0, 2, 3) == "--dd"
    assert results({"oneOf": [{"const": 0}, {"const": False}]}, 0, False) == "dd"


def test_a_listed_value_may_look_like_a_reference():
    value = {"$ref": "#/x"}
    assert results({"properties": {"a": {"const": value}, "b": {"enum": [[value], 1]}}},
                   {"a": value}, {"b": [value]}, {"a": 1}) == "dd-"  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "pointer", "reason"),
    [
        ({"type": "words"}, "/type", "words"),
        ({"$ref": "#/$defs/a"}, "/$ref", "#/$defs/a"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "/properties/a/$ref", "not local"),
        ({"enum": [1], "type": "string"}, "", "allows no value"),
        (7, "", "a schema must be an object, true or false"),
        (None, "", "a schema must be an object, true or false"),
    ],
)
def test_schemas_that_are_refused(schema: Any, pointer: str, reason: str):
    answer = check(schema, 1, "x")
    assert not answer["compiles"]
    (why,) = answer["refused"]
    assert why["pointer"] == pointer
    assert reason in why["reason"]
    assert why["reason"] in answer["error"]
    assert answer["results"] == [{"accepted": False, "delivered": False}] * 2
    assert (answer["enforced"], answer["checked"]) == ([], [])


def test_a_schema_that_llguidance_refuses(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> Matcher:
        raise GrammarError("the grammar is not valid: too large")

    monkeypatch.setattr(Matcher, "compile", refuse)
    answer = check({"type": "string"}, "x", 1)
    assert not answer["compiles"]
    assert answer["refused"][0]["reason"].startswith("the grammar is not valid")
    assert len(answer["results"]) == 2


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 is not an object"),
        ('{"id": 1}', "the row has no schema (at /schema)"),
        ('{"id": 1, "schema": {}, "tests": {}}', "tests must be a list (at /tests)"),
        ('{"id": 1, "schema": {}, "tests": [{}]}', "the test has no data (at /tests/0/data)"),
        ('{"id": 1, "schema": {}, "tests": [1]}', "the test has no data (at /tests/0/data)"),
    ],
)
def test_rows_that_cannot_be_read(line: str, error: str):
    lines = [line, '{"id": "next", "schema": true}']
    bad, good = check_schemas(read_rows(lines))
    assert error in bad["error"]
    assert (bad["compiles"], bad["results"]) == (False, [])
    assert good == {
        "id": "next",
        "compiles": True,
        "enforced": [],
        "checked": [],
        "repaired": [],
        "narrowed": [],
        "ignored": [],
        "refused": [],
        "results": [],
        "error": None,
    }


@given(st.data(), shapes() | parameters(), st.lists(VALUES, max_size=3), st.booleans())
def test_what_is_delivered_is_valid(data: st.DataObject, shape: Any, others: Any, close: bool):
    instances = [*data.draw(st.lists(shape.values, max_size=3)), *others]
    answer = check(shape.schema, *instances, close=close)
    assert len(answer["results"]) == len(instances)
    valid = jsonschema_rs.validator_for(shape.schema, validate_formats=True)
    for instance, result in zip(instances, answer["results"], strict=True):
        assert not result["delivered"] or (result["accepted"] and valid.is_valid(instance))


@given(shapes() | parameters(), st.lists(VALUES, max_size=4))
def test_closed_admits_no_more_than_open(shape: Any, instances: list[Any]):
    opened, closed = (check(shape.schema, *instances, close=c) for c in (False, True))
    for more, less in zip(opened["results"], closed["results"], strict=True):
        assert more["accepted"] or not less["accepted"]


@given(VALUES)
def test_every_value_fits_true(value: Any):
    json.dumps(value, ensure_ascii=False).encode()  # the strategy has no half characters
    assert results(True, value) == "d"
