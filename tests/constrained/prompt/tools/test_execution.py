"""Calls carried out: converted arguments, results as text, sync and async."""

import asyncio
import contextvars
import enum
import functools
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import to_jsonable_python

from constrained.errors import CallError
from constrained.prompt.tools.execution import acall_function, call_function, format_result
from constrained.prompt.tools.functions import FunctionTool, tool
from constrained.prompt.tools.shapes import read_tools
from grammars.schema.nodes import Violation
from grammars.turn import ToolCall


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    model_config = ConfigDict(strict=True)
    color: Color
    due: date
    points: list[Point] = []
    within: tuple[int, str] | None = None


def call(thing: Any, arguments: dict[str, Any]) -> Any:
    """Calls it in both ways."""
    (read,) = read_tools([thing])
    made = ToolCall(read.name, arguments)
    result = call_function(made, [thing])
    assert asyncio.run(acall_function(made, [thing])) == result
    return result


def returns(annotation: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return x

    f.__annotations__ = {"x": annotation}
    return f


short = st.text(max_size=5)
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, short),
    (bool, st.booleans()),
    (date, st.dates()),
    (Color, st.sampled_from(Color)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (list[Point], st.lists(st.builds(Point, st.integers()), max_size=3)),
    (dict[str, date], st.dictionaries(short, st.dates(), max_size=3)),
    (tuple[int, Color], st.tuples(st.integers(), st.sampled_from(Color))),
    (frozenset[int], st.frozensets(st.integers(), max_size=3)),
    (uuid.UUID, st.uuids()),
    (int | None, st.none() | st.integers()),
    (Order, st.builds(Order, color=st.sampled_from(Color), due=st.dates())),
]


@pytest.mark.parametrize(("annotation", "values"), VALUES, ids=[str(a) for a, _ in VALUES])
@given(data=st.data())
def test_values_arrive_as_the_annotated_types(
    annotation: Any, values: st.SearchStrategy[Any], data: st.DataObject
):
    value = data.draw(values)
    function = returns(annotation)
    arguments = {"x": to_jsonable_python(value)}
    (read,) = read_tools([function])
    assert read.schema.admits(arguments)
    arrived = call_function(ToolCall("f", arguments), [function])
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (datetime, "2024-05-06T07:08:09+00:00", datetime.fromisoformat("2024-05-06T07:08:09Z")),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (Decimal, "0.1", Decimal("0.1")),
        (Path, "a/b", Path("a/b")),
        (bytes, "é", "é".encode()),
        (set[str], ["a"], {"a"}),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (Annotated[int, AfterValidator(lambda x: x + 1)], 1, 2),
    ],
)
def test_further_types(annotation: Any, given: Any, value: Any):
    assert call(returns(annotation), {"x": given}) == value


# Users write such defaults, too.
def place(a, /, b: int = 2, *, c: list[int] = [], d: Annotated[int, Field(alias="D")] = 4):  # noqa: B006
    return a, b, c, d


def fielded(x: int = Field(3, ge=0), *, y: Annotated[int, Field(default_factory=lambda: 5)]):
    return x, y


def test_where_arguments_go():
    assert call(place, {"a": {"k": 1}}) == ({"k": 1}, 2, [], 4)
    assert call(place, {"D": 7, "c": [1], "b": 0, "a": None}) == (None, 0, [1], 7)
    assert call_function(ToolCall("place", {"a": 1}), [place])[2] is place.__kwdefaults__["c"]
    assert call(fielded, {}) == (3, 5)
    assert call(fielded, {"x": 1, "y": 2}) == (1, 2)

    def optional(a: int = 1, b: int = 2, /) -> tuple[int, int]:
        return a, b

    assert call(optional, {"b": 3}) == (1, 3)

    def odd(model_config: int, _x: int, schema: int, validate: int = 4) -> list[int]:
        return [model_config, _x, schema, validate]

    assert call(odd, {"schema": 3, "_x": 2, "model_config": 1}) == [1, 2, 3, 4]


def test_methods_models_and_schemas():
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        @tool(name="add")
        def increase(self, by: int) -> int:
            self.count += by
            return self.count

    counter = Counter()
    assert call_function(ToolCall("add", {"by": 2}), [counter.increase]) == 2
    assert call_function(ToolCall("add", {"by": 3}), [counter.increase]) == 5
    order = call(Order, {"color": "red", "due": "2024-01-02", "points": [{"x": 1}]})
    assert order == Order(color=Color.RED, due=date(2024, 1, 2), points=[Point(1)])
    assert call(Point, {"x": 1}) == Point(1)
    schema = {"properties": {"day": {"type": "string", "format": "date"}}}
    made = FunctionTool.from_schema("f", schema, lambda **given: given)
    assert call(made, {"day": "2024-01-02"}) == {"day": "2024-01-02"}


def parse_even(x: int) -> int:
    if x % 2:
        raise ValueError("odd")
    return x


Even = Annotated[int, AfterValidator(parse_even)]


@pytest.mark.filterwarnings("ignore::constrained.errors.RefusedValueWarning")
def test_arguments_that_do_not_fit():
    def take(n: Even, order: Order | None = None) -> int:
        return n

    for arguments, where, message, hint in (
        ({"n": 1}, "/arguments/n", "Value error, odd", None),
        ({}, "/arguments/n", "Field required", None),
        ({"n": 2, "m/": 1}, "/arguments/m~1", "no parameter 'm/'", "Available: n, order"),
        (
            {"n": "x", "order": {"color": "red", "due": "today"}},
            "/arguments/n",
            "Input should be a valid integer",
            "also /arguments/order/due: Input should be a valid date",
        ),
    ):
        with pytest.raises(CallError, match=message) as info:
            call_function(ToolCall("take", arguments), [take])
        assert info.value.where == where
        assert (info.value.hint or "").startswith(hint or "")
    with pytest.raises(CallError) as info:
        call_function(ToolCall("Order", {"color": "blue"}), [Order])
    assert info.value.where == "/arguments/color"


