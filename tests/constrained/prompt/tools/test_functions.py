"""Functions, methods and classes as tools: their names, descriptions and schemas."""

import enum
import functools
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import mcp
import msgspec
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel
from pydantic.v1 import BaseModel as BaseModel1
from typing_extensions import Doc, TypedDict

from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.functions import FunctionTool, as_json, as_tool, find_tool, tool
from constrained.prompt.tools.shapes import as_openai, read_tools
from grammars.errors import SchemaError, ToolError
from tests.real_templates import require_models_directory


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    """How large it is."""

    SMALL = 1


@dataclass
class Point:
    x: int
    y: int = 0


class Node(BaseModel):
    """A node."""

    value: int
    title: str = Field("t", title="A title")
    children: list["Node"] = []


class Options(TypedDict):
    name: str


def describe(thing: Any) -> dict[str, Any]:
    """The schema of its arguments, which has to be one that a mask can hold."""
    (read,) = read_tools([thing])
    (shown,) = as_openai([thing])
    assert shown["function"]["parameters"] == read.schema.source
    return json.loads(json.dumps(read.schema.source))


def annotated(annotation: Any, *default: Any) -> Callable[..., Any]:
    def f(x: Any = None) -> None: ...

    f.__defaults__ = default
    f.__annotations__ = {"x": annotation}
    return f


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {"default": 0, "type": "integer"}},
    "required": ["x"],
}
CHILDREN = {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}
NODE = {
    "type": "object",
    "description": "A node.",
    "properties": {
        "value": INTEGER,
        "title": {"type": "string", "title": "A title", "default": "t"},
        "children": CHILDREN,
    },
    "required": ["value"],
}
NUMBERED = {"type": "integer", "minimum": 0, "description": "how many"}


@pytest.mark.parametrize(
    ("annotation", "schema", "definitions"),
    [
        (int, INTEGER, {}),
        (float, {"type": "number"}, {}),
        (str, STRING, {}),
        ("str", STRING, {}),
        (bool, {"type": "boolean"}, {}),
        (None, {"type": "null"}, {}),
        (Any, {}, {}),
        (int | None, {"anyOf": [INTEGER, {"type": "null"}]}, {}),
        (int | str, {"anyOf": [INTEGER, STRING]}, {}),
        (Literal["a", 1], {"enum": ["a", 1]}, {}),
        (Annotated[int, Field(ge=0, description="how many")], NUMBERED, {}),
        (Annotated[int, Doc("how many"), Field(ge=0)], NUMBERED, {}),
        (Annotated[int, "how many", "more", Field(ge=0)], NUMBERED, {}),
        (Annotated[int, "a text", Doc("how many"), Field(ge=0)], NUMBERED, {}),
        (Annotated[int, "a text", Field(ge=0, description="how many")], NUMBERED, {}),
        (list[int], {"type": "array", "items": INTEGER}, {}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, {}),
        (date, {"type": "string", "format": "date"}, {}),
        (datetime, {"type": "string", "format": "iso-date-time"}, {}),
        (Color, {"$ref": "#/$defs/Color"}, {"Color": {"enum": ["red", "green"], **STRING}}),
        (
            Size,
            {"$ref": "#/$defs/Size"},
            {"Size": {"enum": [1], "description": "How large it is.", **INTEGER}},
        ),
        (Point, {"$ref": "#/$defs/Point"}, {"Point": POINT}),
        (list["Point"], {"type": "array", "items": {"$ref": "#/$defs/Point"}}, {"Point": POINT}),
        (Node, {"$ref": "#/$defs/Node"}, {"Node": NODE}),
        (
            Options,
            {"$ref": "#/$defs/Options"},
            {"Options": {"type": "object", "properties": {"name": STRING}, "required": ["name"]}},
        ),
    ],
)
def test_types(annotation: Any, schema: Any, definitions: Any):
    expected = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    expected |= {"additionalProperties": False} | ({"$defs": definitions} if definitions else {})
    assert describe(annotated(annotation)) == expected


