"""What dialects share: bodies read, tools of MCP servers, replies written; and the routes that
belong to no dialect. Start with `reading`.
"""
