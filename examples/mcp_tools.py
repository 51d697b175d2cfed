"""Tools of an MCP server in a run.

python -m examples.mcp_tools
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from constrained import connect_mcp, load
from constrained.agent.mcp.server import ServerCommand

SERVER = '''
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("home")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> str:
    """The weather of today."""
    return f"21 degrees and a clear sky in {city}"


@server.tool()
def set_light(room: str, on: bool) -> str:
    """Switches a light."""
    return f"the light in the {room} is {'on' if on else 'off'}"


server.run()
'''


def main() -> None:
    """Starts a server, and lets the demo model call its tools."""
    with TemporaryDirectory() as folder:
        program = Path(folder) / "home_server.py"
        program.write_text(SERVER, "utf-8")
        command = ServerCommand(sys.executable, (str(program),))
        with connect_mcp(command) as servers, load() as model:
            for tool in servers.tools():
                print(f"{tool.name}: {'only reads' if tool.read_only else 'may change something'}")
            run = model.run(
                "What's the weather in Rome?",
                servers.tools,
                approve=lambda call: call.name == "get_weather",
                max_steps=3,
                max_tokens=200,
            )
    for made in run.calls:
        print(f"{made.call.name}({made.call.arguments}) -> {made.outcome}: {made.content}")
    print(f"ended: {run.reason}: {run.content}")


if __name__ == "__main__":
    main()