def test_a_signature():
    def find(
        text,
        /,
        where: str,
        limit: int = 10,
        *,
        since: date = date(2024, 1, 2),
        schema: Annotated[bool, 7, ""] = True,
        model_config: int | None = None,
        _hidden: str = Field("h", max_length=3, description="Said in the field."),
        from_: Annotated[str, Field(alias="from")] = "a",
        strategy: Any = object(),  # noqa: B008  a default that is no JSON
        maker: Annotated[list[int], Field(default_factory=list)],
    ) -> list[str]:
        """Finds a text.

        Args:
            text: what to find
            limit: at most so many
            from_: where from
            _hidden: Said in the docstring.
        """
        return []

    (shown,) = as_openai([find])
    assert list(shown["function"]) == ["name", "description", "parameters"]
    assert shown["function"]["name"] == "find"
    assert shown["function"]["description"] == "Finds a text."
    schema = describe(find)
    assert schema["required"] == ["text", "where"]
    assert list(schema["properties"].items()) == [
        ("text", {"description": "what to find"}),
        ("where", STRING),
        ("limit", {"default": 10, "description": "at most so many", **INTEGER}),
        ("since", {"default": "2024-01-02", "format": "date", **STRING}),
        ("schema", {"default": True, "type": "boolean"}),
        ("model_config", {"anyOf": [INTEGER, {"type": "null"}], "default": None}),
        (
            "_hidden",
            {"default": "h", "description": "Said in the field.", "maxLength": 3, **STRING},
        ),
        ("from", {"default": "a", "description": "where from", **STRING}),
        ("strategy", {}),
        ("maker", {"items": INTEGER, "type": "array"}),
    ]


def test_no_parameters():
    def ping() -> None: ...

    schema = describe(ping)
    assert schema == {"type": "object", "properties": {}, "additionalProperties": False}
    (shown,) = as_openai([ping])
    assert shown["function"]["description"] == ""


def test_a_parameter_that_is_called_cls():
    def classify(cls: str) -> str:
        return cls

    assert describe(classify)["properties"] == {"cls": STRING}


def test_real_templates_take_functions():
    # Users write such defaults, too.
    def paint(color: Annotated[Color, Field(description="of it")], nodes: list[Node] = []):  # noqa: B006
        """Paints.

        Args:
            nodes: all of them
        """

    def ping() -> None: ...

    tools = as_openai([paint, ping, Node])
    folder = require_models_directory() / "templates"
    paths = {path.stem: path for path in folder.glob("*.jinja")}
    # This one reads the description of each parameter.
    del paths["CohereForAI-c4ai-command-r-plus-tool_use"]
    assert len(paths) > 60
    for path in paths.values():
        template = ChatTemplate(path.read_text("utf-8"), name=path.name)
        template.render([{"role": "user", "content": "Hello"}], tools)


def test_a_docstring_beside_a_reference():
    def paint(color: Color) -> None:
        """Paints.

        Args:
            color: of the wall
        """

    schema = describe(paint)
    assert schema["properties"]["color"] == {
        "$ref": "#/$defs/Color",
        "description": "of the wall",
    }
    (read,) = read_tools([paint])
    assert read.schema.admits({"color": "red"})
    assert not read.schema.admits({"color": "blue"})


class Store:
    def get(self, key: str) -> str:
        """Gets it."""
        return key

    @classmethod
    def make(cls, size: int) -> int:
        return size

    @tool(name="static_one", strict=False)
    @staticmethod
    def static(size: int) -> int:
        return size

    @tool(description="Puts it.")
    def put(self, key: str) -> str:
        return key

    def __call__(self, key: str) -> str:
        """Calls it."""
        return key