@pytest.mark.parametrize(
    ("made", "where", "message"),
    [
        (ToolCall("g", {}), "/name", "the tool 'g' has no function"),
        (ToolCall("h", {}), "/name", "the tool 'h' has no function"),
        (ToolCall("i", {}), "/name", "the tool 'i' has no function"),
        (ToolCall("unknown", {}), "/name", "the tool 'unknown' has no function"),
        (ToolCall("f", {"x": 1}, (Violation("/arguments/x", "no!"),)), "/arguments/x", "no!"),
        (ToolCall("f", {"x": 1}, truncated=True), None, "the call was cut off"),
    ],
)
def test_calls_that_cannot_be_carried_out(made: ToolCall, where: str | None, message: str):
    tools = [
        FunctionTool.from_function(lambda x: x, name="f"),
        FunctionTool.from_schema("g", {}),
        {"name": "h"},
        {"function": {"name": "i"}},
    ]
    with pytest.raises(CallError, match=message) as info:
        call_function(made, tools)
    assert info.value.where == where
    with pytest.raises(CallError, match=message):
        asyncio.run(acall_function(made, tools))


def test_what_a_function_raises_goes_through():
    def fail() -> None:
        Point.__init__()  # a TypeError of its own

    class OwnError(Exception):
        pass

    async def break_() -> None:
        raise OwnError("it")

    for function, error in ((fail, TypeError), (break_, OwnError)):
        made = ToolCall(function.__name__, {})
        with pytest.raises(error):
            call_function(made, [function])
        with pytest.raises(error):
            asyncio.run(acall_function(made, [function]))


def test_a_function_that_raises_stop_iteration_does_not_hang():
    def stop() -> None:
        next(iter(()))

    with pytest.raises(StopIteration):
        call_function(ToolCall("stop", {}), [stop])
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(acall_function(ToolCall("stop", {}), [stop]))


VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


async def read_variable() -> tuple[str, int]:
    await asyncio.sleep(0)
    return VARIABLE.get(), threading.get_ident()


def test_async_functions_without_and_within_a_loop():
    made = ToolCall("read_variable", {})
    here = threading.get_ident()
    assert call_function(made, [read_variable]) == ("unset", here)

    async def within() -> None:
        VARIABLE.set("set")
        assert await acall_function(made, [read_variable]) == ("set", here)
        value, thread = call_function(made, [read_variable])
        assert value == "set"
        assert thread != here

    asyncio.run(within())


def test_sync_functions_run_in_a_thread():
    barrier = threading.Barrier(2, timeout=10)

    def meet(name: str) -> tuple[str, bool]:
        barrier.wait()
        return name, threading.current_thread() is threading.main_thread()

    async def both() -> list[Any]:
        calls = [ToolCall("meet", {"name": name}) for name in "ab"]
        return await asyncio.gather(*(acall_function(made, [meet]) for made in calls))

    assert asyncio.run(both()) == [("a", False), ("b", False)]


def test_objects_and_wrappers_that_are_called_asynchronously():
    class Asker:
        async def __call__(self, x: int) -> int:
            return x + 1

    async def ask(x: int, y: int) -> int:
        return x + y

    hidden = FunctionTool.from_function(lambda x: ask(x, 1), name="f")
    for thing in (
        FunctionTool.from_function(Asker(), name="f"),
        FunctionTool.from_function(functools.partial(ask, y=1), name="f"),
        hidden,
    ):
        assert call(thing, {"x": 1}) == 2


class Odd:
    def __str__(self) -> str:
        return "odd é"


class Aliased(BaseModel):
    value: int = Field(serialization_alias="the value")
    odd: Any = None


LOOPED: list[Any] = []
LOOPED.append(LOOPED)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("é\n", "é\n"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({"é": [1, None]}, '{"é": [1, null]}'),
        ((1, 2), "[1, 2]"),
        (Point(1), '{"x": 1, "y": 0}'),
        ([Point(1)], '[{"x": 1, "y": 0}]'),
        (Aliased(value=1, odd=Odd()), '{"the value": 1, "odd": "odd é"}'),
        (date(2024, 1, 2), "2024-01-02"),
        ({"day": date(2024, 1, 2)}, '{"day": "2024-01-02"}'),
        (Color.RED, "red"),
        (Odd(), "odd é"),
        ([Odd()], '["odd é"]'),
        (b"\xff", "b'\\xff'"),
        (LOOPED, "[[...]]"),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        (["\udcff"], '["\ufffd"]'),
    ],
)
def test_results_as_text(result: Any, text: str):
    assert format_result(result) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values.filter(lambda value: not isinstance(value, str)))
def test_json_results_can_be_read_back(value: Any):
    assert json.loads(format_result(value)) == value


def test_what_generators_yield_is_a_list() -> None:
    def count(to: int) -> Any:
        yield from range(to)

    async def acount(to: int) -> Any:
        for number in range(to):
            yield number

    for function in (count, acount):
        counting = FunctionTool.from_function(function)
        made = ToolCall(counting.name, {"to": 3}, ())
        assert format_result(call_function(made, [counting])) == "[0, 1, 2]"
        assert format_result(asyncio.run(acall_function(made, [counting]))) == "[0, 1, 2]"
