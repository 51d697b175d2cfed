"""A JSON Schema as the grammar sees it: a small closed set of nodes, and which members and items
may come next.

Needs `regex`. Start with `nodes`.
"""
