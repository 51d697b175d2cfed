"""An MCP server that means harm: its tool `flood` says very often that its tools have changed;
`lists` tells how often it was asked for them since. Behind `lose` it does not answer the next list,
and after `quarrel` it refuses each list, and says that its tools have changed. `parts` has a result
of very many parts; `ask` sends pings without reading the answers. The first argument is a list of
more tools, as JSON."""

import json
import sys
from typing import Any

FLOOD = 3_000  # notifications
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
TOOLS = ["flood", "lists", "lose", "quarrel", "add", "parts", "ask"]
MORE = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []
PARTS = 300_000
PINGS = 20_000
lists = 0
loses = quarrels = False


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
            if loses:
                loses = False
                continue
            if quarrels:
                send({"id": request["id"], "error": {"code": -32603, "message": "not now"}})
                send(CHANGED)
                continue
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            result = {"tools": tools + MORE if isinstance(MORE, list) else None}
        case "tools/call":
            name = request["params"]["name"]
            if name != "lists":
                lists = 0
                loses, quarrels = name == "lose", name == "quarrel"
                if name == "add":
                    TOOLS.append("added")
                times = FLOOD if name == "flood" else 1
                print(f"{json.dumps(CHANGED)}\n" * times, end="", flush=True)
            part = {"type": "text", "text": str(lists)}
            result = {"content": [part] * (PARTS if name == "parts" else 1)}
            for number in range(PINGS if name == "ask" else 0):
                send({"id": f"ping {number}", "method": "ping"})
        case _:
            send({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
            continue
    send({"id": request["id"], "result": result})
