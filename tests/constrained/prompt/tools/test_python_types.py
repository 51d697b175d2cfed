"""Python types: what their mask allows is converted, and what cannot be is said at once."""

import datetime
import decimal
import ipaddress
import json
import random
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator
from typing_extensions import TypeAliasType

from constrained.errors import CallError, RefusedValueWarning
from constrained.prompt.answers import read_target
from constrained.prompt.tools.execution import format_result
from constrained.prompt.tools.functions import FunctionTool
from constrained.prompt.tools.python_types import describe_type
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import ToolError
from grammars.parse.parser import parse
from grammars.schema.corner_values import MAX_VALUES, list_corner_values
from grammars.turn import JsonAnswer, Policy, State
from grammars.wire.formats import HERMES, QWEN3_CODER
from tests.agreement.matching import Masked
from tests.constrained.prompt.tools.python_annotations import (
    ANNOTATIONS,
    Album,
    Color,
    Corner,
    Holiday,
    Mixed,
    Parcel,
    Point,
    Return,
    Shipment,
    Track,
)

DOCUMENT = Path(__file__).parents[4] / "docs" / "python-types.md"
WALKS = 10
Notes = TypeAliasType("Notes", pydantic.Json[dict[str, list[int]]])


def take(annotation: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return x

    f.__annotations__ = {"x": annotation}
    return f


def bind(annotation: Any, value: Any) -> Any:
    _, keywords = FunctionTool.from_function(take(annotation)).bind({"x": value})
    return keywords["x"]


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_what_the_mask_allows_is_converted(name: str) -> None:
    function = take(ANNOTATIONS[name])
    tool = FunctionTool.from_function(function)  # warnings are errors
    rng = random.Random(name)
    found = 0
    for format in (HERMES, QWEN3_CODER):
        tools = read_tools([function])
        mask = Masked(format, tools, Policy.named("f"), State())
        for _ in range(WALKS):
            text = mask.walk(rng, steps=900)
            if text is None:
                continue
            found += 1
            (call,) = parse(text, format, tools, State()).calls
            assert call.valid, (text, call)
            tool.bind(call.arguments)
    assert found, "no walk ended"


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_a_type_as_an_answer(name: str) -> None:
    target = read_target(schema=ANNOTATIONS[name])
    assert isinstance(target.answer, JsonAnswer)
    values = list_corner_values(target.answer.schema)
    assert 0 < len(values) <= MAX_VALUES
    for value in values:
        target.read(json.dumps(value))


def test_the_documented_schemas_are_those_of_the_types() -> None:
    names = {**vars(typing), **vars(ipaddress), **vars(datetime), **vars(pydantic)}
    names |= {"Decimal": decimal.Decimal, "Color": Color}
    rows = re.findall(r"^\| `(.*?)` \| `(.*)` \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 13
    for annotation, schema in rows:
        described = describe_type(eval(annotation, names))
        keywords = {key: part for key, part in described.items() if key != "type"} or described
        assert json.dumps(keywords) == schema.replace(r"\|", "|"), annotation


def test_members_of_an_enum_are_bound_by_their_values() -> None:
    assert bind(Literal[Color.RED], "red") is Color.RED
    assert bind(Literal[Color.RED, "red"], "red") is Color.RED
    assert bind(dict[Color, int], {"green": 1}) == {Color.GREEN: 1}
    assert bind(Corner, [1, 0]) is Corner.RIGHT
    apple = bind(ANNOTATIONS["discriminated"], {"kind": "red", "weight": 1.5})
    assert (type(apple).__name__, apple.kind) == ("Apple", Color.RED)


class Calendar(BaseModel):
    first: Holiday
    others: list[Holiday] = []
    color: Literal[Color.RED] = Color.RED
    notes: Notes | None = None
    more: list["Calendar"] = []


def test_types_that_are_used_several_times_are_bound() -> None:
    day = Holiday.NEW_YEAR.value.isoformat()
    inner = {"first": day, "others": [day], "color": "red", "notes": {"a": [1]}}
    (outer,) = bind(list[Calendar], [{**inner, "more": [inner]}])
    for calendar in (outer, *outer.more):
        assert calendar.others == [calendar.first] == [Holiday.NEW_YEAR]
        assert (calendar.color, calendar.notes) == (Color.RED, {"a": [1]})


def test_the_value_of_a_json_text_is_taken_itself() -> None:
    assert bind(pydantic.Json[list[int]], [1, 2]) == [1, 2]
    assert bind(list[pydantic.Json], [{"a": "b"}]) == [{"a": "b"}]


@pytest.mark.parametrize("bits", [31, 63, 64, 200])
def test_integers_of_any_size_are_bound(bits: int) -> None:
    assert bind(int, 2**bits) == 2**bits
    assert bind(int, -(2**bits)) == -(2**bits)


def test_structs_are_bound_with_their_defaults() -> None:
    shipment = bind(Shipment, {"type": "shipment", "sentOn": "2026-03-01"})
    assert shipment == Shipment(sent_on=datetime.date(2026, 3, 1))
    assert shipment.note is msgspec.UNSET
    shipments = bind(list[Shipment | Return], [{"type": "return", "reason": "Late"}])
    assert shipments == [Return("Late")]
    assert bind(Parcel[datetime.date], {"item": "2026-03-01"}).item == datetime.date(2026, 3, 1)
    written = {"type": "shipment", "sentOn": "2026-03-01", "cost": "1.5", "parts": []}
    assert json.loads(format_result(shipment)) == written


def test_structs_are_bound_as_arrays_and_in_fields_of_classes() -> None:
    album = bind(Album, {"first": ["track", "A", [["track", "B"]]], "returns": []})
    assert album == Album(Track("A", [Track("B")]))
    assert album.first.length is msgspec.UNSET
    album = bind(Album, {"first": ["track", "A"], "returns": [{"type": "return", "reason": "B"}]})
    assert album == Album(Track("A"), [Return("B")])


def test_keys_are_bound_by_their_json() -> None:
    assert bind(dict[Literal[1, True, "a"], int], {"1": 1, "a": 2}) == {1: 1, "a": 2}
    assert bind(dict[Mixed, int], {"null": 1, "2.5": 2}) == {Mixed.NOTHING: 1, Mixed.HALF: 2}


def test_an_error_of_a_validator_is_that_of_the_call() -> None:
    with pytest.warns(RefusedValueWarning):
        tool = FunctionTool.from_function(take(Annotated[int, AfterValidator(fail)]))
    with pytest.raises(CallError, match="KeyError: 3"):
        tool.bind({"x": 3})


def test_a_struct_is_a_tool() -> None:
    tool = FunctionTool.from_model(Return)
    assert tool.bind({"type": "return", "reason": "Late"}) == ([Return("Late")], {})


class Order(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def check(cls, code: str) -> str:
        if not code.startswith("INV-"):
            raise ValueError("begin with INV-")
        return code


def fail(value: Any) -> Any:
    raise KeyError(value)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Order, "/x/code does not take '': Value error, begin with INV-"),
        (Annotated[int, AfterValidator(fail)], "KeyError: 0"),
        (Annotated[str, BeforeValidator(fail)], "KeyError: ''"),
    ],
)
def test_values_that_a_type_refuses_are_named_once(annotation: Any, reason: str) -> None:
    function = take(annotation)
    with pytest.warns(RefusedValueWarning) as found:
        FunctionTool.from_function(function)
    (warning,) = found
    assert reason in str(warning.message)
    assert "CallError" in str(warning.message)
    FunctionTool.from_function(function)  # it is not said again


