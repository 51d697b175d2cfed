"""What the server does beside answering: batches, MCP tools that it calls itself, stores that
several servers share. Stands on the core; the core does not know it.
"""
