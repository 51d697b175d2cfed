"""An MCP server that means harm: its tool `flood` says very often that its tools have changed;
`lists` tells how often it was asked for them since."""

import json
import sys
from typing import Any

FLOOD = 3_000  # notifications
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
lists = 0


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result: dict[str, Any] = {}
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "tools/list":
            lists += 1
            names = ("flood", "lists")
            result = {
                "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            }
        case "tools/call":
            if request["params"]["name"] == "flood":
                lists = 0
                print(f"{json.dumps(CHANGED)}\n" * FLOOD, end="", flush=True)
            result = {"content": [{"type": "text", "text": str(lists)}]}
        case _:
            send({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
            continue
    send({"id": request["id"], "result": result})
