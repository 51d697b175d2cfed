"""What the server does beside answering: batches, MCP tools that it calls itself, a store that
several servers share. Stands on the core; the core does not know it.
"""