def test_a_validator_is_not_called_with_more_than_a_few_values() -> None:
    seen: list[str] = []

    def note(value: str) -> str:
        seen.append(value)
        return value

    def f(x: Annotated[str, AfterValidator(note)]) -> None:
        raise AssertionError("the function itself is never called")

    FunctionTool.from_function(f)
    assert 0 < len(seen) <= MAX_VALUES
    FunctionTool.from_function(f)
    assert len(seen) <= MAX_VALUES


class Box(BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    content: Return


class Wrong(BaseModel):
    """A model with a field that JSON Schema describes wrongly."""

    when: Annotated[
        pydantic.NaiveDatetime, pydantic.WithJsonSchema({"format": "date-time", "type": "string"})
    ]


@pytest.mark.parametrize(
    ("annotation", "place"),
    [
        (Annotated[int, pydantic.WithJsonSchema({"const": "a"})], "/x does not take 'a'"),
        (Wrong, "/x/when does not take '0001-01-01T00:00:00Z'"),
        (list[int] | Wrong, None),
    ],
)
def test_a_type_that_takes_nothing_is_refused(annotation: Any, place: str | None) -> None:
    if place is None:
        with pytest.warns(RefusedValueWarning, match="when"):
            FunctionTool.from_function(take(annotation))
        return
    with pytest.raises(ToolError) as info:
        FunctionTool.from_function(take(annotation))
    assert place in info.value.message


def test_a_field_or_an_answer_that_takes_nothing_is_refused() -> None:
    with pytest.raises(ToolError, match=r"class Wrong: /when does not take .* timezone"):
        FunctionTool.from_model(Wrong)
    with pytest.raises(ToolError, match="/when does not take"):
        read_target(schema=Wrong)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (dict[tuple[int, int], str], "use list[tuple[K, V]] in place of dict[K, V]"),
        (dict[Point, int], "use list[tuple[K, V]] in place of dict[K, V]"),
        (Box, "Cannot generate a JsonSchema for core_schema.IsInstanceSchema"),
        (type[int], "Cannot generate a JsonSchema for a class"),
        (Annotated[str, Field(pattern="(?=a)b")], "look-around, including look-ahead"),
        (Annotated[str, Field(pattern="(")], "unclosed group"),
    ],
)
def test_the_whole_reason_is_said_in_one_line(annotation: Any, reason: str) -> None:
    with pytest.raises(ToolError, match="parameter 'x' of") as info:
        FunctionTool.from_function(take(annotation))
    assert reason in info.value.message
    assert "\n" not in info.value.message
