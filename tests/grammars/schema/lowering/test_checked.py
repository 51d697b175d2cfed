"""Which arguments wait until they are checked."""

from typing import Any

import pytest

from grammars.schema.lowering.checked import CheckedArguments, find_checked
from grammars.schema.lowering.lower import lower

HOST = {"type": "string", "pattern": "(a|b)\\1"}
TEXT = {"type": "string"}
ODD = {"patternProperties": {"(a|b)\\1": False}}  # no mask holds that it is not so


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": TEXT}}, (False, set(), False)),
        ({"properties": {"a": TEXT, "b": HOST}}, (False, {"b"}, False)),
        ({"properties": {"a": {"type": "array", "items": HOST}}}, (False, {"a"}, False)),
        ({"properties": {"a": TEXT}, "not": ODD}, (True, set(), False)),
        ({"minProperties": 2, "additionalProperties": TEXT}, (True, set(), False)),
        ({"properties": {"a": TEXT}, "additionalProperties": HOST}, (False, set(), True)),
        (
            {
                "$defs": {"h": HOST, "l": {"type": "array", "items": {"$ref": "#/$defs/h"}}},
                "properties": {"a": {"$ref": "#/$defs/l"}, "b": {"$ref": "#/$defs/h"}, "c": TEXT},
            },
            (False, {"a", "b"}, False),
        ),
        (
            {
                "$defs": {"unused": TEXT},
                "properties": {"a": HOST, "b": {"$ref": "#/properties/a"}, "c": TEXT},
            },
            (False, {"a", "b"}, False),
        ),
        ({"properties": {"a": HOST, "b": {"$ref": "#"}}}, (False, {"a", "b"}, False)),
        (
            {
                "$defs": {"args": {"properties": {"a": HOST, "b": TEXT}}},
                "$ref": "#/$defs/args",
            },
            (False, {"a"}, False),
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {
                    "n": {
                        "type": "object",
                        "properties": {"c": {"$ref": "#/definitions/n"}},
                        "not": ODD,
                    }
                },
                "$ref": "#/definitions/n",
            },
            (True, {"c"}, False),
        ),
        (
            {"anyOf": [{"properties": {"a": HOST}}, {"properties": {"b": TEXT}}]},
            (True, set(), False),
        ),
    ],
)
def test_what_the_report_says_is_held(schema: dict[str, Any], expected: Any) -> None:
    found = find_checked(lower({"type": "object", **schema}))
    assert (found.whole, set(found.keys), found.others) == expected


def test_which_keys_are_held() -> None:
    assert not CheckedArguments()
    assert CheckedArguments(whole=True).covers("a")
    others = CheckedArguments(declared=frozenset("a"), others=True)
    assert others
    assert (others.covers("a"), others.covers("b")) == (False, True)
    assert CheckedArguments(keys=frozenset("a")).covers("a")