def test_methods():
    store = Store()
    read = read_tools([store.get, Store.make, Store.static, store.put])
    assert [t.name for t in read] == ["get", "make", "static_one", "put"]
    assert [t.description for t in read] == ["Gets it.", "", "", "Puts it."]
    assert [t.strict for t in read] == [True, True, False, True]
    assert [list(t.schema.source["properties"]) for t in read] == [
        ["key"],
        ["size"],
        ["size"],
        ["key"],
    ]


def test_decorated_functions_stay_what_they_are():
    @tool
    def plain(x: int) -> int:
        """Plain."""
        return x + 1

    @tool(name="other", description="Told.", strict=True)
    async def asked(x: int) -> int:
        """Not told."""
        return x + 1

    assert plain(1) == 2
    first, second = as_openai([plain, asked])
    assert first["function"]["name"] == "plain"
    assert first["function"]["description"] == "Plain."
    assert "strict" not in first["function"]
    assert second["function"]["name"] == "other"
    assert second["function"]["description"] == "Told."
    assert second["function"]["strict"] is True

    @functools.wraps(asked)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asked(*args, **kwargs)

    assert as_openai([wrapper]) == as_openai([asked])
    renamed = FunctionTool.from_function(asked, name="third", description="", strict=False)
    assert (renamed.name, renamed.description, renamed.strict) == ("third", "", False)
    assert renamed.parameters == second["function"]["parameters"]


def test_callables_without_a_name_of_their_own():
    part = functools.partial(Store().get, key="a")
    made = FunctionTool.from_function(part, name="part")
    assert made.description == "Gets it."
    assert made.parameters["properties"] == {"key": {"default": "a", **STRING}}
    called = FunctionTool.from_function(Store(), name="called")
    assert called.description == "Calls it."
    assert list(called.parameters["properties"]) == ["key"]
    squared = FunctionTool.from_function(lambda x: x * x, name="square")
    assert squared.parameters["properties"] == {"x": {}}


class Weather(BaseModel):
    """Asks for the weather.

    In a city.
    """

    model_config = ConfigDict(title="Weather!")
    city: str = Field(description="where")
    unit: Literal["c", "f"] = "c"


def test_model_classes():
    (shown,) = as_openai([Weather])
    assert shown["function"] == {
        "name": "Weather",
        "description": "Asks for the weather.\n\nIn a city.",
        "parameters": {
            "title": "Weather!",
            "type": "object",
            "properties": {
                "city": {"description": "where", **STRING},
                "unit": {"default": "c", "enum": ["c", "f"], **STRING},
            },
            "required": ["city"],
        },
    }
    assert describe(Point) == POINT
    assert as_tool(Point).description == ""

    @tool(name="other")
    class Named(Weather):
        pass

    class Heir(Named):
        pass

    assert [t.name for t in read_tools([Named, Heir])] == ["other", "Heir"]
    assert FunctionTool.from_model(Weather, name="w", description="d", strict=False).strict is False


def test_a_model_that_refers_to_itself():
    schema = describe(Node)
    assert schema["properties"]["children"] == CHILDREN
    assert schema["$defs"] == {"Node": NODE}
    assert "description" not in schema
    assert as_tool(Node).description == "A node."
    (read,) = read_tools([Node])
    assert read.schema.admits({"value": 1, "children": [{"value": 2}]})


def test_schemas_with_and_without_a_function():
    schema = {"type": "object", "properties": {"x": INTEGER}}
    bare = FunctionTool.from_schema("f", schema)
    assert as_json(bare) == {
        "type": "function",
        "function": {"name": "f", "description": "", "parameters": schema},
    }
    full = FunctionTool.from_schema("g", schema, print, description="Prints.", strict=False)
    assert as_json(full)["function"] == {
        "name": "g",
        "description": "Prints.",
        "parameters": schema,
        "strict": False,
    }
    read = read_tools([bare, full])
    assert [(t.name, t.description, t.strict) for t in read] == [
        ("f", "", True),
        ("g", "Prints.", False),
    ]


@dataclass
class McpTool:
    """As `mcp.types.Tool`."""

    name: str
    inputSchema: dict[str, Any]  # noqa: N815  (MCP's spelling)
    description: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)


