"""A model as an MCP server, for MCP clients: typed answers, on this machine."""

import json
from collections.abc import Awaitable
from typing import Annotated, Any, TypedDict, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError as ServerToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from constrained.agent.model import Model
from grammars.errors import Error

T = TypeVar("T")

ANNOTATIONS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ABOUT = """\
A language model of this machine. `extract` always returns a value that fits the schema, and
`choose` one of the options: a mask enforces that for each token."""
MaxTokens = Annotated[int, Field(description="most tokens of the answer", ge=1)]


class TextAnswer(TypedDict):
    """An answer in words; `truncated` if its tokens ran out."""

    text: str
    truncated: bool


class ValueAnswer(TypedDict):
    """A value that fits a schema."""

    value: Any


class ChoiceAnswered(TypedDict):
    """One of some options."""

    choice: str


def make_server(model: Model) -> MCPServer:
    """Returns an MCP server with three tools: `ask`, `extract`, `choose`. The model stays the
    caller's.

    Args:
        model: what answers.
    """
    server = MCPServer("constrained", instructions=ABOUT, log_level="WARNING")

    @server.tool(annotations=ANNOTATIONS)
    async def ask(
        question: str,
        system: Annotated[str, Field(description="system message")] = "",
        max_tokens: MaxTokens = 1024,
    ) -> TextAnswer:
        """Asks the model a question; the answer is a text."""
        messages = [{"role": "user", "content": question}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        reply = await _answer(model.acall(messages, max_tokens=max_tokens))
        return {"text": reply.content, "truncated": reply.finish_reason == "length"}

    @server.tool(annotations=ANNOTATIONS)
    async def extract(
        text: str,
        schema: Annotated[dict[str, Any], Field(description="JSON schema of the value")],
        max_tokens: MaxTokens = 1024,
    ) -> ValueAnswer:
        """Extracts from a text what a JSON schema describes; the value fits the schema."""
        prompt = f"Write as JSON what this schema asks for:\n{json.dumps(schema)}\n\nText:\n{text}"
        generated = model.agenerate(prompt, schema=schema, max_tokens=max_tokens)
        return {"value": await _answer(generated)}

    @server.tool(annotations=ANNOTATIONS)
    async def choose(
        text: str,
        options: Annotated[list[str], Field(description="what to choose from", min_length=1)],
        question: str = "Which of these fits the text?",
    ) -> ChoiceAnswered:
        """Chooses one of some options for a text: a class, a label, yes or no."""
        listed = "\n".join(f"- {option}" for option in options)
        prompt = f"{question} Answer with one of them.\n{listed}\n\nText:\n{text}"
        return {"choice": await _answer(model.agenerate(prompt, choice=options))}

    return server


async def _answer(work: Awaitable[T]) -> T:
    """Awaits the model's answer; an error is passed on to the client with its message."""
    try:
        return await work
    except Error as e:
        raise ServerToolError(str(e)) from e
