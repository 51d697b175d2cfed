"""What the server does beside answering: batches, MCP tools that it calls itself, stores that
several servers share. Stands on the core; the core does not know it.
Start with `batches.routes`, `mcp.active_run` or `store.store_address`.
"""
