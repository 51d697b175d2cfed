"""What the server does beside answering: MCP tools that it calls itself, stores that several
servers share. Stands on the core; the core does not know it.
Start with `mcp.active_run` or `store.store_address`.
"""
