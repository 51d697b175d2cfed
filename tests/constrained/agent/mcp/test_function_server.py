"""The functions of a Python file, served over MCP."""

from pathlib import Path

import pytest

from constrained import connect_mcp, load
from constrained.agent.mcp.function_server import make_command
from constrained.errors import RequestError
from constrained.prompt.tools.python_file import load_functions
from tests.command_line import write

SOURCE = '''
print("printed while it is read")
from typing import Literal

from constrained import tool


@tool(read_only=True, repeatable=True)
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict:
    """Forecast for a city"""
    print("printed by a call")
    return {"weather": "sunny", "temperature": 24}


async def fail(reason: str) -> str:
    """Fails"""
    raise ValueError(reason)
'''


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "my-home.py", SOURCE)


def test_functions_are_the_same_tools_as_in_the_file(path: str) -> None:
    with connect_mcp(make_command(path)) as servers, load("demo", threads=1) as model:
        served = servers.tools()
        for there, here in zip(served, load_functions(path), strict=True):
            assert there.to_json() == here.to_json()
            assert there.read_only == here.read_only
        question = "What's the weather in Paris tomorrow?"
        run = model.run(question, served, temperature=0, max_tokens=200)
        (made,) = run.calls
        assert made.call.arguments["city"] == "Paris"
        assert made.content == '{"weather": "sunny", "temperature": 24}'
        failed = model.run("Hi", served, tool_choice="fail", max_steps=1, max_tokens=100)
        assert "ValueError" in failed.calls[0].content


def test_files_of_the_current_folder_are_not_imported(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mcp.py", "raise SystemExit('imported')")
    with connect_mcp(make_command(path)) as servers:
        assert [tool.name for tool in servers.tools()] == ["get_weather", "fail"]


def test_what_is_no_python_file(tmp_path: Path) -> None:
    for file in (write(tmp_path / "tools.json", []), str(tmp_path / "none.py")):
        with pytest.raises(RequestError, match="is no Python file"):
            make_command(file)
