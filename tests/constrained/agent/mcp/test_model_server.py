"""A model as an MCP server."""

import asyncio
import sys
from typing import Any

from mcp import Client

from constrained.agent.mcp.model_server import make_server
from constrained.agent.mcp.server import ServerCommand
from constrained.agent.mcp.servers import connect_mcp
from constrained.prompt.tools.execution import call_function
from grammars.turn import ToolCall
from tests.scripted_model import scripted, wishing

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
}


def ask(model: Any, tool: str, **arguments: Any) -> Any:
    async def go() -> Any:
        with model:
            async with Client(make_server(model)) as client:
                return await client.call_tool(tool, arguments)

    return asyncio.run(go())


def test_ask() -> None:
    assert ask(scripted("Rome."), "ask", question="Capital?", system="Be brief.") == ask(
        scripted("Rome."), "ask", question="Capital?"
    )
    cut = ask(scripted("Rome, of course."), "ask", question="Capital?", max_tokens=4)
    assert cut.structured_content == {"text": "Rome", "truncated": True}


def test_extract() -> None:
    said = ask(wishing('{"city": "Rome", "people": 3}'), "extract", text="...", schema=SCHEMA)
    assert said.structured_content == {"value": {"city": "Rome", "people": 3}}
    wrong = ask(scripted("x"), "extract", text="...", schema={"type": "words"})
    assert wrong.is_error
    assert "/type" in wrong.content[0].text


def test_choose() -> None:
    said = ask(wishing("maybe", "no"), "choose", text="...", options=["yes", "no"])
    assert said.structured_content == {"choice": "no"}
    assert ask(scripted("x"), "choose", text="...", options=[]).is_error


def test_the_command() -> None:
    """The demo model, as a program that speaks MCP would start it."""
    command = ServerCommand(sys.executable, ("-m", "constrained", "mcp", "-c", "512"))
    with connect_mcp(command) as servers:
        tools = servers.tools()
        assert {tool.name for tool in tools if tool.read_only} == {"ask", "extract", "choose"}
        result = call_function(ToolCall("ask", {"question": "Hi", "max_tokens": 1}), tools)
        assert result.structured["truncated"]