def test_tools_of_an_mcp_client():
    schema = {"type": "object", "properties": {"x": INTEGER}}
    tools = [McpTool("f", schema, "An f."), SimpleNamespace(name="g", inputSchema=schema)]
    assert [t["function"] for t in as_openai(tools)] == [
        {"name": "f", "description": "An f.", "parameters": schema},
        {"name": "g", "description": "", "parameters": schema},
    ]
    assert [t.schema.source for t in read_tools(tools)] == [schema, schema]


def test_tools_of_the_package_mcp():
    schema = {"type": "object", "properties": {"x": INTEGER}}
    hints = mcp.types.ToolAnnotations(read_only_hint=True)
    listed = mcp.types.Tool(name="f", description="An f.", input_schema=schema, annotations=hints)
    assert as_openai([listed])[0]["function"]["parameters"] == schema
    made = FunctionTool.from_mcp(listed, print)
    assert (made.name, made.parameters, made.read_only) == ("f", schema, True)
    assert not made.repeatable


def test_a_tool_may_be_repeatable():
    @tool(repeatable=True)
    def roll(sides: int) -> int:
        """Rolls a die."""
        return sides

    schema = {"type": "object", "properties": {"x": INTEGER}}
    listed = mcp.types.Tool(name="f", input_schema=schema, _meta={"repeatable": True})
    made = FunctionTool.from_mcp(listed, print)
    said = FunctionTool.from_mcp(listed.model_dump(by_alias=True), print)
    assert made.repeatable
    assert said.repeatable
    marked = [roll, listed, made, FunctionTool.from_schema("g", schema, repeatable=True)]
    assert all(shown["function"]["repeatable"] for shown in as_openai(marked))
    plain = FunctionTool.from_function(roll, repeatable=False)
    assert "repeatable" not in as_openai([plain])[0]["function"]


def test_a_function_is_no_tool_of_mcp():
    def ping(x: int) -> None: ...

    ping.name, ping.input_schema = "other", {"type": "object"}  # type: ignore[attr-defined]
    assert [t.name for t in read_tools([ping])] == ["ping"]


def test_all_shapes_in_one_list():
    tools = [Weather, {"name": "f"}, Store().get, FunctionTool.from_schema("g", {}), len_of]
    names = ["Weather", "f", "get", "g", "len_of"]
    assert [t.name for t in read_tools(tools)] == names
    assert [t["function"]["name"] for t in as_openai(tools)] == names
    found = find_tool("len_of", tools)
    assert found is not None
    assert found.function is len_of
    assert find_tool("f", tools) is None
    assert find_tool("unknown", tools) is None


def len_of(text: str) -> int:
    return len(text)


def takes_all(*things: int) -> None: ...


def takes_options(**things: int) -> None: ...


def takes_function(x: int, then: Callable[[], int]) -> None: ...


# A name that is nowhere: the signature cannot be read.
def takes_bound_text(x: int, y: Annotated[object, Field(max_length=1)], z: "Missing") -> None: ...  # noqa: F821


def takes_object(x: int, store: Store) -> None: ...


def takes_same(a: Annotated[int, Field(alias="b")], b: int) -> None: ...


def takes_either(a: Annotated[int, Field(validation_alias=AliasChoices("b", "c"))]) -> int:
    """A.

    Args:
        a: an a
    """
    return a


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    store: Store


class Old(BaseModel1):
    x: int


def takes_old(x: int, old: list[Old] | None = None) -> None: ...


@dataclass
class Wrapped:
    struct: msgspec.Struct


class Row(msgspec.Struct, array_like=True):
    x: int


