"""Parameters of tools in few words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from constrained.agent.search.signature_text import DEEPEST, describe_parameters
from constrained.prompt.tools.functions import FunctionTool


def describe(schema: Any, **more: Any) -> str:
    properties = {"a": schema}
    (text,) = describe_parameters({"properties": properties, "required": ["a"], **more}).values()
    return text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "description": "a city"}, "string (a city)"),
        ({"type": "string", "format": "date"}, "string<date>"),
        ({"enum": ["low", 3, None]}, '"low" | 3 | null'),
        ({"const": "ä"}, '"ä"'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, {"const": 1}, {"type": "integer"}]}, "integer | 1"),
        ({"type": "array", "items": {"type": "number"}}, "number[]"),
        ({"type": "array", "items": {"enum": [1, 2]}}, "(1 | 2)[]"),
        ({"type": "array"}, "any[]"),
        ({"type": "object"}, "object"),
        ({"properties": {"x": {}, "y": {"type": "null"}}, "required": ["y"]}, "{x?: any, y: null}"),
        ({"allOf": [{"type": "boolean"}]}, "boolean"),
        ({"$ref": "#/$defs/b~1c"}, "integer"),
        ({"$ref": "#/$defs/missing"}, "any"),
        (True, "any"),
    ],
)
def test_types(schema: Any, text: str) -> None:
    assert describe(schema, **{"$defs": {"b/c": {"type": "integer"}}}) == text


def test_long_enumerations_are_shortened() -> None:
    text = describe({"enum": list(range(1000))})
    assert text.startswith("0 | 1 | ")
    assert text.endswith("| 19 | ... (1,000 values)")


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    text = describe({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}})
    assert 0 < text.count("next") <= DEEPEST
    assert describe({"$ref": "#/properties/a"}) == "any"


class Address(BaseModel):
    """Where."""

    street: str
    zip: int | None = None


def test_parameters_of_a_function() -> None:
    def send(address: Address, *, count: int = 1) -> None:
        """Sends.

        Args:
            count: how many
        """

    described = describe_parameters(FunctionTool.from_function(send).parameters)
    assert described == {
        "address": "{street: string, zip?: integer | null}",
        "count?": "integer (how many)",
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "$ref",
                    "anyOf",
                    "allOf",
                    "enum",
                    "type",
                    "items",
                    "properties",
                    "required",
                    "format",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_whatever_stands_there_is_described(properties: Any) -> None:
    described = describe_parameters({"properties": properties})
    assert list(described) == [f"{name}?" for name in properties]
    assert all(described.values())
