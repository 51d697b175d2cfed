"""An MCP server without the package `mcp`, as of 2025: it knows the handshake, sends notifications
by itself, and asks questions in the middle of calls.

    python raw_server.py [NAME]
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "raw"
TOOLS = ["echo", "look", "Odd-name/é", "question", "more", "where", "structured", "hang", "die"]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)


def list_tools(cursor: str | None) -> dict[str, Any]:
    """A page has four tools."""
    first = int(cursor or 0)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools: list[Any] = []
    for name in TOOLS[first : first + 4]:
        hints = {"readOnlyHint": name == "look"}
        tools.append({"name": name, "inputSchema": schema, "annotations": hints})
    more = {"nextCursor": str(first + 4)} if len(TOOLS) > first + 4 else {}
    return {"tools": tools, **more}


def call(name: str, arguments: Any) -> dict[str, Any]:
    match name:
        case "question":
            schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            params = {"message": "Sure?", "requestedSchema": schema}
            send({"id": "q", "method": "elicitation/create", "params": params})
            while (answer := receive()).get("id") != "q":
                pass
            text = json.dumps(answer.get("result") or answer.get("error"))
        case "more":
            TOOLS.append("late")
            send({"method": "notifications/tools/list_changed"})
            text = "there is more"
        case "where":
            told = {"cwd": os.getcwd(), "env": dict(os.environ), "process": os.getpid()}
            text = json.dumps(told)
        case "structured":
            block = {"type": "text", "text": "It is warm."}
            return {"content": [block], "structuredContent": {"degrees": 31}}
        case "hang":
            Path(arguments["text"]).write_text("waiting")
            while receive().get("method") != "notifications/cancelled":
                pass
            Path(arguments["text"]).write_text("cancelled")
            text = "cancelled"
        case "die":
            print("out of memory", file=sys.stderr)
            os._exit(1)
        case _:
            text = f"{name}: {arguments.get('text')}"
    return {"content": [{"type": "text", "text": text}]}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": NAME, "version": "1"},
            }
        case "tools/list":
            return list_tools(params.get("cursor"))
        case "tools/call":
            return call(params["name"], params.get("arguments", {}))
        case _:
            raise LookupError


while True:
    request = receive()
    if "id" not in request or "method" not in request:
        continue
    try:
        send({"id": request["id"], "result": answer(request)})
    except LookupError:
        error = {"code": -32601, "message": "Method not found"}
        send({"id": request["id"], "error": error})