class Numbers(RootModel[list[int]]):
    pass


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (takes_all, r"takes_all takes \*things: int, which a schema cannot describe"),
        (takes_options, r"takes_options takes \*\*things: int"),
        (takes_function, "parameter 'then' of takes_function cannot be described: .*Callable"),
        (takes_bound_text, "signature of takes_bound_text cannot be read: name 'Missing' is not"),
        (takes_object, "parameter 'store' of takes_object cannot be described: .*Store"),
        (takes_same, "takes_same has two parameters with the same alias"),
        (Store.get, r"Store\.get is a method without its self"),
        (lambda x: x, "has no valid name for a tool"),
        (functools.partial(len_of), "has no valid name for a tool"),
        (Store(), "has no valid name for a tool"),
        (Store, "class Store has no fields"),
        (int, "class int has no fields"),
        (Holder, "class Holder cannot be described"),
        (Old, "class Old has no fields .* a model of pydantic 2"),
        (Wrapped, r"class Wrapped cannot be described: .*msgspec\.Struct"),
        (max, "the signature of max cannot be read: no signature found"),
        (object(), "a tool is not JSON: .*object"),
    ],
)
def test_what_cannot_be_a_tool(thing: Any, message: str):
    with pytest.raises(ToolError, match=message) as info:
        read_tools([{"name": "f"}, thing])
    assert info.value.where == "/tools/1"
    if callable(thing):
        with pytest.raises(ToolError) as info:
            as_openai([thing])
        assert info.value.where == "/tools/0"


def test_two_functions_of_one_name():
    with pytest.raises(ToolError, match="two tools are called 'len_of'"):
        read_tools([len_of, {"name": "len_of"}])


@pytest.mark.parametrize("kind", [Numbers, Row])
def test_arguments_that_are_no_object(kind: type):
    with pytest.raises(SchemaError, match=r"tool '\w+': .*allows no object") as info:
        read_tools([kind])
    assert info.value.where == "/tools/0/function/parameters"


def test_an_alias_of_several_keys_is_described():
    assert describe(takes_either)["properties"] == {"b": {"description": "an a", **INTEGER}}


def test_what_cannot_be_decorated():
    with pytest.raises(ToolError, match=r"cannot be decorated.*from_function"):
        tool(Store().get, name="other")
    with pytest.raises(ToolError, match="cannot be decorated"):
        tool(len)


def test_schemas_are_written_in_the_usual_order() -> None:
    class Size(BaseModel):
        type: str = "cm"
        default: int = Field(3, ge=1, description="of all")

    def cut(size: Size, parts: list[Size], name: str | None = None) -> None:
        """Cuts."""

    schema: Any = FunctionTool.from_function(cut).parameters
    assert list(schema) == ["type", "properties", "required", "$defs", "additionalProperties"]
    assert list(schema["properties"]) == ["size", "parts", "name"]
    assert list(schema["properties"]["name"]) == ["anyOf", "default"]
    inner = schema["$defs"]["Size"]
    assert list(inner) == ["type", "properties"]
    assert list(inner["properties"]) == ["type", "default"]
    assert list(inner["properties"]["default"])[:1] == ["type"]


def test_a_type_that_cannot_be_described_is_an_error_that_names_it() -> None:
    for kind in (type, range, memoryview):
        with pytest.raises(ToolError, match=r"parameter 'x' of .* cannot be described"):
            describe(annotated(kind))


def move_point(point: Point, *, by: int = 1) -> Point:
    """Moves a point."""
    return Point(point.x + by, point.y)


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        (FunctionTool.from_function(move_point, cost=None, read_only=True), {"point": {"x": 1}}),
        (FunctionTool.from_model(Point, name="point"), {"x": 1}),
        (FunctionTool.from_schema("point", {"type": "object"}, move_point), {"x": 1}),
    ],
)
def test_a_tool_is_the_same_in_another_process(made: FunctionTool, arguments: Any) -> None:
    other = pickle.loads(pickle.dumps(made))
    assert (other.name, other.parameters) == (made.name, made.parameters)
    assert (other.function, other.read_only) == (made.function, made.read_only)
    assert other.bind(arguments) == made.bind(arguments)
    assert pickle.loads(pickle.dumps(other)).bind(arguments) == made.bind(arguments)
