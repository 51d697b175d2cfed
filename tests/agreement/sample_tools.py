"""A few tools as applications really offer them: quick to draw from, and every value in reach."""

from typing import Any

from hypothesis import strategies as st

from grammars.schema.lowering.lower import lower
from grammars.turn import Tool
from tests.schema_strategies import Shape
from tests.text_strategies import TEXTS

_TEXT = {"type": "string"}
_POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x", "y"],
}


def _tool(
    name: str,
    properties: dict[str, Any],
    values: dict[str, st.SearchStrategy[Any]],
    required: tuple[str, ...],
) -> tuple[Tool, Shape]:
    """A tool, and the arguments that fit it, in the order of the schema."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    members = {key: values[key] for key in properties}
    needed = {key: member for key, member in members.items() if key in required}
    optional = {key: member for key, member in members.items() if key not in required}
    drawn = st.fixed_dictionaries(needed, optional=optional)
    ordered = drawn.map(lambda value: {key: value[key] for key in members if key in value})
    return Tool(name, lower(schema)), Shape(schema, ordered)


_EIGHTHS = st.integers(-800, 800).map(lambda n: n / 8)
TOOLS = (
    _tool("ping", {}, {}, ()),
    _tool(
        "get_weather",
        {"city": _TEXT, "days": {"type": "integer", "minimum": 1, "maximum": 14},
         "unit": {"enum": ["celsius", "fahrenheit"]}},
        {"city": TEXTS, "days": st.integers(1, 14), "unit": st.sampled_from(["celsius"])},
        ("city",),
    ),
    _tool(
        "write_file",
        {"path": _TEXT | {"pattern": "^[a-z/]+\\.py$"}, "content": _TEXT,
         "overwrite": {"type": "boolean"}, "mode": {"type": ["string", "null"]}},
        {"path": st.from_regex(r"[a-z/]+\.py", fullmatch=True), "content": TEXTS,
         "overwrite": st.booleans(), "mode": TEXTS.filter(lambda t: t not in ("None", "null"))},
        ("path", "content"),
    ),
    _tool(
        "get_weather_at",
        {"points": {"type": "array", "items": _POINT, "minItems": 1, "maxItems": 3},
         "tags": {"type": "array", "items": _TEXT}, "step": {"type": "integer", "multipleOf": 5}},
        {"points": st.lists(st.builds(lambda x, y: {"x": x, "y": y}, _EIGHTHS, _EIGHTHS),
                            min_size=1, max_size=3),
         "tags": st.lists(TEXTS, max_size=2), "step": st.integers(-20, 20).map(lambda n: 5 * n)},
        ("points",),
    ),
)  # fmt: skip
"""One has no arguments, one's name begins another's, and their schemas are of all kinds."""


def offers() -> st.SearchStrategy[list[tuple[Tool, Shape]]]:
    """One to three of the tools."""
    at = st.lists(st.integers(0, len(TOOLS) - 1), min_size=1, max_size=3, unique=True)
    return at.map(lambda numbers: [TOOLS[n] for n in numbers])
