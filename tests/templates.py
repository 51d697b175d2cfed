"""Chat templates that several tests render, and the tools that they offer."""

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "examples" / "templates"
HERMES = (FOLDER / "hermes.jinja").read_text(encoding="utf-8")
QWEN3_CODER = (FOLDER / "qwen3_coder.jinja").read_text(encoding="utf-8")
# Prefills <think>, as the templates of reasoning models do.
OPEN = HERMES.replace(
    "{%- if enable_thinking is defined %}", "{%- set enable_thinking = true %}{%- if true %}"
)


def tool(name: str, properties: dict[str, Any] | None = None, **schema: Any) -> dict[str, Any]:
    """A tool in OpenAI's shape; all its properties are required."""
    properties = properties or {}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters | schema}}


PING = tool("ping")
PAINT = tool("paint", {"color": {"enum": ["red", "green"]}, "glossy": {"type": "boolean"}})
WRITE = tool("write", {"text": {"type": "string"}})


def hermes_call(name: str, arguments: str = "{}") -> str:
    """A call as Hermes models write it; the arguments are JSON text."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
