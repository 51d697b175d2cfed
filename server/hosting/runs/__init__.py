"""Requests whose calls this server executes: the agent loop of the library, with turns of the
server. Also cuts conversations that are too long.

Needs `turns`, `http` and `mcp`. Start with `active_run`; `hosted_request` reads a request and
connects to the MCP servers that it uses; `truncation` drops the oldest messages.
"""
