"""Tools that the model finds by a search. Start with `tool_search`."""
