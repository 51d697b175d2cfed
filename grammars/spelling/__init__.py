"""How formats write values (in the style of a template, between tags, by keyword), and how they are
read back.

Needs `wire`, `schema` and `regex`. Start with `styles` and `reading`.
"""
