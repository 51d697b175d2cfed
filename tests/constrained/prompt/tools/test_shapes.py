"""Tools and tool choices in all the shapes that people have them in."""

from typing import Any

import pytest

from constrained.prompt.tools.shapes import as_openai, read_policy, read_tools
from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.turn import Choice, Policy, Think

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SHAPES = {
    "openai": {"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
    "untyped": {"function": {"name": "f", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True},
    "anthropic": {"name": "f", "input_schema": SCHEMA, "type": "custom"},
    "mcp": {"name": "f", "title": "F", "inputSchema": SCHEMA, "annotations": {}},
    "null": {"function": None, "name": "f", "parameters": None, "input_schema": SCHEMA},
    "null last": {"name": "f", "input_schema": SCHEMA, "parameters": None},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str):
    (read,) = read_tools([SHAPES[shape]])
    assert read.name == "f"
    assert read.schema.source == SCHEMA
    (shown,) = as_openai([SHAPES[shape]])
    assert shown["type"] == "function"
    assert shown["function"]["name"] == "f"
    assert shown["function"]["parameters"] == SCHEMA


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_tool_without_parameters(parameters: dict[str, Any]):
    (read,) = read_tools([{"name": "f", **parameters}])
    assert read.schema.admits({})
    (shown,) = as_openai([{"name": "f", **parameters}])
    assert isinstance(shown["function"]["parameters"], dict)


def test_keys_keep_their_order():
    (shown,) = as_openai([{"input_schema": SCHEMA, "description": "d", "name": "f"}])
    assert list(shown["function"]) == ["parameters", "description", "name"]


@pytest.mark.parametrize("name", ["type", "function", "name", "😀", "a b", "x" * 1000, "none"])
def test_names_that_are_odd(name: str):
    (read,) = read_tools([{"name": name, "description": "😀" * 50_000}])
    assert read.name == name


def test_descriptions():
    with_null, absent = read_tools([{"name": "f", "description": None}, {"name": "g"}])
    assert with_null.description == absent.description == ""


def test_no_tools():
    assert read_tools([]) == read_tools(()) == ()
    assert as_openai([]) == []


@pytest.mark.parametrize(
    ("tools", "where", "message"),
    [
        ({"tools": []}, "/tools", "tools must be a list, not dict"),
        ("f", "/tools", "tools must be a list, not str"),
        (None, "/tools", "tools must be a list, not NoneType"),
        (["f"], "/tools/0", "a tool must be an object"),
        ([SHAPES["mcp"], 5], "/tools/1", "a tool must be an object"),
        ([{"function": "f"}], "/tools/0/function", "must be an object"),
        ([{}], "/tools/0/name", "a tool has no name"),
        ([{"function": {"name": ""}}], "/tools/0/function/name", "a tool has no name"),
        ([{"name": 5}], "/tools/0/name", "a tool has no name"),
        ([{"name": "f", "parameters": []}], "/tools/0/parameters", "not a JSON Schema object"),
        ([{"name": "f", "inputSchema": "x"}], "/tools/0/inputSchema", "not a JSON Schema object"),
        ([SHAPES["mcp"], SHAPES["openai"]], "/tools/1", "two tools are called 'f'"),
        ([{"name": "\ud800"}], "/tools/0", "a tool is not JSON: .*surrogates"),
        ([{"name": "f", "parameters": {"default": float("nan")}}], "/tools/0", "not JSON"),
        ([{"name": "f", "parameters": {"enum": {1}}}], "/tools/0", "set is not JSON"),
    ],
)
def test_tools_that_cannot_be_used(tools: Any, where: str, message: str):
    with pytest.raises(ToolError, match=message) as info:
        read_tools(tools)
    assert info.value.where == where


@pytest.mark.parametrize(
    ("schema", "where", "message"),
    [
        ({"type": "string"}, "", "allows no"),
        (
            {"type": "object", "properties": {"a": {"type": "words"}}},
            "/properties/a/type",
            "words",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "/properties/a/$ref", r"\$ref"),
        ({"properties": {"a/b": {"$ref": "http://x/y"}}}, "/properties/a~1b/$ref", r"\$ref"),
        (SCHEMA | {"properties": {"a": {"$ref": "#"}}}, "/properties/a", "allows no"),
    ],
)
def test_schemas_that_cannot_be_used(schema: dict[str, Any], where: str, message: str):
    for key, pointer in (
        ("inputSchema", "/tools/0/inputSchema"),
        ("parameters", "/tools/0/parameters"),
    ):
        with pytest.raises(SchemaError, match=f"tool 'f': .*({message})") as info:
            read_tools([{"name": "f", key: schema}])
        assert info.value.where == pointer + where
    with pytest.raises(SchemaError) as info:
        read_tools([SHAPES["openai"] | {"function": {"name": "f", "parameters": schema}}])
    assert info.value.where == "/tools/0/function/parameters" + where


def test_what_nests_too_deeply_is_an_error_with_a_place():
    deep: Any = {}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ToolError, match="nested too deeply") as info:
        read_tools([{"name": "f", "parameters": {"properties": {"a": deep}}}])
    assert info.value.where == "/tools/0"


def test_a_schema_that_refers_to_itself():
    (read,) = read_tools([{"name": "f", "parameters": {"properties": {"a": {"$ref": "#"}}}}])
    assert read.schema.admits({"a": {"a": {}}})


AUTO, NONE, REQUIRED = Policy(Choice.AUTO), Policy(Choice.NONE), Policy(Choice.REQUIRED)
NAMED = Policy(Choice.REQUIRED, ("f",), parallel=False)
ALLOWED = [{"type": "function", "name": "f"}]


@pytest.mark.parametrize(
    ("choice", "policy"),
    [
        (None, AUTO),
        ("auto", AUTO),
        ({"type": "auto"}, AUTO),
        ("none", NONE),
        ({"type": "none"}, NONE),
        ("required", REQUIRED),
        ("any", REQUIRED),
        ({"type": "any"}, REQUIRED),
        ({"type": "any", "disable_parallel_tool_use": False}, REQUIRED),
        ({"type": "any", "disable_parallel_tool_use": True}, Policy(Choice.REQUIRED, None, False)),
        ({"type": "auto", "disable_parallel_tool_use": True}, Policy(Choice.AUTO, None, False)),
        ({"type": "tool", "name": "f"}, NAMED),
        ({"type": "tool", "name": "f", "disable_parallel_tool_use": True}, NAMED),
        ({"type": "function", "name": "f"}, NAMED),
        ({"type": "function", "function": {"name": "f"}}, NAMED),
        ({"function": {"name": "f"}}, NAMED),
        ({"type": "allowed_tools", "tools": ALLOWED}, Policy(Choice.AUTO, ("f",))),
        (
            {"type": "allowed_tools", "mode": "required", "tools": ALLOWED},
            Policy(Choice.REQUIRED, ("f",)),
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [SHAPES["openai"]]},
            },
            Policy(Choice.AUTO, ("f",)),
        ),
    ],
)
def test_policies(choice: Any, policy: Policy):
    assert read_policy(choice) == policy
    single = Policy(policy.choice, policy.names, False, Think.FORBIDDEN)
    assert read_policy(choice, parallel=False, think=Think.FORBIDDEN) == single


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "choice",
    [
        "f",
        "",
        5,
        [],
        {},
        {"type": "tool"},
        {"type": "tool", "name": 5},
        {"type": "function", "function": {}},
        {"type": "custom", "name": "f"},
        {"type": "custom", "disable_parallel_tool_use": True},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "tools": "f"},
        {"type": "allowed_tools", "tools": [{}]},
        {"type": "allowed_tools", "tools": ALLOWED, "mode": ["auto"]},
        {"type": "allowed_tools", "tools": ALLOWED, "mode": "none"},
        nested(500),
        "x" * 100_000,
    ],
)
def test_choices_that_are_not_known(choice: Any):
    with pytest.raises(PolicyError) as info:
        read_policy(choice)
    assert info.value.where == "/tool_choice"
    assert len(str(info.value)) < 400


def test_allowed_tools_that_are_no_tools():
    with pytest.raises(ToolError) as info:
        read_policy({"type": "allowed_tools", "tools": [5]})
    assert info.value.where == "/tool_choice"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("strict", "expected"), [(True, True), (False, False), (None, True)])
def test_strict(shape: str, strict: bool | None, expected: bool):
    tool: dict[str, Any] = dict(SHAPES[shape])
    if tool.get("function"):
        tool["function"] = tool["function"] | {"strict": strict}
    else:
        tool["strict"] = strict
    (read,) = read_tools([tool])
    assert read.strict is expected


@pytest.mark.parametrize("key", ["strict", "repeatable"])
@pytest.mark.parametrize("value", ["true", 1, [], {}])
def test_a_switch_that_is_no_boolean(key: str, value: Any):
    for tool, where in (
        ({"name": "f", key: value}, f"/tools/0/{key}"),
        ({"function": {"name": "f", key: value}}, f"/tools/0/function/{key}"),
    ):
        with pytest.raises(ToolError, match=rf"tool 'f': {key} is .*, not a boolean") as info:
            read_tools([tool])
        assert info.value.where == where
